"""What a stage consists of: steps of tasks, each a call that leaves a record. Executors do them, one step at a time.

A stage gives Step after Step; the next one is made from what the tasks of the last one recorded.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Protocol, TypeVar, cast

from tokcore_pipelines.local.pool import OnProgress
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.combining import Combining
from tokcore_schemas.plan import Assignment, Plan, WorkItem

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Task:
    """A piece of work that leaves a record."""

    key: str  # of the record
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    owner: int = 0  # slice whose share it is; 0: of the one that claims it
    size_bytes: int = 0  # stored bytes that it reads
    measure: Callable[[Any], Mapping[str, int]] | None = None  # of what the function returns


class Pieces(Protocol):
    """What the tasks of a step differ in: dataclasses, or tuples of such. They may be made when they are asked for."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """Tasks that may run at the same time, in any order, on any hosts: function(*shared, piece) for each piece.

    There may be ten million, so there is no list of them.
    """

    name: str  # of the job of an engine, and for people
    function: Callable[..., Any]
    shared: tuple[Any, ...]
    pieces: Pieces  # the large ones first
    key: Callable[[Any], str]  # of the record of a piece
    measure: Callable[[Any], Mapping[str, int]] | None = None  # of what the function returns
    is_dealt: bool = True  # whether each slice has a share; else each task is of the slice that claims it
    combining: Combining | None = None  # how an engine may go on by itself with what the tasks leave

    def list_tasks(self, of: int = 1) -> Iterator[Task]:
        """All tasks. of: slices, to which the pieces are dealt."""
        for rank, piece in enumerate(self.pieces):
            owner = rank % of + 1 if self.is_dealt else 0
            size_bytes = getattr(piece, "size_bytes", 0)
            yield Task(self.key(piece), self.function, (*self.shared, piece), owner, size_bytes, self.measure)

    def list_sizes(self) -> dict[str, int]:
        """The key of each task's record -> the stored bytes that the task reads."""
        pieces = self.pieces.plan.items if isinstance(self.pieces, Items) else self.pieces
        return {self.key(piece): getattr(piece, "size_bytes", 0) for piece in pieces}


@dataclasses.dataclass(frozen=True, slots=True)
class Items:
    """The work items of a plan as the pieces of a step, the largest first; each is made when it is asked for."""

    plan: Plan

    def __len__(self) -> int:
        return len(self.plan.items)

    def __iter__(self) -> Iterator[Assignment]:
        return map(self.plan.assignment, self.plan.list_largest_first())


def name_by_number(make_key: Callable[[int], str]) -> Callable[[Any], str]:
    """The record key of a piece, by its number."""

    def key(piece: Assignment | WorkItem | Any) -> str:
        return make_key(piece.number)

    return key


class Executor(Protocol):
    """What does the tasks of a step."""

    def do(self, step: Step, attempts: Attempts, on_progress: OnProgress | None, measured: Counter[str], /) -> bool:
        """Return when every task has its record; whether all that step.combining says is done, too.

        on_progress gets stored bytes that were read; measured, what step.measure gives. Raises a TokError of a task as
        it is, StageError for any other failure.
        """


def do_steps(
    executor: Executor,
    steps: Generator[Step, bool, T],
    attempts: Attempts,
    on_progress: OnProgress | None = None,
    measured: Counter[str] | None = None,
) -> T:
    """Have all steps done, one after another; what their generator returns.

    It is sent what Executor.do gave for the step before. on_progress, measured, errors: as for Executor.do.
    """
    amounts = Counter[str]() if measured is None else measured
    goes_on = None
    while True:
        try:
            step = steps.send(cast("bool", goes_on))
        except StopIteration as ended:
            return cast("T", ended.value)
        goes_on = len(step.pieces) > 0 and executor.do(step, attempts, on_progress, amounts)
