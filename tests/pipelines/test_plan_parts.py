"""How the work items of a plan reach the workers: by name, all of them, large ones first."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from support import eager
from support.graphs import list_creates, make_tasks

from tokcore.errors import LedgerError
from tokcore_pipelines.run.engines import task_graph
from tokcore_pipelines.run.engines.task_graph import RunTasks, _ReadPieces
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.plan_parts import (
    count_parts,
    name_part,
    read_pieces,
    read_plan_part,
    write_pieces,
    write_plan_parts,
)
from tokcore_pipelines.work.token_count_runs import count_groups
from tokcore_schemas.plan import Assignment, InputFile, InputRange, Plan, ReadSettings, WorkItem
from tokcore_schemas.refs import ShufflePart

JSONL = ReadSettings("jsonl", "none", "text", "id", "en", "", "reject", 1 << 20, "", "")
PLAIN = ReadSettings("text", "zst", "", "", "ru", "", "bytes", 1 << 20, "separator", "\n\n")
MAX_GRAPH_BYTES = 1_000_000


def make_plan(num_files: int) -> Plan:
    """A file an item, of sizes in no order."""
    files = tuple(
        InputFile(f"s3://bucket/corpus/part-{i:08d}.jsonl", 1 + i * 7919 % 104729, f"etag-{i}", i % 2)
        for i in range(num_files)
    )
    items = tuple(WorkItem(i, (InputRange(i, 0, file.size_bytes),), file.size_bytes) for i, file in enumerate(files))
    return Plan(files, (JSONL, PLAIN), items, ())


@pytest.fixture
def attempts(tmp_path: Path) -> Attempts:
    return Attempts(str(tmp_path), "counts", "0" * 64)


@pytest.mark.parametrize("num_files", [1_000, 100_000, 10_000_000, 1_000_000_000])
def test_a_graph_holds_names_of_plan_files_only(attempts, num_files):
    if num_files < 1_000_000:
        parts = write_plan_parts(attempts, make_plan(num_files))
    else:  # as they would be named: writing them takes minutes
        parts = [name_part(i, "0" * 64) for i in range(count_parts(num_files))]
    assert len(parts) == count_parts(num_files)
    for stage in ("count", "encode", "gather"):
        pipeline = beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"]))
        _ = pipeline | make_tasks(stage, attempts, make_plan(3), parts)
        assert len(pipeline.to_runner_api().SerializeToString()) <= MAX_GRAPH_BYTES
        assert [create.values for create in list_creates(pipeline)] == [tuple(parts)]


@pytest.mark.parametrize("num_files", [0, 1, 999, 1001, 2500])
def test_parts_hold_each_item_once(attempts, num_files):
    plan = make_plan(num_files)
    parts = write_plan_parts(attempts, plan)
    assert parts == write_plan_parts(attempts, plan), "equal plans have equal parts"
    found = [one for part in parts for one in read_plan_part(attempts, part)]
    assert [rank for rank, _ in found] == list(range(num_files))
    assert sorted((item for _, item in found), key=lambda item: item.number) == [
        plan.assignment(item) for item in plan.items
    ]
    sizes = [item.size_bytes for _, item in found]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("num_parts", [1, 1001])
def test_parts_of_a_shuffle_lie_in_files(attempts, num_parts):
    parts = [ShufflePart(number, num_parts, 64, "key", ()) for number in range(num_parts)]
    names = write_pieces(attempts, parts, num_parts)
    found = [one for name in names for one in read_pieces(attempts, name, ShufflePart)]
    assert found == [*enumerate(parts)]
    path = Path(attempts.url(names[0]))
    path.write_bytes(path.read_bytes().replace(b'"key"', b'"kay"', 1))
    with pytest.raises(LedgerError, match="not the work items that were written there"):
        list(read_pieces(attempts, names[0], ShufflePart))


def test_a_damaged_part_is_found(attempts):
    (part,) = write_plan_parts(attempts, make_plan(3))
    path = Path(attempts.url(part))
    path.write_bytes(path.read_bytes().replace(b"etag-1", b"etag-2"))
    with pytest.raises(LedgerError, match=f"{part}: not the work items that were written there"):
        list(read_plan_part(attempts, part))


def note_item(path: str, item: Assignment) -> None:
    """What stands for the work of a task."""
    with Path(path).open("a") as file:
        file.write(f"{item.number} {item.size_bytes}\n")


def note_all(attempts: Attempts, plan: Plan, path: Path, runner: tuple[str, ...]) -> list[list[int]]:
    """(number, size) of the items, in the order in which a runner has them done."""
    parts = write_plan_parts(attempts, plan)
    with beam.Pipeline(options=PipelineOptions(list(runner))) as pipeline:
        _ = pipeline | RunTasks("note", attempts, note_item, (str(path),), parts, Assignment)
    return [[int(word) for word in line.split()] for line in path.read_text().splitlines()]


def test_large_items_come_first(attempts, tmp_path, monkeypatch):
    """On Beam's own runner, which keeps the order of arrival; and on an engine that sorts keys, as bytes."""
    monkeypatch.setattr(task_graph, "note_item", lambda *_: None)
    plan = make_plan(1500)
    keys = [
        key for part in write_plan_parts(attempts, plan) for key, _ in _ReadPieces(attempts, Assignment).process(part)
    ]
    assert keys == sorted(keys)
    found = note_all(attempts, plan, tmp_path / "items", ("--runner=FnApiRunner",))
    assert [size for _, size in found] == sorted((file.size_bytes for file in plan.files), reverse=True)


def test_every_item_is_done_on_a_hostile_runner(attempts, tmp_path, monkeypatch):
    monkeypatch.setattr(task_graph, "note_item", lambda *_: None)
    eager.seed(7, share=0.7)
    found = note_all(attempts, make_plan(1500), tmp_path / "items", eager.RUNNER)
    assert {number for number, _ in found} == set(range(1500))


@pytest.mark.parametrize(("num_items", "groups"), [(0, 0), (1, 1), (16, 1), (17, 2), (1024, 64), (10**7, 64)])
def test_counts_of_ids_have_no_key_through_which_all_pass(num_items, groups):
    """A group has many items, where there are many, but the work grows with the number of groups up to 64."""
    assert count_groups(num_items) == groups
