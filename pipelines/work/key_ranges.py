"""Into which ranges of keys the rows of all count tables are dealt, so that several workers can merge them. No Beam.

The key of a row is (table, pre-token). Ranges of it are as many as the plan is large, whatever its languages: a range
holds many small tables, or a part of a large one. Where they begin follows from a sample of the text, so that each gets
about as many rows. The first worker that needs them records them with the counts. What tables hold does not depend on
them, so no content id does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from tokcore.count.keyed_runs import Piece
from tokcore.count.pretoken_rows import CountRows
from tokcore.count.pretoken_tables import split_rows
from tokcore.errors import StageError
from tokcore_pipelines.store.attempts import Attempts
from tokcore_schemas.plan import Assignment, Plan

# A range costs each work item and each merge about a millisecond; the last merge of a range is one worker's.
BYTES_PER_RANGE = 64 << 20  # as stored
MAX_RANGES = 64
_SAMPLED_ITEMS = 64

_RANGES_KEY = "ranges"
_SAMPLE_KEY = "sample"


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """The first key of a range. Keys are in the order of their spelling, pre-tokens in that of their bytes."""

    key: str  # CountKey.spell()
    pretoken: str  # hexadecimal; empty: the table is not cut here


@dataclasses.dataclass(frozen=True, slots=True)
class KeyRanges:
    """All keys below the first bound, from there to the second, and so on."""

    bounds: tuple[Bound, ...] = ()

    def deal(self, pieces: Iterable[Piece]) -> Iterator[tuple[int, Piece]]:
        """(range, piece) for pieces in the order of keys, which are cut where ranges begin; in the order of ranges."""
        number = 0
        for key, rows in pieces:
            start = 0
            while start < rows.num_rows:
                while number < len(self.bounds) and self.bounds[number].key < key:
                    number += 1
                end = rows.num_rows
                if number < len(self.bounds) and self.bounds[number].key == key:
                    end = _find_row(rows, bytes.fromhex(self.bounds[number].pretoken), start)
                if end > start:
                    yield number, (key, rows.slice(start, end))
                if end < rows.num_rows:
                    number += 1
                start = end

    def find_part(self, key: str, number: int) -> int | None:
        """Which part of a table is in a range, from 0; None if the table is in no other range.

        >>> ranges = KeyRanges((Bound("de", ""), Bound("en", "6d"), Bound("en", "73")))
        >>> [ranges.find_part("en", number) for number in (1, 2, 3)], ranges.find_part("de", 1)
        ([0, 1, 2], None)
        """
        first = next((i for i, bound in enumerate(self.bounds) if bound.key == key and bound.pretoken), None)
        return None if first is None else number - first


@dataclasses.dataclass(frozen=True, slots=True)
class HashedKeys:
    """Pre-tokens dealt by a hash, where there is no plan that could be sampled. Each table may be in all of them."""

    num: int  # a power of two

    def deal(self, pieces: Iterable[Piece]) -> Iterator[tuple[int, Piece]]:
        """As KeyRanges.deal; all rows are held."""
        parts: list[list[Piece]] = [[] for _ in range(self.num)]
        for key, rows in pieces:
            for part, own in zip(parts, split_rows(rows, self.num), strict=True):
                if own.num_rows:
                    part.append((key, own))
        return ((number, piece) for number, part in enumerate(parts) for piece in part)


def choose_num_ranges(stored_bytes: int) -> int:
    """How many ranges the counts of so many stored bytes are dealt into.

    >>> [choose_num_ranges(size) for size in (0, 1 << 26, (1 << 26) + 1, 1 << 29, 1 << 40)]
    [1, 1, 2, 8, 64]
    """
    return min(MAX_RANGES, max(1, -(-stored_bytes // BYTES_PER_RANGE)))


def choose_ranges(pieces: Sequence[Piece], num: int) -> KeyRanges:
    """At most num ranges with about as many of these rows each. A table that fits into one is not cut.

    pieces: one of each table, in the order of keys.
    """
    total = sum(rows.num_rows for _, rows in pieces)
    bounds: list[Bound] = []
    seen = 0  # rows of the tables before
    for key, rows in pieces:
        first, end = (-(-at * num // max(1, total)) for at in (seen, seen + rows.num_rows))
        for number in range(max(1, first), min(num, end)):
            row = number * total // num - seen
            is_whole = rows.num_rows * num <= total or row <= 0
            bound = Bound(key, "" if is_whole else rows.keys.text(row).hex())
            if not bounds or bounds[-1] != bound:
                bounds.append(bound)
        seen += rows.num_rows
    return KeyRanges(tuple(bounds))


def find_ranges(attempts: Attempts) -> KeyRanges | None:
    """The ranges of a stage; None if no worker has recorded them."""
    return attempts.result(_RANGES_KEY, KeyRanges)


def require_ranges(attempts: Attempts, num: int) -> KeyRanges:
    """The ranges of a stage whose work items are counted. num: as the plan says."""
    if num == 1:
        return KeyRanges()
    if (found := find_ranges(attempts)) is None:
        raise StageError(f"stage {attempts.stage}: there is no result for {_RANGES_KEY}. Run the command again.")
    return found


def record_ranges(attempts: Attempts, ranges: KeyRanges) -> KeyRanges:
    """Record ranges unless another worker did so first; those that are recorded."""
    return attempts.record(_RANGES_KEY, ranges)


# ----------------------------------------------------------------------------------------- what they are sampled from


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """Ranges of input files, spread over a plan, of which workers read the beginning."""

    assignments: tuple[Assignment, ...]


def note_sample(attempts: Attempts, plan: Plan) -> None:
    """Record which inputs of a plan workers may sample."""
    num = min(_SAMPLED_ITEMS, len(plan.items))
    chosen = (plan.items[(2 * i + 1) * len(plan.items) // (2 * num)] for i in range(num))
    given = (plan.assignment(item) for item in chosen)
    attempts.record(
        _SAMPLE_KEY, Sample(tuple(dataclasses.replace(one, ranges=one.ranges[:1], drops=None) for one in given))
    )


def read_sample(attempts: Attempts) -> tuple[Assignment, ...]:
    """What note_sample recorded."""
    found = attempts.result(_SAMPLE_KEY, Sample)
    return () if found is None else found.assignments


def _find_row(rows: CountRows, pretoken: bytes, low: int) -> int:
    """The first row, from low on, whose key is not below a pre-token; the number of rows if there is none."""
    high = rows.num_rows
    while low < high:
        middle = (low + high) // 2
        if rows.keys.text(middle) < pretoken:
            low = middle + 1
        else:
            high = middle
    return low
