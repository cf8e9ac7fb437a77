"""Sorted runs in attempt files: written, read back and merged, at last into one count table per key. No Beam."""

from __future__ import annotations

import functools
import hashlib
import itertools
import operator
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any

from tokcore.count.keyed_runs import Piece, merge_keyed_rows, read_keyed_run, write_keyed_run
from tokcore.count.pretoken_rows import CountRows
from tokcore.count.pretoken_tables import TableTotals, write_table
from tokcore.errors import LedgerError, StageError
from tokcore.files.canonical_json import Sha256Writer
from tokcore_pipelines.local.worker import report_progress
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts, compute_key
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.count_key import CountKey, parse_count_key
from tokcore_schemas.refs import RunFile, RunRef, StoredFile, TableRef, pack_runs

_BLOCK_BYTES = 1 << 20


def write_section(file: Sha256Writer, attempt: str, partition: int, pieces: Iterable[Piece], key: str = "") -> RunRef:
    """Append one sorted run to an attempt file. key: of its rows, where all are of one table."""
    section = Sha256Writer(file)
    offset = file.size_bytes
    write_keyed_run(section, pieces)
    return RunRef(key, partition, attempt, offset, section.size_bytes, section.sha256)


def write_run_file(file: Sha256Writer, attempt: str, dealt: Iterable[tuple[int, Piece]]) -> RunFile:
    """Fill an attempt file with a run for each range of keys. dealt: (range, piece), in order."""
    runs = [
        write_section(file, attempt, number, (piece for _, piece in own))
        for number, own in itertools.groupby(dealt, operator.itemgetter(0))
    ]
    return pack_runs(attempt, runs)


def read_section(attempts: Attempts, run: RunRef) -> Iterator[Piece]:
    """The rows of a run, in blocks. Raises LedgerError, before it gives any, unless they are what was written."""
    (pieces,) = read_sections(attempts, [run])
    return pieces


def read_sections(attempts: Attempts, runs: Sequence[RunRef]) -> list[Iterator[Piece]]:
    """The rows of each run, as of read_section. Runs that lie side by side in an object are fetched together."""
    if urls.is_local(attempts.output):
        return [_read_file(attempts, run) for run in runs]
    pieces: dict[int, Iterator[Piece]] = {}
    for span in _find_spans(runs):
        fetch = functools.cache(functools.partial(_fetch_span, attempts, [runs[i] for i in span]))
        pieces |= {i: _read_fetched(attempts, runs[i], fetch, place) for place, i in enumerate(span)}
    return [pieces[i] for i in range(len(runs))]


def _find_spans(runs: Sequence[RunRef]) -> list[list[int]]:
    """The positions of runs, in groups of neighbours in one object. A run that comes twice is in two groups."""
    spans: list[list[int]] = []
    end: tuple[str, int] | None = None
    for i in sorted(range(len(runs)), key=lambda i: (runs[i].attempt, runs[i].offset)):
        run = runs[i]
        if end == (run.attempt, run.offset):
            spans[-1].append(i)
        else:
            spans.append([i])
        end = (run.attempt, run.offset + run.size_bytes)
    return spans


def _fetch_span(attempts: Attempts, span: Sequence[RunRef]) -> list[IO[bytes]]:
    """Each run of a span in a file of this machine, which takes memory only while it is small."""
    last = span[-1]
    files: list[IO[bytes]] = []
    with storage.open_range(attempts.url(last.attempt), span[0].offset, last.offset + last.size_bytes) as source:
        for run in span:
            file = tempfile.SpooledTemporaryFile(_BLOCK_BYTES)  # noqa: SIM115 - closed by who reads it
            left = run.size_bytes
            while left and (data := source.read(min(left, _BLOCK_BYTES))):
                file.write(data)
                left -= len(data)
            files.append(file)
    return files


def _read_fetched(
    attempts: Attempts, run: RunRef, fetch: Callable[[], Sequence[IO[bytes]]], place: int
) -> Iterator[Piece]:
    with fetch()[place] as file:
        yield from _read_checked(attempts, run, file, 0)


