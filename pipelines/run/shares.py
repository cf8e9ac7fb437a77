"""The tasks of a step, done by all slices together: each does its share, then free ones, then those of lost slices.

A piece of work is done when it has its record, from any host. Who does it is only a matter of economy: two hosts
may do the same piece, and the first record wins.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from tokcore_pipelines.local.pool import OnProgress, Pool, Workers
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.run.slices.claims import Claims
from tokcore_pipelines.run.slices.outcomes import MadeElsewhere
from tokcore_pipelines.run.slices.session import Session
from tokcore_pipelines.run.task import Step, Task
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts


class BySlices:
    """An Executor by several hosts, of which this is one. Dealt tasks are shares, others are claimed."""

    def __init__(self, session: Session, options: RunOptions, workers: Workers, is_made: Callable[[], bool]) -> None:
        """is_made: whether the stage has been committed."""
        self._session = session
        self._options = options
        self._workers = workers
        self._is_made = is_made

    def do(self, step: Step, attempts: Attempts, on_progress: OnProgress | None, measured: Counter[str]) -> bool:
        """As Executor.do; measured gets what this slice did. Raises as SharedWork.run, too."""
        pool = self._workers.start()
        assert pool is not None  # slices have no engine
        tasks = [*step.list_tasks(self._session.share.of)]
        work = SharedWork(self._session, step.name, attempts, tasks, self._is_made, on_progress, measured)
        work.run(pool, self._options.num_workers)
        return False


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
        measured: Counter[str],
    ) -> None:
        """what: name of the step, for people. is_made: whether the stage has been committed. measured: gets more."""
        self._measured = measured
        self._session = session
        self._what = what
        self._attempts = attempts
        self._is_made = is_made
        self._on_progress = on_progress
        self._claims = Claims(attempts, session.share)
        self._left = {task.key: task for task in tasks}
        self._num = len(tasks)
        self._at_work: dict[str, Task] = {}  # what runs, by key
        number = session.share.number
        self._own = deque(task for task in tasks if task.owner == number)
        free = [task for task in tasks if not task.owner]
        start = len(free) * (number - 1) // session.share.of  # each slice begins elsewhere, so few claim the same
        self._free = deque([*free[start:], *free[:start]])
        self._lost: deque[Task] = deque()

    def run(self, pool: Pool, num_workers: int) -> None:
        """Return when every task has its record.

        Raises what a task raises, MadeElsewhere if another slice commits the stage meanwhile, SliceWaits if others
        have work left and this slice is not to wait.
        """
        self._session.begin()
        self._look()
        with pool.reporting_to(self._on_progress):
            try:
                self._work(pool, num_workers)
            except MadeElsewhere:
                # What runs would leave files in a folder that has been removed: it ends before that is cleaned up.
                pool.settle()
                raise
            finally:
                pool.forget()

    def _work(self, pool: Pool, num_workers: int) -> None:
        while self._left:
            while len(self._at_work) < num_workers and (task := self._choose()) is not None:
                self._at_work[task.key] = task
                pool.begin(task.function, task.arguments, task.key)
            if self._at_work:
                if (ended := pool.wait(self._session.poll_s)) is not None:
                    self._finish(self._at_work[ended[0]], ended[1])
            else:
                self._session.wait(self._what, self._count_others())
            if self._left and self._session.is_time_to_look():
                self._look()

    def _finish(self, task: Task, result: Any) -> None:
        del self._at_work[task.key]
        self._left.pop(task.key, None)
        if task.measure is not None:
            self._measured.update(task.measure(result))

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
        counted = Counter(self._find_holder(task) for task in self._left.values())
        return {number: f"{num:,} of {self._num:,} pieces of work" for number, num in counted.items()}
