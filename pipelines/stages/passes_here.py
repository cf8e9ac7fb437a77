"""The passes of a build in the calling thread: no processes, no Beam. For a build that is one element of a stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pipelines.local.pool import OnProgress
from pipelines.slices.share_work import Task
from pipelines.slices.sliced_passes import SlicedPasses
from pipelines.store import storage, urls
from pipelines.store.attempts import Attempts


class PassesHere(SlicedPasses):
    """The tasks of slices, of which this thread has all, one after another; but those that left a record."""

    def __init__(self) -> None:
        """Without a session, or workers."""

    def _run(
        self, _what: str, attempts: Attempts, _on_progress: OnProgress | None, tasks: Sequence[Task]
    ) -> dict[str, int]:
        done = {name.removesuffix(".json") for name in storage.list_tree(urls.join(attempts.folder, "done"))}
        measured: Counter[str] = Counter()
        for task in tasks:
            if task.key not in done:
                result = task.function(*task.arguments)
                if task.measure is not None:
                    measured.update(task.measure(result))
        return dict(sorted(measured.items()))

    def _deal(self, _rank: int) -> int:
        return 1
