"""Sorted runs in attempt files: written, read back and merged, at last into one count table per language. No Beam."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from pipelines.local.worker import report_progress
from pipelines.store import storage
from pipelines.store.attempts import Attempts, compute_key
from pipelines.store.crashpoints import reach
from pipelines.store.redaction import redact
from schemas.refs import RunRef, TableRef
from tokcore.canonical import Sha256Writer
from tokcore.errors import LedgerError, StageError
from tokcore.pretoken_rows import CountRows
from tokcore.pretoken_tables import merge_rows, read_run, write_run, write_table

_BLOCK_BYTES = 1 << 20


def write_section(file: Sha256Writer, attempt: str, key: str, partition: int, rows: Iterable[CountRows]) -> RunRef:
    """Append one sorted run to an attempt file."""
    section = Sha256Writer(file)
    offset = file.size_bytes
    write_run(section, rows)
    return RunRef(key, partition, attempt, offset, section.size_bytes, section.sha256)


def read_section(attempts: Attempts, run: RunRef) -> Iterator[CountRows]:
    """The rows of a run, in blocks. Raises LedgerError, before it gives any, unless they are what was written."""
    url = attempts.url(run.attempt)
    with storage.open_read(url) as file:
        file.seek(run.offset)
        hasher, left = hashlib.sha256(), run.size_bytes
        while left and (data := file.read(min(left, _BLOCK_BYTES))):
            hasher.update(data)
            left -= len(data)
        if hasher.hexdigest() != run.sha256:  # a decoder would give other rows, or break on what it never expected
            raise LedgerError(f"{redact(url)}: at byte {run.offset}: not the rows that were written there")
        file.seek(run.offset)
        yield from read_run(file)


def _report_rows(attempts: Attempts, run: RunRef) -> Iterator[CountRows]:
    """The rows of a run that goes into a table; tells the parent when all were read."""
    yield from read_section(attempts, run)
    report_progress("merged", run.size_bytes)


def merge_runs(attempts: Attempts, runs: tuple[RunRef, ...]) -> RunRef:
    """One run, named after its content, with the sums of several of the same key and partition."""
    record_key = compute_key("merge", runs)
    if (done := attempts.result(record_key, RunRef)) is not None:
        report_progress("runs", done.size_bytes - sum(run.size_bytes for run in runs))
        return done
    first = runs[0]
    with attempts.new_file(f"merge-{first.key or 'digests'}-{first.partition:03d}.run") as new:
        rows = merge_rows([read_section(attempts, run) for run in runs])
        merged = write_section(new.file, new.attempt, first.key, first.partition, rows)
    reach("merge.written")
    named = attempts.name_by_content(merged)
    reach("merge.named")
    report_progress("runs", named.size_bytes - sum(run.size_bytes for run in runs))
    return attempts.record(record_key, named)


def write_count_table(attempts: Attempts, lang: str, runs: tuple[RunRef, ...], result_key: str = "") -> TableRef:
    """The count table of one language from its merged partitions: sorted Parquet.

    result_key: in its name, unless empty.
    """
    record_key = f"table-{lang}"
    if (done := attempts.result(record_key, TableRef)) is not None:
        if done.lang != lang:  # where disks do not tell case apart
            raise StageError(f"languages {done.lang!r} and {lang!r} would share a file: spell them alike")
        report_progress("merged", sum(run.size_bytes for run in runs))
        return done
    path = f"{lang}-{result_key}.parquet" if result_key else f"{lang}.parquet"
    with attempts.new_final(path) as new:
        totals = write_table(new.file, merge_rows([_report_rows(attempts, run) for run in runs]))
    reach("count.table")
    stored = new.stored(path, totals.content_sha256)
    return attempts.record(record_key, TableRef(lang, stored, totals.num_rows, totals.num_pretokens, totals.key_bytes))
