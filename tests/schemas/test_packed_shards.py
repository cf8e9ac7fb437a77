"""Packed shards are the shards that went in, in their order, in memory or in a file; so are blocks of bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore.formats.shard_facts import ShardFacts
from tokcore_schemas import spooled_blocks
from tokcore_schemas.packed_shards import pack_shards
from tokcore_schemas.refs import ShardRef, StoredFile
from tokcore_schemas.spooled_blocks import SpooledBlocks

texts, numbers = st.text(st.characters(exclude_categories=["Cs"]), max_size=4), st.integers(0, 2**63)
facts = st.builds(
    ShardFacts,
    *(texts, numbers, texts, texts, numbers, numbers, st.integers(-1, 2**31)),
    result_key=texts,
    partition=texts,
)
files = st.lists(st.builds(StoredFile, texts, texts, numbers, texts, texts), max_size=3).map(tuple)
shards = st.lists(st.builds(ShardRef, facts, texts, files), max_size=70)


@pytest.mark.parametrize("held_bytes", [1 << 24, 1], ids=["in memory", "in a file"])
@given(found=shards, later=shards)
def test_packed_shards_equal_a_list(held_bytes, found, later):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spooled_blocks, "HELD_BYTES", held_bytes)
        packed = pack_shards(found)
        assert list(packed) == found
        for shard in later:
            packed.append(shard)
        assert list(packed) == [*found, *later] == list(packed), "it can be read twice"
        assert len(packed) == len(found) + len(later)


def test_more_shards_than_are_packed_at_once():
    shard = ShardRef(
        ShardFacts("train-00000-00000", 0, "en", "train", 1, 2, 3), "c", (StoredFile("a", "b", 1, "", ""),)
    )
    assert list(pack_shards([shard] * 100)) == [shard] * 100


@given(st.lists(st.binary(max_size=9)), st.integers(1, 20))
def test_spooled_blocks_equal_a_list(found, held_bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spooled_blocks, "HELD_BYTES", held_bytes)
        blocks = SpooledBlocks()
        for number, block in enumerate(found):
            blocks.append(block)
            assert blocks[number // 2] == found[number // 2], "what is read between two writes moves no write"
        assert list(blocks) == found
        assert blocks[1:-1] == found[1:-1]
        assert len(blocks) == len(found)
        for index in (len(found), -1):
            with pytest.raises(IndexError):
                blocks[index]
