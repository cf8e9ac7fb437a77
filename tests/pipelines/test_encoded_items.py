"""What is kept of work items that were encoded is what all of their records say together."""

from __future__ import annotations

from collections import Counter

import pytest

from tokcore.formats.shard_facts import ShardFacts
from tokcore.shards.documents_digest import DocumentsDigest
from tokcore_pipelines.build.encoded_items import IdMerges, ReadItems, WrittenShards
from tokcore_pipelines.work.hashed_documents import add_up_hashed
from tokcore_pipelines.work.language_totals import add_up_languages
from tokcore_pipelines.work.token_count_runs import find_group_key
from tokcore_schemas.refs import (
    HashedDocuments,
    ItemEncoded,
    LanguageCounts,
    RangeLedger,
    RunRef,
    ShardRef,
    StoredFile,
    spell_shard_name,
)


def make_shard(item: int, number: int) -> ShardRef:
    name = spell_shard_name("train", item, number)
    facts = ShardFacts(name, item, "", "train", item + number, 10 * item, -1, "key", f"p={number}")
    return ShardRef(facts, f"{item:064x}", (StoredFile(f"arrow/{name}", f"{name}.a", item, "s", "c"),) * (number + 1))


def make_item(number: int) -> ItemEncoded:
    digest = DocumentsDigest()
    digest.add([bytes([number]) * 32])
    return ItemEncoded(
        number,
        (RangeLedger(number, 0, 9, 9, 2, 1, 7, {"no_text": 1}, ""),),
        {lang: LanguageCounts(number, 1, num_tokens=3) for lang in ("en", f"l{number % 3}")},
        tuple(make_shard(number, i) for i in range(number % 4)),
        HashedDocuments(digest.num_documents, digest.hexdigest()),
        make_run(number),
        {"<|end|>": number},
        StoredFile("", f"{number}.rejects", number % 2, "", ""),
    )


def make_run(number: int) -> RunRef:
    return RunRef("", 0, f"{number}.ids", number, 5, f"{number:064x}")


@pytest.mark.parametrize("num", [0, 1, 31, 32, 33, 100])
def test_what_is_added_up_is_what_all_records_say(num):
    items = [make_item(number) for number in range(num)]
    read, written = ReadItems(), WrittenShards()
    for item in items:
        written.add(read.add(item))
    shards = [shard for item in items for shard in item.shards]
    assert list(read.ledgers) == [one for item in items for one in item.ledgers]
    assert read.rejects == [item.rejects.attempt for item in items if item.rejects.size_bytes]
    assert read.special_text == sum((Counter(item.special_text) for item in items), Counter())
    assert dict(sorted(read.languages.items())) == add_up_languages(item.languages for item in items)
    assert read.languages == written.languages
    assert list(written.shards) == shards
    assert (written.pieces, written.held.shards) == (num, len(shards))
    assert written.held.documents == sum(shard.facts.documents for shard in shards)
    assert written.held.tokens == sum(shard.facts.tokens for shard in shards)
    assert written.partitions == {shard.facts.partition for shard in shards}
    assert written.hashed == add_up_hashed(item.hashed for item in items)


@pytest.mark.parametrize("num", [0, 1, 16, 17, 640, 1025, 5000])
def test_each_run_of_ids_is_in_the_merge_that_an_engine_gives_it_to(num):
    merges = IdMerges(num)
    for number in range(num):
        merges.add(make_run(number))
    found = {one.key: list(one.runs) for one in merges}
    dealt: dict[str, list[RunRef]] = {}
    for number in range(num):
        dealt.setdefault(find_group_key(number, len(merges)), []).append(make_run(number))
    assert found == dealt
    assert len(merges) == len(found)
