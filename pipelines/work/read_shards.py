"""The documents of an output's shards, as tokens, and as the text that these spell. No Beam."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tokcore.errors import StageError
from tokcore.shards.format_table import FormatFile
from tokcore.shards.token_batch import ShardContent, TokenBatch, compute_document_digests
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.local_shards import copy_shard_if_remote, find_main_files
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.inheritance import InheritedShard
from tokcore_schemas.shard_entries import list_named_shards
from tokcore_schemas.stage_manifests import ShardsConfig, ShardsManifest


def list_item_shards(made: ShardsManifest) -> dict[int, list[InheritedShard]]:
    """Number of a work item -> its shards, in the order of the manifest."""
    found: dict[int, list[InheritedShard]] = {}
    for shard in list_named_shards(made):
        main = find_main_files(shard)[0]
        found.setdefault(shard.facts.item, []).append(InheritedShard(shard, main.format, main.path))
    return found


def count_around(config: ShardsConfig) -> tuple[int, int]:
    """How many ids stand before, and after, those of each document's text."""
    return len(config.prepend), len(config.append)


def read_shard(output: str, shard: InheritedShard) -> Iterator[tuple[TokenBatch, list[bytes]]]:
    """The documents of a shard of an output, and their digests.

    Raises StageError, after the last, unless they are those that its manifest names.
    """
    with copy_shard_if_remote(output, shard.shard) as folder:
        yield from read_copied_shard(output, shard, folder)


def read_copied_shard(output: str, shard: InheritedShard, folder: str) -> Iterator[tuple[TokenBatch, list[bytes]]]:
    """As read_shard. folder: that of copy_shard_if_remote."""
    content = ShardContent()
    for batch in FormatFile(shard.format, f"{folder}/{shard.path}").open().batches():
        digests = compute_document_digests(batch.langs, batch.tokens, batch.offsets)
        content.update(batch, digests)
        yield batch, digests
    if content.hexdigest() != shard.shard.content_sha256:
        raise StageError(
            f"{redact(urls.join(output, 'shards', shard.path))}: its documents are not those that were committed. "
            f"`tokcore repair` makes the file again"
        )


def decode_texts(tokenizer: Tokenizer, tokens: TokenBatch, around: tuple[int, int]) -> list[bytes]:
    """The texts of documents, as the tokens of a lossless tokenizer spell them. around: as count_around gives it."""
    before, after = around
    ends = tokens.offsets.tolist()
    return [tokenizer.decode(tokens.tokens[start + before : end - after]) for start, end in itertools.pairwise(ends)]
