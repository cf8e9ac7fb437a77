"""Shards as a driver keeps them until a manifest names them: there may be ten million. Very many wait in a file."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable
from typing import Any

from tokcore.formats.shard_facts import ShardFacts
from tokcore_schemas.packed_rows import PackedRows, Row
from tokcore_schemas.refs import ShardRef, StoredFile
from tokcore_schemas.spooled_blocks import SpooledBlocks

# A file of a shard has no parts: tables alone lie in several.
_get_facts, _get_file = (
    operator.attrgetter(*(field.name for field in dataclasses.fields(kind) if field.name != "parts"))
    for kind in (ShardFacts, StoredFile)
)


def pack_shards(shards: Iterable[ShardRef] = ()) -> PackedRows[ShardRef]:
    """A sequence of these shards, which others can be appended to."""
    return PackedRows(_flatten, _build, shards, blocks=SpooledBlocks())


def _flatten(shard: ShardRef) -> Row:
    return [*_get_facts(shard.facts), shard.content_sha256, [_get_file(file) for file in shard.files]]


def _build(*row: Any) -> ShardRef:
    *facts, content_sha256, files = row
    return ShardRef(ShardFacts(*facts), content_sha256, tuple(StoredFile(*file) for file in files))
