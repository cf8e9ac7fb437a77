"""shards/token_counts.parquet: how often each token id was written, from what the workers counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from pipelines.stages.commit import MANIFEST
from pipelines.store import storage, urls
from pipelines.store.attempts import Attempts
from pipelines.work.token_count_runs import ID_COUNTS_KEY, read_counts
from schemas.manifest import Manifest
from schemas.plan import Plan
from schemas.refs import RunRef, StoredFile
from tokcore import token_counts
from tokcore.errors import StageError, TokError

TOKEN_COUNTS = "token_counts.parquet"


def write_token_counts(attempts: Attempts, sources: Sequence[str], num_tokens: int) -> StoredFile:
    """The table of all work items together, under an attempt name. sources: uris of the plan's files.

    Raises StageError if its counts do not add up to num_tokens.
    """
    run = attempts.result(ID_COUNTS_KEY, RunRef)
    if run is None:
        raise StageError("stage shards: the runner finished without the counts of token ids. Run the command again.")
    counts = read_counts(attempts, run)
    if (total := int(counts.counts.sum())) != num_tokens:
        raise StageError(f"{num_tokens} tokens were written to shards, {total} of them counted by id")
    table = token_counts.token_counts_table(counts, sources)
    with attempts.new_file(TOKEN_COUNTS) as new:
        token_counts.write_token_counts(new.file, table)
    return new.stored(TOKEN_COUNTS, token_counts.content_of(table))


def read_token_counts(output: str) -> pa.Table:
    """The table of a finished build. Raises FormatError if it is damaged."""
    with storage.open_read(urls.join(output, "shards", TOKEN_COUNTS)) as file:
        return token_counts.read_token_counts(file)


class ShardTokens:
    """Counts the ids of shards as they are read, for comparison with what the workers counted."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._sum = token_counts.add_up(
            [token_counts.covered(f, 0, file.size_bytes) for f, file in enumerate(plan.files)]
        )

    def add(self, item: token_counts.IdCounts) -> None:
        """The counts of a work item's shards."""
        self._sum = token_counts.add_up([self._sum, item])

    def problems(self, output: str, shards: Manifest) -> Iterator[str]:
        """What is wrong with the table of the output, now that all items were added."""
        ranges = [one for item in self._plan.items for one in item.ranges]
        read = [token_counts.covered(r.file, r.end - r.start, self._plan.files[r.file].size_bytes) for r in ranges]
        table = token_counts.token_counts_table(
            token_counts.add_up([self._sum, *read]), [file.uri for file in self._plan.files]
        )
        named = [entry for entry in shards.files if entry.path == TOKEN_COUNTS]
        if len(named) != 1:
            yield f"shards/{MANIFEST}: names {len(named)} files {TOKEN_COUNTS}, expected one"
            return
        about = {"documents": shards.totals["records"]["documents"], "tokens": shards.totals["tokens"]}
        if named[0].about != about:
            yield f"shards/{MANIFEST}: {TOKEN_COUNTS} is described as {named[0].about}, expected {about}"
        try:
            content = token_counts.content_of(read_token_counts(output))
        except TokError as error:
            yield f"shards/{TOKEN_COUNTS}: {error}"
            return
        if content != named[0].content_sha256:
            yield f"shards/{TOKEN_COUNTS}: its content is not what the manifest says"
        if content != token_counts.content_of(table):
            yield f"shards/{TOKEN_COUNTS}: its counts are not those of the shards"
