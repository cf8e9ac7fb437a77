"""Counts of token ids in attempt files: written for each shard and item, merged in a tree, read by the driver."""

from __future__ import annotations

import io

from pipelines.store import storage
from pipelines.store.attempts import Attempts, key_of
from pipelines.store.redaction import redact
from schemas.refs import RunRef
from tokcore import token_counts
from tokcore.canonical import sha256_hex
from tokcore.errors import LedgerError

ID_COUNTS_KEY = "id-counts"  # the record key of the counts of ids, all added up


def write_counts(attempts: Attempts, name: str, counts: token_counts.IdCounts) -> RunRef:
    """Counts of token ids in an attempt file of their own."""
    with attempts.new_file(f"{name}.ids") as new:
        num_ids = token_counts.write_id_counts(new.file, counts)
    return RunRef("", 0, new.attempt, 0, new.file.size_bytes, num_ids, new.file.sha256)


def read_counts(attempts: Attempts, run: RunRef) -> token_counts.IdCounts:
    """The inverse of write_counts. Raises LedgerError unless they are what was written."""
    url = attempts.url(run.attempt)
    data = storage.read_bytes(url)
    if sha256_hex(data) != run.sha256:
        raise LedgerError(f"{redact(url)}: not the counts that were written there")
    return token_counts.read_id_counts(io.BytesIO(data))


def merge_counts(attempts: Attempts, runs: tuple[RunRef, ...]) -> RunRef:
    """One file, named after its content, with the sums of several."""
    record_key = key_of("merge-ids", runs)
    if (done := attempts.result(record_key, RunRef)) is not None:
        return done
    merged = write_counts(attempts, "merge", token_counts.add_up([read_counts(attempts, run) for run in runs]))
    return attempts.record(record_key, attempts.name_by_content(merged))
