"""shards/token_counts.parquet: how often each token id was written, from what the workers counted."""

from __future__ import annotations

import pyarrow as pa

from tokcore.count import token_counts
from tokcore.errors import StageError
from tokcore_pipelines.build.stage import write_file
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.item_results import read_records
from tokcore_pipelines.work.token_count_runs import add_up_id_runs, count_groups, make_token_counts_key
from tokcore_schemas.refs import RunRef, StoredFile

TOKEN_COUNTS = "token_counts.parquet"


def write_token_counts(attempts: Attempts, num_items: int, num_tokens: int) -> StoredFile:
    """The table of all work items together.

    Raises StageError if its counts do not add up to num_tokens.
    """
    keys = map(make_token_counts_key, range(count_groups(num_items)))
    rows = add_up_id_runs(attempts, read_records(attempts, keys, RunRef))
    if (total := int(rows.counts.sum())) != num_tokens:
        raise StageError(f"{num_tokens} tokens were written to shards, {total} of them counted by id")
    table = token_counts.make_table(rows)
    return write_file(
        attempts, TOKEN_COUNTS, lambda file: token_counts.write_id_table(file, table), token_counts.hash_content(table)
    )


def read_token_counts(output: str) -> pa.Table:
    """The table of a finished build. Raises FormatError if it is damaged."""
    with storage.open_read(urls.join(output, "shards", TOKEN_COUNTS)) as file:
        return token_counts.read_id_table(file)
