"""The documents of an output's shards, as tokens, and as the text that these spell. No Beam."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from tokcore.errors import StageError
from tokcore.formats.provenance import hide_provenance
from tokcore.shards.token_batch import ShardContent, TokenBatch, compute_document_digests
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.stored_shards import find_main_files, read_batches
from tokcore_schemas.refs import ShardRef
from tokcore_schemas.stage_manifests import ShardsConfig


def count_around(config: ShardsConfig) -> tuple[int, int]:
    """How many ids stand before, and after, those of each document's text."""
    return len(config.prepend), len(config.append)


def read_shard(output: str, shard: ShardRef, stage: str = "shards") -> Iterator[tuple[TokenBatch, list[bytes]]]:
    """The documents of a shard of an output, and their digests. stage: that wrote it.

    Raises StageError, after the last, unless they are those that its manifest names.
    """
    return check_batches(output, shard, read_batches(output, shard, stage), stage)


def check_batches(
    output: str, shard: ShardRef, batches: Iterable[TokenBatch], stage: str = "shards"
) -> Iterator[tuple[TokenBatch, list[bytes]]]:
    """As read_shard, of these documents."""
    content = ShardContent()
    for batch in batches:
        digests = compute_document_digests(batch.langs, batch.tokens, batch.offsets)
        content.update(batch, digests)
        yield batch, digests
    if content.hexdigest() != shard.content_sha256:
        raise StageError(
            f"{redact(urls.join(output, stage, find_main_files(shard)[0].path))}: its documents are not those that "
            f"were committed. `tokcore repair` makes the file again"
        )


def read_restored(url: str, shard: ShardRef) -> Iterator[TokenBatch]:
    """The documents of a shuffled shard with the records that they came from. Raises as read_shard does."""
    restored: list[TokenBatch] = []

    def hide() -> Iterator[TokenBatch]:
        first = 0
        for batch in read_batches(url, shard, names_sources=True):
            restored.append(batch)
            yield hide_provenance(batch, first)
            first += batch.num_documents

    for _ in check_batches(url, shard, hide()):
        yield restored.pop()


def decode_texts(tokenizer: Tokenizer, tokens: TokenBatch, around: tuple[int, int]) -> list[bytes]:
    """The texts of documents, as the tokens of a lossless tokenizer spell them. around: as count_around gives it."""
    before, after = around
    ends = tokens.offsets.tolist()
    return [tokenizer.decode(tokens.tokens[start + before : end - after]) for start, end in itertools.pairwise(ends)]
