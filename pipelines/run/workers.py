"""The worker processes of this machine do the tasks: the default, for builds of every size."""

from __future__ import annotations

from collections import Counter

from tokcore.errors import StageError, TokError
from tokcore_pipelines.local.pool import OnProgress, Workers
from tokcore_pipelines.run.task import Step
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.redaction import make_cause, redact
from tokcore_schemas.plan import Plan

# What is worth starting another worker for: it takes a third of a second, in which a running one reads that much.
_WORTH_BYTES = 2 << 20
_WORTH_FILES = 64
_MOST_SUMMED = 100_000


def count_worthwhile_workers(plan: Plan) -> int:
    """How many workers, at most, save more time than they take to start."""
    by_files = -(-len(plan.files) // _WORTH_FILES)
    if len(plan.files) > _MOST_SUMMED:  # enough for any machine, and adding up sizes would take seconds
        return by_files
    return max(1, by_files, -(-plan.size_bytes // _WORTH_BYTES))


class ByWorkers:
    """An Executor by a pool of processes. Tasks find their own records."""

    def __init__(self, workers: Workers) -> None:
        """workers: started, or not yet."""
        self._workers = workers

    def do(self, step: Step, _attempts: Attempts, on_progress: OnProgress | None, measured: Counter[str]) -> bool:
        """As Executor.do. The first failure is raised without waiting for other tasks."""
        pool = self._workers.start()
        assert pool is not None  # an engine has workers of its own
        tasks = step.list_tasks()
        try:
            with pool.reporting_to(on_progress):
                while True:
                    while pool.has_room and (task := next(tasks, None)) is not None:
                        pool.begin(task.function, task.arguments)
                    if (ended := pool.wait()) is None:
                        return False
                    if step.measure is not None:
                        measured.update(step.measure(ended[1]))
        except TokError:
            raise
        except Exception as error:
            raise StageError(f"stage {step.name}: {redact(f'{type(error).__name__}: {error}')}") from make_cause(error)
        finally:
            pool.forget()
