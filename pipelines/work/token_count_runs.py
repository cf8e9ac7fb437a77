"""Counts of token ids in attempt files: written for each shard and item, merged in a tree, read by the driver."""

from __future__ import annotations

import io
from collections.abc import Iterable

from tokcore.count.token_counts import add_up, read_id_rows, write_id_rows
from tokcore.errors import LedgerError
from tokcore.files.canonical_json import Sha256Writer, hash_sha256
from tokcore.kernel import IdRows
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.attempts import Attempts, NewFile, compute_key
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.refs import RunRef

# Work items are dealt into groups. Workers add up the counts of each group, so none gets those of all items; the driver
# adds up the groups.
_MAX_GROUPS = 64
_ITEMS_PER_GROUP = 16


def count_groups(num_items: int) -> int:
    """How many groups num_items work items are dealt into."""
    return min(_MAX_GROUPS, -(-num_items // _ITEMS_PER_GROUP))


def make_token_counts_key(group: int) -> str:
    """The record key of the counts of ids of a group, all added up."""
    return f"token-counts-{group:02d}"


def find_group_key(number: int, num_groups: int) -> str:
    """The record key of the group into which the work item or part of that number is dealt."""
    return make_token_counts_key(number % num_groups)


def write_id_run(attempts: Attempts, name: str, rows: IdRows) -> RunRef:
    """Counts of token ids in an attempt file of their own."""
    with attempts.new_file(f"{name}.ids") as new:
        return append_id_run(new, rows)


def append_id_run(new: NewFile, rows: IdRows) -> RunRef:
    """Counts of token ids behind others in an open file."""
    section, offset = Sha256Writer(new.file), new.file.size_bytes
    write_id_rows(section, rows)
    return RunRef("", 0, new.attempt, offset, section.size_bytes, section.sha256)


def read_id_run(attempts: Attempts, run: RunRef) -> IdRows:
    """The inverse of write_id_run. Raises LedgerError unless they are what was written."""
    url = attempts.url(run.attempt)
    data = storage.read_part(url, run.offset, run.offset + run.size_bytes)
    if hash_sha256(data) != run.sha256:
        raise LedgerError(f"{redact(url)}: not the counts that were written there")
    return read_id_rows(io.BytesIO(data))


def add_up_id_runs(attempts: Attempts, runs: Iterable[RunRef]) -> IdRows:
    """The sums of several; one of them is in memory at a time."""
    total = add_up([])
    for run in runs:
        total = add_up([total, read_id_run(attempts, run)])
    return total


def merge_id_runs(attempts: Attempts, runs: tuple[RunRef, ...]) -> RunRef:
    """One file, named after its content, with the sums of several."""
    record_key = compute_key("merge-ids", runs)
    if (done := attempts.result(record_key, RunRef)) is not None:
        return done
    merged = write_id_run(attempts, "merge", add_up([read_id_run(attempts, run) for run in runs]))
    return attempts.record(record_key, attempts.name_by_content(merged))
