"""The last merge of a range of keys, which writes the count tables in it. No Beam.

A table that lies in one range is written here; of one that several ranges share, each leaves its part, and the parts
one after another are the table.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence

from tokcore.count.keyed_runs import Piece, group_by_key, merge_keyed_rows
from tokcore.count.pretoken_rows import CountRows
from tokcore_pipelines.local.worker import report_progress
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.parallel_requests import MOST, run_at_once
from tokcore_pipelines.work.key_ranges import HashedKeys, KeyRanges
from tokcore_pipelines.work.merge_tree import order_runs, reduce_to_few
from tokcore_pipelines.work.runs import (
    make_table_record_key,
    read_sections,
    report_merged,
    write_count_table,
    write_section,
)
from tokcore_schemas.refs import RunRef, TableRef

_HELD_TABLES, _HELD_KEY_BYTES = 64, 1 << 23  # of tables of one block, that are written together


@dataclasses.dataclass(frozen=True, slots=True)
class RangeToTables:
    """All that was counted of the keys of a range."""

    number: int
    runs: tuple[RunRef, ...]

    @property
    def key(self) -> str:
        """Of the record."""
        return make_range_key(self.number)


@dataclasses.dataclass(frozen=True, slots=True)
class PartsOfTables:
    """The record of a range: of each table that it shares with others, the run with its rows."""

    runs: tuple[RunRef, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class TableOfParts:
    """A count table that several ranges share."""

    spelled: str  # the key of its rows
    runs: tuple[RunRef, ...]

    @property
    def key(self) -> str:
        """Of the record."""
        return make_table_record_key(self.spelled)


def make_range_key(number: int) -> str:
    """The record key of a range."""
    return f"range-{number:03d}"


def write_range(
    attempts: Attempts, ranges: KeyRanges | HashedKeys, result_key: str, of: RangeToTables
) -> PartsOfTables:
    """Write the tables that lie in a range, and the parts of those that do not. result_key: in names of tables."""
    if (done := attempts.result(of.key, PartsOfTables)) is not None:
        report_progress("merged", sum(run.size_bytes for run in of.runs))
        report_progress("runs", sum(run.size_bytes for run in done.runs))
        return done
    few = reduce_to_few(attempts, of.runs)
    sections = [report_merged(pieces, run) for pieces, run in zip(read_sections(attempts, few), few, strict=True)]
    parts: list[RunRef] = []
    small: list[Piece] = []

    def write_small() -> None:
        # In a store each table is several requests, which take longer than its rows.
        most = 1 if urls.is_local(attempts.output) else MOST
        run_at_once(lambda one: write_count_table(attempts, one[0], [one[1]], result_key), small, most)
        small.clear()

    with attempts.new_file(f"{of.key}.runs", skip_empty=True) as new:
        for key, rows in group_by_key(merge_keyed_rows(sections)):
            if ranges.cuts(key):
                parts.append(write_section(new.file, new.attempt, of.number, ((key, some) for some in rows), key))
                continue
            blocks = [*itertools.islice(rows, 2)]
            if len(blocks) > 1:
                write_count_table(attempts, key, itertools.chain(blocks, rows), result_key)
            else:
                small.append((key, blocks[0]))
            if len(small) >= _HELD_TABLES or sum(rows.keys.size_bytes for _, rows in small) >= _HELD_KEY_BYTES:
                write_small()
        write_small()
    reach("range.written")
    report_progress("runs", sum(part.size_bytes for part in parts))
    return attempts.record(of.key, PartsOfTables(tuple(parts)))


def write_table_of_parts(attempts: Attempts, spelled: str, runs: Sequence[RunRef], result_key: str = "") -> TableRef:
    """The count table of a key, of the parts that ranges left of it."""
    if attempts.result(make_table_record_key(spelled), TableRef) is not None:
        report_progress("merged", sum(run.size_bytes for run in runs))
    ordered = sorted(runs, key=order_runs)
    parts = [report_merged(part, run) for part, run in zip(read_sections(attempts, ordered), ordered, strict=True)]
    return write_count_table(attempts, spelled, _drop_keys(parts), result_key)


def write_table(attempts: Attempts, result_key: str, of: TableOfParts) -> TableRef:
    """The same, as a piece of work of its own."""
    return write_table_of_parts(attempts, of.spelled, of.runs, result_key)


def _drop_keys(parts: Sequence[Iterator[tuple[str, CountRows]]]) -> Iterator[CountRows]:
    return (rows for _, rows in merge_keyed_rows(parts))


def list_shared_tables(ranges: Iterable[PartsOfTables]) -> list[TableOfParts]:
    """The tables of which there are parts. ranges: in order."""
    parts: dict[str, list[RunRef]] = {}
    for one in ranges:
        for run in one.runs:
            parts.setdefault(run.key, []).append(run)
    return [TableOfParts(key, tuple(runs)) for key, runs in sorted(parts.items())]
