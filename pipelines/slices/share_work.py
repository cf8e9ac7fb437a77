"""The work of one pass, done by all slices together: each does its share, then free pieces, then those of lost slices.

A piece of work is done when it has its record, from any host. Who does it is only a matter of economy: two hosts
may do the same piece, and the first record wins.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from pipelines.local.pool import OnProgress, Pool
from pipelines.slices.claims import Claims
from pipelines.slices.outcomes import MadeElsewhere
from pipelines.slices.session import Session
from pipelines.store import storage, urls
from pipelines.store.attempts import Attempts


@dataclasses.dataclass(frozen=True, slots=True)
class Task:
    """A piece of work that leaves a record."""

    key: str  # of the record
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    owner: int = 0  # slice whose share it is; 0: of the one that claims it
    size_bytes: int = 0  # stored bytes that it reads
    measure: Callable[[Any], Mapping[str, int]] | None = None  # of what the function returns


class SharedWork:
    """The tasks of one pass."""

    def __init__(
        self,
        session: Session,
        what: str,
        attempts: Attempts,
        tasks: Sequence[Task],
        is_made: Callable[[], bool],
        on_progress: OnProgress | None,
    ) -> None:
        """what: name of the pass, for people. is_made: whether the stage has been committed."""
        self.metrics: collections.Counter[str] = collections.Counter()
        self._session = session
        self._what = what
        self._attempts = attempts
        self._is_made = is_made
        self._on_progress = on_progress
        self._claims = Claims(attempts, session.share)
        self._left = {task.key: task for task in tasks}
        self._num = len(tasks)
        self._running: dict[Future[Any], Task] = {}
        self._at_work: set[str] = set()  # keys of what runs
        number = session.share.number
        self._own = collections.deque(task for task in tasks if task.owner == number)
        free = [task for task in tasks if not task.owner]
        start = len(free) * (number - 1) // session.share.of  # each slice begins elsewhere, so few claim the same
        self._free = collections.deque([*free[start:], *free[:start]])
        self._lost: collections.deque[Task] = collections.deque()

    def run(self, pool: Pool, num_workers: int) -> None:
        """Return when every task has its record.

        Raises what a task raises, MadeElsewhere if another slice commits the stage meanwhile, SliceWaits if others
        have work left and this slice is not to wait.
        """
        self._session.begin()
        self._look()
        threads = ThreadPoolExecutor(num_workers)
        try:
            with pool.reporting_to(self._on_progress):
                self._work(pool, threads, num_workers)
        except MadeElsewhere:
            # What runs would leave files in a folder that has been removed: it ends before that is cleaned up.
            threads.shutdown(wait=True, cancel_futures=True)
            raise
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def _work(self, pool: Pool, threads: ThreadPoolExecutor, num_workers: int) -> None:
        while self._left:
            while len(self._running) < num_workers and (task := self._choose()) is not None:
                self._at_work.add(task.key)
                self._running[threads.submit(pool.run, task.function, *task.arguments)] = task
            if self._running:
                done, _ = wait(self._running, timeout=self._session.poll_s, return_when=FIRST_COMPLETED)
                for future in done:
                    self._finish(self._running.pop(future), future.result())
            else:
                self._session.wait(self._what, self._count_others())
            if self._left and self._session.is_time_to_look():
                self._look()

    def _finish(self, task: Task, result: Any) -> None:
        self._at_work.remove(task.key)
        self._left.pop(task.key, None)
        if task.measure is not None:
            self.metrics.update(task.measure(result))

    def _look(self) -> None:
        """See what others have done, and who is lost."""
        if self._is_made():
            raise MadeElsewhere(f"{self._what}: another slice has committed the stage")
        self._session.look(self._look_at_records)
        self._lost.clear()
        number = self._session.share.number
        lost: dict[int, list[Task]] = {}
        for task in self._left.values():
            holder = self._find_holder(task)
            if holder == number != task.owner:
                self._own.append(task)  # claimed by a process of this slice that was killed
            elif holder not in (number, 0) and self._session.share.waits and self._session.is_lost(holder):
                lost.setdefault(holder, []).append(task)
        for holder, tasks in lost.items():
            self._session.tell_lost(self._what, holder, f"{len(tasks):,} pieces of work")
            start = len(tasks) * (number - 1) // self._session.share.of
            self._lost.extend([*tasks[start:], *tasks[:start]])

    def _look_at_records(self) -> None:
        for name in storage.list_tree(urls.join(self._attempts.folder, "done")):
            key = name.removesuffix(".json")
            if key in self._left and key not in self._at_work:
                task = self._left.pop(key)
                if self._on_progress is not None and task.size_bytes:
                    self._on_progress("read", task.size_bytes)
        self._claims.look()

    def _find_holder(self, task: Task) -> int:
        """The slice that is to do a task; 0 if none has claimed it yet."""
        holder = self._claims.find_holder(task.key)
        return task.owner if holder is None else holder

    def _choose(self) -> Task | None:
        """The next task that this slice is to do; None if there is none as of the last look."""
        for waiting in (self._own, self._free, self._lost):
            while waiting:
                task = waiting.popleft()
                if task.key in self._left and task.key not in self._at_work and self._may_do(task):
                    return task
        return None

    def _may_do(self, task: Task) -> bool:
        """Whether this slice may do a task. It claims a task that no slice holds, or that a lost one holds."""
        holder = self._find_holder(task)
        if holder == self._session.share.number:
            return True
        is_lost = self._session.share.waits and holder != 0 and self._session.is_lost(holder)
        return (holder == 0 or is_lost) and self._claims.take(task.key)

    def _count_others(self) -> dict[int, str]:
        """Slice -> how much it has to do yet."""
        counted = collections.Counter(self._find_holder(task) for task in self._left.values())
        return {number: f"{num:,} of {self._num:,} pieces of work" for number, num in counted.items()}
