"""In which order sorted runs are merged, and merges that are pieces of work of their own. No Beam.

Addition of counts is associative and commutative, so any tree of merges gives the same rows. Runs are merged with runs
of about their size (a tier is fan_in times as large as the one below it), so each row is read once a tier.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from tokcore.errors import StageError
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.runs import make_table_record_key, merge_runs, write_count_table
from tokcore_pipelines.work.token_count_runs import merge_id_runs
from tokcore_schemas.refs import RunRef, TableRef

# Runs of about one size that are merged into one: open files of one merge, too.
FAN_IN = 16

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
    """Runs that are merged: those of a table and partition, or counts of ids of a group."""

    key: str  # of the record
    runs: tuple[RunRef, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ToTable:
    """What a count table is made of."""

    spelled: str  # the key of its rows
    merged: tuple[str, ...]  # merges, by the keys of their records
    runs: tuple[RunRef, ...]  # those that needed no merge

    @property
    def key(self) -> str:
        """Of the record."""
        return make_table_record_key(self.spelled)


@dataclasses.dataclass(frozen=True, slots=True)
class MergedRuns:
    """The record of a merge: few runs with the same sum as many."""

    runs: tuple[RunRef, ...]


def choose_max_runs(num_partitions: int) -> int:
    """How many runs of a table and partition are left for the table: it is a merge in any case."""
    return max(1, FAN_IN // num_partitions)


def merge_to_few(attempts: Attempts, max_runs: int, of: ToMerge) -> MergedRuns:
    """Merge the runs of a table and partition until at most max_runs are left."""
    if (done := attempts.result(of.key, MergedRuns)) is not None:
        return done
    return attempts.record(of.key, MergedRuns(tuple(_merge_all(attempts, of.runs, max_runs))))


def write_merged_table(attempts: Attempts, result_key: str, of: ToTable) -> TableRef:
    """A count table."""
    found = [*of.runs, *(run for key in of.merged for run in _read_merged(attempts, key).runs)]
    return write_count_table(attempts, of.spelled, tuple(sorted(found, key=order_runs)), result_key)


def keep_token_counts(attempts: Attempts, of: ToMerge) -> RunRef:
    """Add up the counts of token ids of a group, and record them for the driver."""
    if (done := attempts.result(of.key, RunRef)) is not None:
        return done

    def merge(few: list[RunRef]) -> RunRef:
        return merge_id_runs(attempts, tuple(sorted(few, key=order_runs)))

    return attempts.record(of.key, merge_down(of.runs, 1, merge)[0])


def _merge_all(attempts: Attempts, runs: Sequence[RunRef], num: int) -> list[RunRef]:
    def merge(few: list[RunRef]) -> RunRef:
        return merge_runs(attempts, tuple(sorted(few, key=order_runs)))

    return merge_down(runs, num, merge)


def _read_merged(attempts: Attempts, key: str) -> MergedRuns:
    if (found := attempts.result(key, MergedRuns)) is None:
        raise StageError(f"stage {attempts.stage}: there is no result for {key}. Run the command again.")
    return found
