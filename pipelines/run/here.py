"""The calling thread does the tasks, one after another."""

from __future__ import annotations

from collections import Counter

from tokcore_pipelines.local.pool import OnProgress
from tokcore_pipelines.run.task import Step
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts


class Here:
    """An Executor without processes. It passes over tasks that left a record."""

    def do(self, step: Step, attempts: Attempts, _on_progress: OnProgress | None, measured: Counter[str]) -> bool:
        """As Executor.do; what a task raises is raised as it is."""
        done = {name.removesuffix(".json") for name in storage.list_tree(urls.join(attempts.folder, "done"))}
        for task in step.list_tasks():
            if task.key not in done:
                result = task.function(*task.arguments)
                if task.measure is not None:
                    measured.update(task.measure(result))
        return False
