"""Sorted runs in attempt files: written, read back and merged, at last into one count table per key. No Beam."""

from __future__ import annotations

import functools
import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any

from tokcore.count.pretoken_rows import CountRows
from tokcore.count.pretoken_tables import merge_rows, read_run, write_run, write_table
from tokcore.errors import LedgerError, StageError
from tokcore.files.canonical_json import Sha256Writer
from tokcore_pipelines.local.worker import report_progress
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts, compute_key
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.count_key import parse_count_key
from tokcore_schemas.refs import RunRef, TableRef

_BLOCK_BYTES = 1 << 20
_SECTION_ROWS = 16_384  # to write and to read a section takes as long as this many of its rows, or a few times that


def choose_num_sections(num_rows: int, most: int) -> int:
    """In how many sections the rows of a table in a work item are cut: a power of two, at most `most`, which is one.

    Each section costs, however small: a crawl has more languages in an item than partitions.

    >>> [choose_num_sections(rows, 64) for rows in (1, 16_384, 16_385, 100_000, 10_000_000)]
    [1, 1, 2, 8, 64]
    """
    return min(most, 1 << (max(1, -(-num_rows // _SECTION_ROWS)) - 1).bit_length())


def write_section(file: Sha256Writer, attempt: str, key: str, partition: int, rows: Iterable[CountRows]) -> RunRef:
    """Append one sorted run to an attempt file."""
    section = Sha256Writer(file)
    offset = file.size_bytes
    write_run(section, rows)
    return RunRef(key, partition, attempt, offset, section.size_bytes, section.sha256)


def read_section(attempts: Attempts, run: RunRef) -> Iterator[CountRows]:
    """The rows of a run, in blocks. Raises LedgerError, before it gives any, unless they are what was written."""
    (rows,) = read_sections(attempts, [run])
    return rows


def read_sections(attempts: Attempts, runs: Sequence[RunRef]) -> list[Iterator[CountRows]]:
    """The rows of each run, as of read_section. Runs that lie side by side in an object are fetched together."""
    if urls.is_local(attempts.output):
        return [_read_file(attempts, run) for run in runs]
    rows: dict[int, Iterator[CountRows]] = {}
    for span in _find_spans(runs):
        fetch = functools.cache(functools.partial(_fetch_span, attempts, [runs[i] for i in span]))
        rows |= {i: _read_fetched(attempts, runs[i], fetch, place) for place, i in enumerate(span)}
    return [rows[i] for i in range(len(runs))]


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
) -> Iterator[CountRows]:
    with fetch()[place] as file:
        yield from _read_checked(attempts, run, file, 0)


def _read_file(attempts: Attempts, run: RunRef) -> Iterator[CountRows]:
    with storage.open_read(attempts.url(run.attempt)) as file:
        yield from _read_checked(attempts, run, file, run.offset)


def _read_checked(attempts: Attempts, run: RunRef, file: Any, offset: int) -> Iterator[CountRows]:
    """The rows of a run that begins at an offset of an open file, once its hash was compared."""
    file.seek(offset)
    hasher, left = hashlib.sha256(), run.size_bytes
    while left and (data := file.read(min(left, _BLOCK_BYTES))):
        hasher.update(data)
        left -= len(data)
    if hasher.hexdigest() != run.sha256:  # a decoder would give other rows, or break on what it never expected
        url = attempts.url(run.attempt)
        raise LedgerError(f"{redact(url)}: at byte {run.offset}: not the rows that were written there")
    file.seek(offset)
    yield from read_run(file)


def _report_rows(rows: Iterator[CountRows], run: RunRef) -> Iterator[CountRows]:
    """The rows of a run that goes into a table; tells the parent as they are read, in about its bytes."""
    left = run.size_bytes
    for block in rows:
        yield block
        read = min(left, block.keys.size_bytes)
        left -= read
        report_progress("merged", read)
    report_progress("merged", left)


def merge_runs(attempts: Attempts, runs: tuple[RunRef, ...]) -> RunRef:
    """One run, named after its content, with the sums of several of the same key and partition."""
    record_key = compute_key("merge", runs)
    if (done := attempts.result(record_key, RunRef)) is not None:
        report_progress("runs", done.size_bytes - sum(run.size_bytes for run in runs))
        return done
    first = runs[0]
    name = parse_count_key(first.key).file_name
    with attempts.new_file(f"merge-{name}-{first.partition:03d}.run") as new:
        rows = merge_rows(read_sections(attempts, runs))
        merged = write_section(new.file, new.attempt, first.key, first.partition, rows)
    reach("merge.written")
    named = attempts.name_by_content(merged)
    reach("merge.named")
    report_progress("runs", named.size_bytes - sum(run.size_bytes for run in runs))
    return attempts.record(record_key, named)


def write_count_table(attempts: Attempts, spelled: str, runs: tuple[RunRef, ...], result_key: str = "") -> TableRef:
    """The count table of a key, from its merged partitions: sorted Parquet.

    spelled: the key, as its runs have it. result_key: in the table's name, unless empty.
    """
    key = parse_count_key(spelled)
    record_key = make_table_record_key(spelled)
    if (done := attempts.result(record_key, TableRef)) is not None:
        if done.key != key:  # where disks do not tell case apart
            raise StageError(f"languages {done.lang!r} and {key.lang!r} would share a file: spell them alike")
        report_progress("merged", sum(run.size_bytes for run in runs))
        return done
    path = f"{key.file_name}-{result_key}.parquet" if result_key else f"{key.file_name}.parquet"
    with attempts.new_final(path) as new:
        parts = [_report_rows(rows, run) for rows, run in zip(read_sections(attempts, runs), runs, strict=True)]
        totals = write_table(new.file, merge_rows(parts))
    reach("count.table")
    stored = new.stored(path, totals.content_sha256)
    sizes = totals.num_rows, totals.num_pretokens, totals.key_bytes
    return attempts.record(record_key, TableRef(key.lang, stored, *sizes, key.split, key.source))


def make_table_record_key(spelled: str) -> str:
    """The record key of the count table of a key."""
    return f"table-{parse_count_key(spelled).file_name}"
