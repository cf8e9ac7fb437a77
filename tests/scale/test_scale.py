"""The simulation of large builds: what the driver holds for each file and work item, merges, languages, growth."""

from __future__ import annotations

import gc
import random
import tracemalloc

import pytest
from scale.simulate import (
    ITEM_BYTES,
    MEMORY,
    RANGE_BYTES,
    SIZES,
    Planned,
    estimate,
    find_first_break,
    list_levels,
    measure_elsewhere,
)

from tokcore_pipelines.build.counted_items import add_up_items
from tokcore_pipelines.work.key_ranges import MAX_RANGES
from tokcore_pipelines.work.merge_tree import FAN_IN
from tokcore_schemas.refs import ItemCounted, LanguageCounts, RangeLedger, RunFile, RunRef, StoredFile, pack_runs


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


def test_what_breaks_first(planned):
    needs = {name: estimate(size, planned) for name, size in SIZES.items()}
    assert needs["1 TB"].items < needs["100 TB"].items < needs["10 PB"].items
    for need in needs.values():
        assert need.references == need.items * need.ranges  # whatever the languages
    assert needs["100 TB"].plan_bytes + needs["100 TB"].driver_bytes < MEMORY["driver"]
    assert "planning" in needs["10 PB"].find_breaks()
    size, breaks = find_first_break(planned)
    assert breaks == ["learning in memory"]  # which is then done in rounds
    assert 10**11 < size < 10**14


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
