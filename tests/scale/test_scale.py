"""The simulation of large builds: planning takes little memory for each file, and merging reads a row once a tier."""

from __future__ import annotations

import math

import pytest
from scale.simulate import SIZES, Planned, estimate, find_first_break, measure_elsewhere, merge_synthetic

from tokcore_pipelines.work.merge_tree import FAN_IN


@pytest.fixture(scope="module")
def planned() -> Planned:
    return measure_elsewhere(160_000)  # a peak differs by a megabyte from process to process


def test_planning_takes_little_memory_for_each_file(planned):
    """With listing, sorting and writing: ten million files fit into 2 GB. An object for each would take 800 bytes."""
    fewer = measure_elsewhere(planned.files // 4)
    assert 0 < (planned.peak_bytes - fewer.peak_bytes) / (planned.files - fewer.files) < 150
    assert planned.files // 4 <= planned.items <= planned.files // 2  # runs end where hashes of names say


def test_merges_read_a_row_once_a_tier():
    for num_runs in (FAN_IN**2, FAN_IN**3):
        merged = merge_synthetic(num_runs, 25_000, 256)
        assert merged.left == 1
        assert merged.read_bytes <= num_runs * 25_000 * math.log(num_runs, FAN_IN)
        assert merged.merges < num_runs / (FAN_IN - 2)


def test_what_breaks_first(planned):
    needs = {name: estimate(size, planned) for name, size in SIZES.items()}
    assert needs["1 TB"].items < needs["100 TB"].items < needs["10 PB"].items
    assert needs["1 TB"].find_breaks() == []
    assert "learning" in needs["100 TB"].find_breaks()
    assert set(needs["10 PB"].find_breaks()) >= {"references to runs", "learning"}
    assert needs["1 TB"].mixed_core_hours < 1.25 * needs["1 TB"].core_hours
    size, breaks = find_first_break(planned)
    assert 10**12 < size < 10**14
    assert breaks
