"""The last merge of a range of keys, which writes the count tables in it. No Beam.

A table that lies in one range is one file. Of one that several ranges share, the worker of each writes a part, a file
of its own; then one worker reads the parts once, in order, for what the manifest says of all rows. What a hash has
dealt is in no order, so it is merged again.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence

from tokcore.count.keyed_runs import Piece, group_by_key, merge_keyed_rows
from tokcore.count.pretoken_rows import CountRows
from tokcore.count.pretoken_tables import cut_rows, join_parts, sum_up_table, write_part, write_table
from tokcore.errors import FormatError, LedgerError
from tokcore_pipelines.local.worker import report_progress
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.parallel_requests import MOST, run_at_once
from tokcore_pipelines.work.key_ranges import KeyRanges
from tokcore_pipelines.work.merge_tree import order_runs, reduce_to_few
from tokcore_pipelines.work.runs import (
    describe_table,
    find_table,
    make_table_record_key,
    name_table,
    read_sections,
    report_merged,
    write_count_table,
    write_section,
)
from tokcore_pipelines.work.stored_tables import read_whole_files
from tokcore_schemas import refs
from tokcore_schemas.count_key import parse_count_key
from tokcore_schemas.refs import FilePart, RunRef, StoredFile, TablePart, TableRef

_HELD_TABLES, _HELD_KEY_BYTES = 64, 1 << 23  # of tables of one block, that are written together


@dataclasses.dataclass(frozen=True, slots=True)
class RangeToTables:
    """All that was counted of the keys of a range."""

    number: int
    runs: tuple[RunRef, ...]

    @property
    def key(self) -> str:
        """Of the record."""
        return f"tables-{self.number:03d}"


@dataclasses.dataclass(frozen=True, slots=True)
class PartsOfTables:
    """The record of a range: of each table that it shares with others, the part with its rows."""

    parts: tuple[TablePart, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class TableOfParts:
    """A count table that several ranges share."""

    spelled: str  # the key of its rows
    parts: tuple[TablePart, ...]

    @property
    def key(self) -> str:
        """Of the record."""
        return make_table_record_key(self.spelled)


def write_range(attempts: Attempts, ranges: KeyRanges, result_key: str, of: RangeToTables) -> PartsOfTables:
    """Write the tables that lie in a range, and its parts of those that do not. result_key: in names of tables."""
    if (done := attempts.result(of.key, PartsOfTables)) is not None:
        report_progress("merged", sum(run.size_bytes for run in of.runs))
        report_progress("runs", sum(part.file.size_bytes for part in done.parts))
        return done
    few = reduce_to_few(attempts, of.runs)
    sections = [report_merged(pieces, run) for pieces, run in zip(read_sections(attempts, few), few, strict=True)]
    parts: list[TablePart] = []
    small: list[Piece] = []

    def write_small() -> None:
        # In a store each table is several requests, which take longer than its rows.
        most = 1 if urls.is_local(attempts.output) else MOST
        run_at_once(lambda one: write_count_table(attempts, one[0], [one[1]], result_key), small, most)
        small.clear()

    for key, rows in group_by_key(merge_keyed_rows(sections)):
        if (number := ranges.find_part(key, of.number)) is not None:
            table = name_table(parse_count_key(key), result_key)
            parts.append(TablePart(key, number, _write_part(attempts, table, f"{number:05d}.parquet", rows)))
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
    report_progress("runs", sum(part.file.size_bytes for part in parts))
    return attempts.record(of.key, PartsOfTables(tuple(parts)))


def _write_part(attempts: Attempts, table: str, name: str, rows: Iterable[CountRows]) -> FilePart:
    with attempts.new_final(f"{table}/{name}") as new:
        num_rows = write_part(new.file, rows)
    reach("range.part")
    stored = new.stored(name)
    return FilePart(name, stored.size_bytes, stored.sha256, num_rows, stored.attempt)


def list_shared_tables(ranges: Iterable[PartsOfTables]) -> list[TableOfParts]:
    """The tables of which there are parts."""
    parts: dict[str, list[TablePart]] = {}
    for one in ranges:
        for part in one.parts:
            parts.setdefault(part.key, []).append(part)
    return [TableOfParts(key, tuple(own)) for key, own in sorted(parts.items())]


def join_table(attempts: Attempts, result_key: str, of: TableOfParts) -> TableRef:
    """The count table of the parts that ranges left, which are read once.

    Raises LedgerError for parts that are not those that were written, or do not follow each other.
    """
    key = parse_count_key(of.spelled)
    size_bytes = sum(part.file.size_bytes for part in of.parts)
    if (done := find_table(attempts, key)) is not None:
        report_progress("merged", size_bytes)
        return done
    ordered = [part.file for part in sorted(of.parts, key=lambda part: part.number)]
    table = refs.join_parts(name_table(key, result_key), "", ordered)
    try:
        totals = sum_up_table(join_parts(_read_parts(attempts, table)))
    except FormatError as error:
        raise LedgerError(str(error)) from error
    if totals.num_rows != (written := sum(part.rows for part in ordered)):
        raise LedgerError(f"{table.path}: its parts have {totals.num_rows} rows, {written} were written")
    reach("table.joined")
    table = dataclasses.replace(table, content_sha256=totals.content_sha256)
    return attempts.record(of.key, describe_table(key, table, totals))


def _read_parts(attempts: Attempts, table: StoredFile) -> Iterator[tuple[str, Iterator[CountRows]]]:
    for file in table.list_files():
        folder, path = (attempts.scratch, file.attempt) if file.attempt else (attempts.final_folder, file.path)
        yield from read_whole_files(folder, [(path, file.sha256)])
        report_progress("merged", file.size_bytes)


def write_again(attempts: Attempts, table: TableRef, said: StoredFile) -> StoredFile:
    """A table in as many rows a part as a manifest says: that of another release may be cut elsewhere, or not at all.

    said: as the manifest has it, which need not be a table of these rows.
    """
    if [(part.path, part.rows) for part in table.file.parts] == [(part.path, part.rows) for part in said.parts]:
        return table.file
    rows = join_parts(_read_parts(attempts, table.file))
    if not said.parts:
        with attempts.new_final(said.path) as new:
            write_table(new.file, rows)
        return new.stored(said.path, table.file.content_sha256)
    cut = cut_rows(rows, [part.rows for part in said.parts])
    parts = [_write_part(attempts, said.path, part.path, own) for part, own in zip(said.parts, cut, strict=True)]
    return refs.join_parts(said.path, table.file.content_sha256, parts)


# ------------------------------------------------------------------------------------------------------ dealt by a hash


def merge_hashed(attempts: Attempts, number: int, runs: tuple[RunRef, ...]) -> list[RunRef]:
    """What a hash has dealt to a number, merged: a run of each table."""
    few = reduce_to_few(attempts, runs)
    with attempts.new_file(f"hashed-{number:03d}.runs", skip_empty=True) as new:
        return [
            write_section(new.file, new.attempt, number, ((key, some) for some in rows), key)
            for key, rows in group_by_key(merge_keyed_rows(read_sections(attempts, few)))
        ]


def write_hashed_table(attempts: Attempts, spelled: str, runs: Sequence[RunRef], result_key: str = "") -> TableRef:
    """The count table of a key, of what merge_hashed left of it."""
    pieces = merge_keyed_rows(read_sections(attempts, sorted(runs, key=order_runs)))
    return write_count_table(attempts, spelled, (rows for _, rows in pieces), result_key)
