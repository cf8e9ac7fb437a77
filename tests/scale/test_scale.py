"""The simulation of large builds: what the driver holds for each file and work item, merges, languages, growth."""

from __future__ import annotations

import dataclasses
import gc
import random
import tempfile
import tracemalloc
from types import SimpleNamespace
from typing import Any, cast, get_args

import numpy as np
import pytest
from scale.simulate import (
    ITEM_BYTES,
    MAX_LEARN_HOURS,
    MEMORY,
    RANGE_BYTES,
    ROUND_ROW_BYTES,
    SHARD_BYTES,
    SIZES,
    Planned,
    choose_hosts,
    count_rounds,
    estimate,
    find_first_break,
    list_levels,
    measure_elsewhere,
    simulate_rounds,
)
from support.manifests import MANIFESTS

from tokcore.count.pretoken_rows import CountRows, Counts
from tokcore.formats.shard_facts import ShardFacts
from tokcore.learn.rounds import MergesSoFar, Round, divide_memory, learn_in_rounds
from tokcore.text.texts import Texts, make_texts_from_strings
from tokcore_pipelines.build.counted_items import add_up_items
from tokcore_pipelines.build.encoded_items import IdMerges, ReadItems, WrittenShards
from tokcore_pipelines.build.shard_files import list_shard_files
from tokcore_pipelines.work.key_ranges import MAX_RANGES
from tokcore_pipelines.work.learn_from_disk import spill
from tokcore_pipelines.work.merge_tree import FAN_IN
from tokcore_schemas import spooled_blocks
from tokcore_schemas.manifest import ENTRIES_PER_PART, FileEntry
from tokcore_schemas.packed_entries import collect_entries
from tokcore_schemas.refs import (
    HashedDocuments,
    ItemCounted,
    ItemEncoded,
    LanguageCounts,
    RangeLedger,
    RunFile,
    RunRef,
    ShardRef,
    StoredFile,
    pack_runs,
    spell_shard_name,
)
from tokcore_schemas.stage_manifests import CorpusAbout
from tokcore_schemas.stage_table import SHARDS


@pytest.fixture(scope="module")
def planned() -> Planned:
    return measure_elsewhere(160_000)  # a peak differs by a megabyte from process to process