def _read_file(attempts: Attempts, run: RunRef) -> Iterator[Piece]:
    with storage.open_read(attempts.url(run.attempt)) as file:
        yield from _read_checked(attempts, run, file, run.offset)


def _read_checked(attempts: Attempts, run: RunRef, file: Any, offset: int) -> Iterator[Piece]:
    """The rows of a run that begins at an offset of an open file, once its hash was compared."""
    file.seek(offset)
    hasher, left = hashlib.sha256(), run.size_bytes
    while left and (data := file.read(min(left, _BLOCK_BYTES))):
        hasher.update(data)
        left -= len(data)
    if not run.sha256 or not hasher.hexdigest().startswith(
        run.sha256
    ):  # a decoder would give other rows, or break on what it never expected
        url = attempts.url(run.attempt)
        raise LedgerError(f"{redact(url)}: at byte {run.offset}: not the rows that were written there")
    file.seek(offset)
    yield from read_keyed_run(file)


def report_merged(pieces: Iterator[Piece], run: RunRef) -> Iterator[Piece]:
    """The rows of a run that goes into tables; tells the parent as they are read, in about its bytes."""
    left = run.size_bytes
    for key, rows in pieces:
        yield key, rows
        read = min(left, rows.keys.size_bytes)
        left -= read
        report_progress("merged", read)
    report_progress("merged", left)


def merge_runs(attempts: Attempts, runs: tuple[RunRef, ...]) -> RunRef:
    """One run, named after its content, with the sums of several of the same partition."""
    record_key = compute_key("merge", runs)
    if (done := attempts.result(record_key, RunRef)) is not None:
        report_progress("runs", done.size_bytes - sum(run.size_bytes for run in runs))
        return done
    partition = runs[0].partition
    with attempts.new_file(f"merge-{partition:03d}.run") as new:
        pieces = merge_keyed_rows(read_sections(attempts, runs))
        merged = write_section(new.file, new.attempt, partition, pieces)
    reach("merge.written")
    named = attempts.name_by_content(merged)
    reach("merge.named")
    report_progress("runs", named.size_bytes - sum(run.size_bytes for run in runs))
    return attempts.record(record_key, named)


def write_count_table(attempts: Attempts, spelled: str, rows: Iterable[CountRows], result_key: str = "") -> TableRef:
    """The count table of a key: sorted Parquet. Rows are not taken if there is a record of it.

    spelled: the key, as its runs have it. result_key: in the table's name, unless empty.
    """
    key = parse_count_key(spelled)
    if (done := find_table(attempts, key)) is not None:
        return done
    path = name_table(key, result_key)
    with attempts.new_final(path) as new:
        totals = write_table(new.file, rows)
    reach("count.table")
    return attempts.record(
        make_table_record_key(spelled), describe_table(key, new.stored(path, totals.content_sha256), totals)
    )


def name_table(key: CountKey, result_key: str) -> str:
    """The final path of a count table, below the folder of its stage. result_key: in it, unless empty.

    >>> name_table(CountKey("en", "train", "wiki"), "0a1b2c3d4e5f"), name_table(CountKey("en"), "")
    ('en~train~wiki-0a1b2c3d4e5f.parquet', 'en.parquet')
    """
    return f"{key.file_name}-{result_key}.parquet" if result_key else f"{key.file_name}.parquet"


def describe_table(key: CountKey, file: StoredFile, totals: TableTotals) -> TableRef:
    """A written count table, with what it holds."""
    sizes = totals.num_rows, totals.num_pretokens, totals.key_bytes
    return TableRef(key.lang, file, *sizes, key.split, key.source)


def find_table(attempts: Attempts, key: CountKey) -> TableRef | None:
    """The count table of a key; None if no worker has recorded it. Raises StageError if another key has its name."""
    done = attempts.result(make_table_record_key(key.spell()), TableRef)
    if done is not None and done.key != key:  # where disks do not tell case apart
        raise StageError(f"languages {done.lang!r} and {key.lang!r} would share a file: spell them alike")
    return done


def make_table_record_key(spelled: str) -> str:
    """The record key of the count table of a key."""
    return f"table-{parse_count_key(spelled).file_name}"
