"""The passes of a build on this machine without Beam: by worker processes, or in the calling thread.

Beam takes one to two seconds to import and to plan a pass, which small builds would notice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from pipelines.local.pool import OnProgress, Pool, Workers
from pipelines.slices.share_work import Task
from pipelines.slices.sliced_passes import SlicedPasses
from pipelines.store import storage, urls
from pipelines.store.attempts import Attempts
from pipelines.store.redaction import make_cause, redact
from tokcore.errors import StageError, TokError


class _AllPasses(SlicedPasses):
    """The tasks of slices, of which this process has all."""

    def _deal(self, _rank: int) -> int:
        return 1


class PassesHere(_AllPasses):
    """The calling thread does the tasks, one after another, but those that left a record."""

    def __init__(self) -> None:
        """Without a session, or workers."""

    def _run(
        self, _what: str, attempts: Attempts, _on_progress: OnProgress | None, tasks: Sequence[Task]
    ) -> dict[str, int]:
        done = {name.removesuffix(".json") for name in storage.list_tree(urls.join(attempts.folder, "done"))}
        left = [task for task in tasks if task.key not in done]
        return _measure(left, (task.function(*task.arguments) for task in left))


class PassesByWorkers(_AllPasses):
    """The workers of this process do the tasks; work items find their records themselves."""

    def __init__(self, workers: Workers) -> None:
        """workers: started, or not yet."""
        self._workers = workers

    def _run(
        self, what: str, _attempts: Attempts, on_progress: OnProgress | None, tasks: Sequence[Task]
    ) -> dict[str, int]:
        pool = self._workers.start()
        assert pool is not None  # an engine has passes of its own
        try:
            with pool.reporting_to(on_progress):
                return _measure(tasks, _run_in_pool(pool, tasks))
        except TokError:
            raise
        except Exception as error:
            raise StageError(f"stage {what}: {redact(f'{type(error).__name__}: {error}')}") from make_cause(error)


def _run_in_pool(pool: Pool, tasks: Sequence[Task]) -> list[object]:
    """What the tasks return. Raises the error of the first that fails, without waiting for the others."""
    threads = ThreadPoolExecutor(len(pool.process_ids))
    try:
        futures = [threads.submit(pool.run, task.function, *task.arguments) for task in tasks]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        failed = [future for future in futures if future in done and future.exception() is not None]
        return [future.result() for future in failed or futures]
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _measure(tasks: Iterable[Task], results: Iterable[object]) -> dict[str, int]:
    measured: Counter[str] = Counter()
    for task, result in zip(tasks, results, strict=True):
        if task.measure is not None:
            measured.update(task.measure(result))
    return dict(sorted(measured.items()))