def test_planning_takes_little_memory_for_each_file(planned):
    """With listing, sorting and writing: ten million files fit into 2 GB. An object for each would take 800 bytes."""
    fewer = measure_elsewhere(planned.files // 4)
    assert 0 < (planned.peak_bytes - fewer.peak_bytes) / (planned.files - fewer.files) < 150
    assert planned.files // 4 <= planned.items <= planned.files // 2  # runs end where hashes of names say


@pytest.mark.parametrize("items", [1, FAN_IN, FAN_IN + 1, 5_000])
def test_levels_are_those_of_a_build(items):
    """And in all, few more merges than a fifteenth of the items."""
    levels = list_levels(items)
    assert [num for num, _ in levels[:1]] == [items] * (items > FAN_IN)
    assert all(-(-num // FAN_IN) == merges for num, merges in levels)
    assert levels == [] or 1 < levels[-1][1] <= FAN_IN
    assert sum(merges for _, merges in levels) <= items / (FAN_IN - 1) + len(levels)


@pytest.mark.parametrize("num_languages", [1, 161])
def test_records_take_no_more_memory_than_simulated(num_languages):
    """As the driver reads them: of many languages in each item, and with as many ranges as there may be."""
    runs = pack_runs("a", [RunRef("", i, "a", i, 1, f"{i:064x}") for i in range(MAX_RANGES)])
    assert len(runs.packed) <= 16 * MAX_RANGES
    grown = _measure_records(1500, num_languages, runs) - _measure_records(500, num_languages, runs)
    assert grown / 1000 <= ITEM_BYTES + 2 * RANGE_BYTES


def _measure_records(num: int, num_languages: int, runs: RunFile) -> int:
    """Bytes that are held when so many records are added up, of two ranges each."""
    chance = random.Random(num)
    tracemalloc.start()
    added = add_up_items(_make_item(i, num_languages, runs, chance) for i in range(num))
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert sum(ledger.num_documents for ledger in added.ledgers) == 2 * num * 90
    return held


def _make_item(number: int, num_languages: int, runs: RunFile, chance: random.Random) -> ItemCounted:
    ledgers = tuple(
        RangeLedger(file, 0, size, size, 100, 90, chance.randrange(10**7), {"no_text": 10}, "")
        for file in (2 * number, 2 * number + 1)
        for size in [chance.randrange(10**7)]
    )
    languages = {f"l{i}": LanguageCounts(1, 2, 3, 4, 5) for i in range(num_languages)}
    rejects = StoredFile("", f"item-{number:05d}.rejects.{chance.getrandbits(48):012x}", 1000, "0" * 64, "0" * 64)
    return ItemCounted(number, ledgers, languages, (runs,), {}, rejects)


def test_shards_take_no_more_memory_than_simulated(monkeypatch):
    """From the records of the encode stage to the last byte of the manifest. Objects would take 4 kB of each."""
    monkeypatch.setattr(spooled_blocks, "HELD_BYTES", 1 << 18)  # as of very many, most wait in a file
    _measure_shards(10)  # what is made once
    # Two parts of a tree are held at a time, whatever the number of shards.
    grown = _measure_shards(2 * ENTRIES_PER_PART + 6000) - _measure_shards(2 * ENTRIES_PER_PART)
    assert 0 < grown / 6000 <= SHARD_BYTES <= 300


def _measure_shards(num: int) -> int:
    """The peak of memory, in bytes, while num work items become a manifest. Each has one range and one shard."""
    chance = random.Random(num)
    tracemalloc.start()
    read, written, merges = ReadItems(), WrittenShards(), IdMerges(num)
    for item in (_make_encoded(number, chance) for number in range(num)):
        written.add(read.add(item))
        merges.add(item.token_counts)
    job = cast("Any", SimpleNamespace(config=SimpleNamespace(formats=("arrow",)), settings=None))
    listed = list_shard_files(job, written.shards, CorpusAbout(num, num))
    files = collect_entries((FileEntry.of(*one) for one in listed), get_args(SHARDS.manifest)[3])
    made = dataclasses.replace(MANIFESTS["shards"], files=cast("Any", files))
    size_bytes = sum(map(len, made.write()))
    made.as_input()
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size_bytes > 300 * num
    assert (len(files), written.held.shards, sum(len(one.runs) for one in merges)) == (num, num, num)
    return held


def _make_encoded(number: int, chance: random.Random) -> ItemEncoded:
    name, key, sha256 = spell_shard_name("train", number, 0), f"{chance.getrandbits(48):012x}", _make_sha256(chance)
    path = f"arrow/{name}-{key}.arrow"
    facts = ShardFacts(name, number, "", "train", chance.randrange(10**5), 10**7 + chance.randrange(10**4), 65535, key)
    file = StoredFile(
        path, f"{path}.{chance.getrandbits(48):012x}", chance.randrange(10**7), _make_sha256(chance), sha256
    )
    size_bytes = chance.randrange(10**7)
    ledger = RangeLedger(number, 0, size_bytes, size_bytes, 100, 90, chance.randrange(10**8), {"no_text": 10}, "")
    ids = RunRef("", 0, f"item-{number:05d}.ids.{chance.getrandbits(48):012x}", 0, 10**5, _make_sha256(chance))
    rejects = StoredFile("", f"item-{number:05d}.rejects.{chance.getrandbits(48):012x}", 1000, sha256, sha256)
    return ItemEncoded(
        number,
        (ledger,),
        {"en": LanguageCounts(90, size_bytes, num_tokens=facts.tokens)},
        (ShardRef(facts, sha256, (file,)),),
        HashedDocuments(90, chance.randbytes(384).hex()),
        ids,
        {},
        rejects,
    )


def _make_sha256(chance: random.Random) -> str:
    return chance.randbytes(32).hex()


def test_what_breaks_first(planned):
    needs = {name: estimate(size, planned) for name, size in SIZES.items()}
    assert needs["1 TB"].items < needs["100 TB"].items < needs["10 PB"].items
    for need in needs.values():
        assert need.references == need.items * need.ranges  # whatever the languages
    driver = needs["100 TB"]
    assert driver.plan_bytes + max(driver.driver_bytes, driver.shard_bytes) < MEMORY["driver"]
    assert needs["100 TB"].shards >= 10**7 / 2
    assert "planning" in needs["10 PB"].find_breaks()
    size, breaks = find_first_break(planned, in_rounds=False)
    assert breaks == ["learning in memory"]
    assert 10**11 < size < 10**14
    later, breaks = find_first_break(planned)
    assert "learning in memory" not in breaks
    assert later > 10 * size


@pytest.mark.parametrize("size", [10**12, 10**14])
def test_languages_cost_little(size, planned):
    """A run for each range: 161 languages cost hardly more than one, and 2,000 less than their text."""
    one, crawl, many = (estimate(size, planned, num) for num in (1, 161, 2000))
    assert one.references == crawl.references == many.references
    assert crawl.merge_hours - one.merge_hours < 0.2 * crawl.text_hours
    assert many.merge_hours < many.text_hours


def test_growth_of_rows_differs_by_script(planned):
    european, chinese = (estimate(10**12, planned, mix=mix).learner_bytes for mix in ("European", "a third Chinese"))
    assert chinese > 5 * european


def make_table(num: int) -> tuple[Texts, Counts]:
    """Words of syllables, some far more frequent than others."""
    chance = random.Random(4)
    syllables = [a + b for a in "bcdfghklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "il", "os")]
    words = sorted({"".join(chance.choices(syllables, k=chance.randint(2, 5))).encode() for _ in range(num)})
    counts = [int(num / chance.randint(1, num)) for _ in words]
    return make_texts_from_strings(words), np.array(counts, np.uint64)


def test_rounds_take_what_is_simulated(tmp_path, monkeypatch):
    """Rounds, bytes of a row on the disk, and of a piece as hosts exchange it: of a small table, within a factor."""
    texts, counts = make_table(60_000)
    files = []
    opened = tempfile.TemporaryFile
    monkeypatch.setattr("tempfile.TemporaryFile", lambda: files.append(opened(dir=tmp_path)) or files[-1])
    told: list[Round] = []
    for memory_bytes in (1 << 21, 1 << 20):
        sizes = divide_memory(memory_bytes)
        with spill([CountRows(texts, counts, counts)], 0) as read:
            told.clear()
            learn_in_rounds(read, sizes, 2_000, on_round=told.append)
            assert files[-1].seek(0, 2) < ROUND_ROW_BYTES * len(counts)
        assert len(told) / 2 <= count_rounds(len(counts), memory_bytes) <= 2 * len(told)
    one = MergesSoFar().begin_round(sizes)
    one.add_counts(texts, counts)
    one.begin_pieces(50)
    one.add_pieces(texts, counts)
    assert one.num_pieces > 500
    assert 20 < sum(column.nbytes for column in one.pieces) / one.num_pieces < 60
    assert one.bounds.nbytes == 8 << sizes.bound_bits


def test_more_hosts_learn_sooner_until_one_reads_what_all_give():
    of_hosts = [simulate_rounds(1e10, hosts) for hosts in (1, 4, 16)]
    assert of_hosts[0].hours > 5 * of_hosts[1].hours
    assert of_hosts[1].hours < of_hosts[2].hours
    assert choose_hosts(1e10).hours <= of_hosts[1].hours < MAX_LEARN_HOURS
    assert of_hosts[0].exchanged_bytes == 0 < of_hosts[1].exchanged_bytes < of_hosts[2].exchanged_bytes
    assert len({one.rounds for one in of_hosts}) == 1
    assert count_rounds(1e6, MEMORY["learner"]) < count_rounds(1e11, MEMORY["learner"])
