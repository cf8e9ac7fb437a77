"""In which order sorted runs are merged, and merges that are pieces of work of their own. No Beam.

Addition of counts is associative and commutative, so any tree of merges gives the same rows. Runs are merged with runs
of about their size (a tier is fan_in times as large as the one below it), so each row is read once a tier.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from tokcore.count.keyed_runs import Piece, merge_keyed_rows
from tokcore.errors import StageError
from tokcore_pipelines.local.worker import report_progress
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.work.runs import merge_runs, read_sections, write_section
from tokcore_pipelines.work.token_count_runs import merge_id_runs
from tokcore_schemas.refs import ItemCounted, RunFile, RunRef, pack_runs

T = TypeVar("T")

# Runs of about one size that are merged into one: open files of one merge, too.
FAN_IN = 16

_READ_TOGETHER_BYTES = 16 << 20  # of runs: in a store, what is fetched at a time

Merge = Callable[[list[RunRef]], RunRef]


def bound_runs(runs: Sequence[RunRef], merge: Merge, fan_in: int = FAN_IN) -> list[RunRef]:
    """Runs with the same sum, fewer than fan_in of each tier, in the order of size."""
    runs = sorted(runs, key=_order_by_size)
    while (start := _find_full_tier(runs, fan_in)) is not None:
        end = start + fan_in
        runs = sorted([*runs[:start], *runs[end:], merge(runs[start:end])], key=_order_by_size)
    return runs


def _find_full_tier(runs: Sequence[RunRef], fan_in: int) -> int | None:
    """Where the lowest tier of at least fan_in runs begins; None if there is none. runs: in the order of size."""
    tiers = [run.size_bytes.bit_length() // (fan_in.bit_length() - 1) for run in runs]
    last = fan_in - 1
    return next((i for i, tier in enumerate(tiers[: max(0, len(tiers) - last)]) if tiers[i + last] == tier), None)


def reduce_runs(runs: Sequence[RunRef], num: int, merge: Merge, fan_in: int = FAN_IN) -> list[RunRef]:
    """At most num runs with the same sum. The smallest are merged first, at most fan_in at a time."""
    left = list(runs)
    while len(left) > num:
        left = sorted(left, key=_order_by_size)
        # After this merge, others of fan_in runs each leave exactly num.
        size = (len(left) - num - 1) % (fan_in - 1) + 2
        left = [*left[size:], merge(left[:size])]
    return left


def merge_down(runs: Sequence[RunRef], num: int, merge: Merge) -> list[RunRef]:
    """At most num runs with the same sum as any number of runs, taken up a few at a time, as by a CombineFn."""
    few: list[RunRef] = []
    for start in range(0, len(runs), FAN_IN):
        few = bound_runs([*few, *runs[start : start + FAN_IN]], merge)
    return reduce_runs(few, num, merge)


def order_runs(run: RunRef) -> tuple[int, str, int]:
    """One order of runs, so that equal sets of them are merged alike."""
    return run.partition, run.attempt, run.offset


def _order_by_size(run: RunRef) -> tuple[int, int, str, int]:
    return run.size_bytes, *order_runs(run)


# ----------------------------------------------------------------------------------------- whole merges, in one process


@dataclasses.dataclass(frozen=True, slots=True)
class ToMerge:
    """Runs of counts of ids that are merged: those of a group."""

    key: str  # of the record
    runs: tuple[RunRef, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class FilesToMerge:
    """Run files that are merged into one: those of consecutive work items, or of consecutive merges of such."""

    level: int  # 0: of work items
    number: int  # among those of the level
    end: int  # how many there are below

    @property
    def key(self) -> str:
        """Of the record."""
        return _make_file_key(self.level + 1, self.number)

    def list_below(self) -> list[str]:
        """The keys of the records that name the files."""
        first = self.number * FAN_IN
        return [_make_file_key(self.level, number) for number in range(first, min(self.end, first + FAN_IN))]


@dataclasses.dataclass(frozen=True, slots=True)
class MergesOfLevel:
    """All merges of a level, each made when it is asked for."""

    level: int
    num_below: int

    def __len__(self) -> int:
        return -(-self.num_below // FAN_IN)

    def __iter__(self) -> Iterator[FilesToMerge]:
        return (FilesToMerge(self.level, number, self.num_below) for number in range(len(self)))


@dataclasses.dataclass(frozen=True, slots=True)
class MergedFile:
    """The record of a merge of run files."""

    file: RunFile


def merge_files(attempts: Attempts, of: FilesToMerge) -> MergedFile:
    """Merge run files, range by range."""
    if (done := attempts.result(of.key, MergedFile)) is not None:
        return done
    files = [file for key in of.list_below() for file in read_run_files(attempts, key, of.level)]
    with attempts.new_file(f"{of.key}.runs", skip_empty=True) as new:
        runs = [
            write_section(new.file, new.attempt, number, merge_keyed_rows(sections))
            for some in _take_a_few(gather_runs(files))
            for number, sections in _read_ranges(attempts, some)
        ]
    merged = pack_runs(new.attempt, runs)
    reach("merge.written")
    report_progress("runs", merged.size_bytes - sum(file.size_bytes for file in files))
    return attempts.record(of.key, MergedFile(merged))


def read_run_files(attempts: Attempts, key: str, level: int) -> tuple[RunFile, ...]:
    """The run files that a record names. level: 0 for that of a work item, above it for those of merges."""
    if level == 0:
        return _require(attempts, key, ItemCounted).runs
    return (_require(attempts, key, MergedFile).file,)


def list_last_files(attempts: Attempts, level: int, num: int) -> list[RunFile]:
    """The run files that are left when all merges are done: few enough to be merged into tables."""
    keys = (_make_file_key(level, number) for number in range(num))
    return [file for key in keys for file in read_run_files(attempts, key, level)]


def gather_runs(files: Iterable[RunFile]) -> dict[int, tuple[RunRef, ...]]:
    """Range of keys -> its runs in all files, in the order of ranges."""
    gathered: defaultdict[int, list[RunRef]] = defaultdict(list)
    for file in files:
        for run in file.list_runs():
            gathered[run.partition].append(run)
    return {number: tuple(gathered[number]) for number in sorted(gathered)}


def reduce_to_few(attempts: Attempts, runs: Sequence[RunRef]) -> tuple[RunRef, ...]:
    """Runs with the same sum, at most FAN_IN: a work item that spilled often leaves many."""

    def merge(few: list[RunRef]) -> RunRef:
        return merge_runs(attempts, tuple(sorted(few, key=order_runs)))

    return tuple(reduce_runs(runs, FAN_IN, merge))


def _take_a_few(gathered: Mapping[int, tuple[RunRef, ...]]) -> Iterator[list[tuple[int, tuple[RunRef, ...]]]]:
    """Consecutive ranges whose runs are read together: in a store, those of one file with one request."""
    few: list[tuple[int, tuple[RunRef, ...]]] = []
    size_bytes = 0
    for number, runs in gathered.items():
        few.append((number, runs))
        size_bytes += sum(run.size_bytes for run in runs)
        if size_bytes >= _READ_TOGETHER_BYTES:
            yield few
            few, size_bytes = [], 0
    if few:
        yield few


def _read_ranges(
    attempts: Attempts, few: Sequence[tuple[int, tuple[RunRef, ...]]]
) -> Iterator[tuple[int, list[Iterator[Piece]]]]:
    reduced = [(number, reduce_to_few(attempts, runs)) for number, runs in few]
    sections = iter(read_sections(attempts, [run for _, runs in reduced for run in runs]))
    return ((number, list(itertools.islice(sections, len(runs)))) for number, runs in reduced)


def _make_file_key(level: int, number: int) -> str:
    return make_counted_key(number) if level == 0 else f"merged-{level}-{number:05d}"


def make_counted_key(number: int) -> str:
    """The record key of a work item that was counted."""
    return f"counted-{number:05d}"


def keep_token_counts(attempts: Attempts, of: ToMerge) -> RunRef:
    """Add up the counts of token ids of a group, and record them for the driver."""
    if (done := attempts.result(of.key, RunRef)) is not None:
        return done

    def merge(few: list[RunRef]) -> RunRef:
        return merge_id_runs(attempts, tuple(sorted(few, key=order_runs)))

    return attempts.record(of.key, merge_down(of.runs, 1, merge)[0])


def _require(attempts: Attempts, key: str, cls: type[T]) -> T:
    if (found := attempts.result(key, cls)) is None:
        raise StageError(f"stage {attempts.stage}: there is no result for {key}. Run the command again.")
    return found
