"""shards/token_counts.parquet: how often each token id was written, from what the workers counted."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tokcore.count import token_counts
from tokcore.errors import StageError, TokError
from tokcore.kernel import IdRows
from tokcore_pipelines.build.commit import MANIFEST
from tokcore_pipelines.build.stage import write_file
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.item_results import read_records
from tokcore_pipelines.work.token_count_runs import add_up_id_runs, count_groups, make_token_counts_key
from tokcore_schemas.refs import RunRef, StoredFile
from tokcore_schemas.stage_manifests import CorpusAbout, ShardsManifest

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


def check_token_counts(output: str, shards: ShardsManifest, found: IdRows) -> Iterator[str]:
    """What is wrong with the table of the output. found: the counts of the tokens that all its shards hold."""
    named = [entry for entry in shards.files if entry.path == TOKEN_COUNTS]
    if len(named) != 1:
        yield f"shards/{MANIFEST}: names {len(named)} files {TOKEN_COUNTS}, expected one"
        return
    about = CorpusAbout(shards.totals.records.documents, shards.totals.tokens)
    if named[0].about != about:
        yield f"shards/{MANIFEST}: {TOKEN_COUNTS} is described as {named[0].about}, expected {about}"
    try:
        content = token_counts.hash_content(read_token_counts(output))
    except TokError as error:
        yield f"shards/{TOKEN_COUNTS}: {error}"
        return
    if content != named[0].content_sha256:
        yield f"shards/{TOKEN_COUNTS}: its content is not what the manifest says"
    if content != token_counts.hash_content(token_counts.make_table(found)):
        yield f"shards/{TOKEN_COUNTS}: its counts are not those of the shards"
