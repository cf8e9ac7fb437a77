"""The plan: every byte in exactly one range, whatever the order in which files were found."""

from __future__ import annotations

import dataclasses
import itertools

from hypothesis import given
from hypothesis import strategies as st
from support.builds import build_file, jsonl, run, texts, write

from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.work import work_items
from tokcore_pipelines.work.work_items import estimate_text_bytes, make_plan
from tokcore_schemas.plan import InputFile, Plan, ReadSettings, count_partitions
from tokcore_schemas.stage_table import PLAN

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
    def is_small(plan: Plan, number: int) -> bool:
        """Whether a work item is of small files."""
        file = plan.files[plan.items[number].ranges[0].file]
        return 2 * estimate_text_bytes(file.size_bytes, SETTINGS[file.settings]) < range_bytes

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
        text = [estimate_text_bytes(r.end - r.start, SETTINGS[plan.files[r.file].settings]) for r in item.ranges]
        assert sum(text[:-1]) < range_bytes
        assert len(text) == 1 or 2 * max(text) < range_bytes
        is_last = item.number == len(plan.items) - 1
        if not is_last and is_small(plan, item.number) and is_small(plan, item.number + 1):
            assert 8 * sum(text) >= range_bytes


def make_files(num: int, size_bytes: int) -> list[InputFile]:
    return [InputFile(f"data/{number:05d}.jsonl", size_bytes, "v", 0) for number in range(num)]


def list_runs(plan: Plan) -> list[tuple[str, ...]]:
    """The uris of each work item."""
    return [tuple(plan.files[r.file].uri for r in item.ranges) for item in plan.items]


def test_a_new_file_changes_its_own_run_only():
    files = make_files(2000, 1000)
    before = list_runs(make_plan(files, SETTINGS, 64_000))
    changed = 0
    for number in range(0, 2000, 20):
        new = InputFile(f"data/{number:05d}-new.jsonl", 1500, "v", 0)
        after = list_runs(make_plan([*files, new], SETTINGS, 64_000))
        changed += len({*before} - {*after})
        assert len({*before} - {*after}) <= 4  # where a bound cuts, until a hash does again
    assert changed <= 150  # about one for each of 100 files
    sizes = [len(run) for run in before]
    assert 24 <= sum(sizes) / len(sizes) <= 40  # 32 files are half of range_bytes
    assert max(sizes) <= 64


def test_a_plan_does_not_follow_the_order_in_which_files_come():
    files = make_files(40, 1000)
    assert make_plan(files[::-1], SETTINGS, 8000) == make_plan(files, SETTINGS, 8000)


def test_runs_are_bounded_in_number_however_small_their_files_are():
    files = make_files(25_000, 0)
    plan = make_plan(files, SETTINGS, 64_000_000)
    sizes = [len(run) for run in list_runs(plan)]
    assert plan.runs == "few"
    assert sum(sizes) == 25_000
    assert min(sizes[:-1]) >= 125
    assert max(sizes) <= 1000
    assert 400 < sum(sizes) / len(sizes) < 600
    assert make_plan(files, SETTINGS, 64_000_000, runs="few") == plan


def test_a_new_file_changes_its_own_run_of_few_alone():
    files = make_files(5000, 200)
    before, after = ({*list_runs(make_plan(some, SETTINGS, 64_000_000))} for some in (files[1:], files))
    assert len(after - before) <= 2 < len(after)


def test_plans_that_have_few_files_in_a_run_are_as_before():
    files = make_files(2000, 100_000)
    plan = make_plan(files, SETTINGS, 64_000_000)
    assert plan.runs == "hash"
    assert plan == make_plan(files, SETTINGS, 64_000_000, runs="hash")


def test_plans_of_earlier_releases_keep_their_many_files():
    plan = make_plan(make_files(25_000, 0), SETTINGS, 64_000, runs="hash")
    assert [len(run) for run in list_runs(plan)] == [10_000, 10_000, 5000]


def test_runs_of_earlier_releases_stay_as_they_were():
    plan = make_plan(make_files(9, 1000), SETTINGS, 6000, runs="")
    assert [len(run) for run in list_runs(plan)] == [3, 3, 3]
    cut = [InputFile("a", 7000, "v", 0), InputFile("b", 900, "v", 0), InputFile("c", 2000, "v", 0)]
    assert [len(run) for run in list_runs(make_plan(cut, SETTINGS, 6000, runs=""))] == [1, 3]
    assert [len(run) for run in list_runs(make_plan(cut, SETTINGS, 6000))][:2] == [1, 1]


def test_partitions_follow_from_the_planned_bytes():
    """A manifest says how many: part of its bytes, though counts are dealt otherwise now."""
    assert count_partitions(0) == count_partitions(1 << 30) == 1
    assert count_partitions((1 << 30) + 1) == 2
    assert count_partitions(5 << 30) == 8
    assert count_partitions(1 << 50) == 256


def test_an_assignment_carries_what_a_worker_needs():
    plan = make_plan([InputFile("a", 10, "v1", 0)], SETTINGS, 4)
    assignment = plan.assignment(plan.items[1])
    assert [(r.uri, r.version, r.start, r.end, r.settings) for r in assignment.ranges] == [
        ("a", "v1", 4, 8, SETTINGS[0])
    ]


def test_outputs_keep_how_they_were_planned(monkeypatch, tmp_path):
    """With many files in a work item, which new builds do not have; what is built of either is verified."""
    for number, text in enumerate(texts("en", 60)):
        write(tmp_path / f"{number:02d}.jsonl", jsonl([{"text": text}]))
    source = '[[source]]\nlang = "en"\nfiles = "*.jsonl"\n'
    path = build_file(tmp_path, source, "[plan]\nrange_bytes = 1_000_000\n[learn]\nvocab_size = 300\n")
    earlier = run(path, tmp_path / "earlier")
    monkeypatch.setattr(work_items, "MAX_RUN_FILES", 20)
    assert run(path, tmp_path / "earlier") == earlier
    new = run(path, tmp_path / "new")
    assert run(path, tmp_path / "new") == new
    assert new.root != earlier.root
    for output, runs in (("earlier", "hash"), ("new", "few")):
        made = find_manifest(str(tmp_path / output), PLAN)
        assert made is not None
        assert made.config.runs == runs
        assert (made.totals.items > 2) == (runs == "few")
        assert verify(str(tmp_path / output), decode=None, base=str(tmp_path)).problems == ()
