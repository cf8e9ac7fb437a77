"""The plan: every byte in exactly one range, whatever the order in which files were found."""

from __future__ import annotations

import dataclasses
import itertools

from hypothesis import given
from hypothesis import strategies as st

from pipelines.work.work_items import estimate_text_bytes, make_plan
from schemas.plan import InputFile, ReadSettings

JSON_LINES = ReadSettings("jsonl", "none", "text", "", "en", "", "reject", 1000, "", "")
SETTINGS = (
    JSON_LINES,
    dataclasses.replace(JSON_LINES, compression="zst"),
    dataclasses.replace(JSON_LINES, format="text", unit="line"),
    dataclasses.replace(JSON_LINES, format="text", unit="paragraph"),
)

files = st.lists(
    st.builds(
        InputFile,
        uri=st.text("abcé/", min_size=1, max_size=5),
        size_bytes=st.integers(0, 300),
        version=st.just("v"),
        settings=st.integers(0, len(SETTINGS) - 1),
    ),
    unique_by=lambda file: file.uri,
    max_size=12,
)


@given(files, st.integers(1, 100), st.randoms())
def test_every_byte_is_in_one_range_of_one_item(found, range_bytes, random):
    plan = make_plan(found, SETTINGS, range_bytes)
    shuffled = list(found)
    random.shuffle(shuffled)
    assert make_plan(shuffled, SETTINGS, range_bytes) == plan
    assert [item.number for item in plan.items] == list(range(len(plan.items)))
    ranges = [r for item in plan.items for r in item.ranges]
    for index, file in enumerate(plan.files):
        own = [(r.start, r.end) for r in ranges if r.file == index]
        assert own[0][0] == 0
        assert own[-1][1] == file.size_bytes
        assert all(a[1] == b[0] for a, b in itertools.pairwise(own))
        cuttable = file.settings in (0, 2)
        assert cuttable or len(own) == 1
    for item in plan.items:
        assert item.size_bytes == sum(r.end - r.start for r in item.ranges)
        # A run of small files ends with the one that reaches the size.
        text = [estimate_text_bytes(r.end - r.start, SETTINGS[plan.files[r.file].settings]) for r in item.ranges]
        assert 2 * sum(text[:-1]) < range_bytes


def test_partitions_follow_from_the_planned_bytes():
    def partitions(size: int) -> int:
        return make_plan([InputFile("a", size, "v", 1)], SETTINGS, 1 << 26).num_partitions

    assert partitions(0) == partitions(1 << 30) == 1
    assert partitions((1 << 30) + 1) == 2
    assert partitions(5 << 30) == 8
    assert partitions(1 << 50) == 256


def test_an_assignment_carries_what_a_worker_needs():
    plan = make_plan([InputFile("a", 10, "v1", 0)], SETTINGS, 4)
    assignment = plan.assignment(plan.items[1])
    assert [(r.uri, r.version, r.start, r.end, r.settings) for r in assignment.ranges] == [
        ("a", "v1", 4, 8, SETTINGS[0])
    ]
