"""How the work items of a plan reach the workers: by name, all of them, large ones first."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that
from support import eager
from support.graphs import list_creates, make_jobs

from pipelines.graph.beam_passes import add_count_graph, add_encode_graph, add_gather_graph
from pipelines.graph.spread_items import SpreadItems, _ReadPart
from pipelines.store.attempts import Attempts
from pipelines.work.plan_parts import (
    count_parts,
    name_part,
    read_pieces,
    read_plan_part,
    write_pieces,
    write_plan_parts,
)
from pipelines.work.token_count_runs import count_groups
from schemas.plan import InputFile, InputRange, Plan, ReadSettings, WorkItem
from schemas.refs import ShufflePart
from tokcore.errors import LedgerError

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
    count_job, encode_job = make_jobs(attempts)
    for stage in ("count", "encode", "gather"):
        pipeline = beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"]))
        if stage == "count":
            add_count_graph(pipeline, parts, count_job, None)
        elif stage == "encode":
            add_encode_graph(pipeline, parts, num_files, encode_job, None)
        else:  # the parts of a shuffle are as many as there are shards
            add_gather_graph(pipeline, parts, num_files, encode_job, None)
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
    names = write_pieces(attempts, parts)
    assert [one for name in names for one in read_pieces(attempts, name, ShufflePart)] == parts
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


def test_large_items_come_first(attempts):
    """On the local engine, which keeps the order of arrival; and on an engine that sorts keys, as bytes."""
    plan = make_plan(2500)
    parts = write_plan_parts(attempts, plan)
    with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"])) as pipeline:
        keys = [key for part in parts for key, _ in _ReadPart(attempts).process(part)]
        assert keys == sorted(keys)
        sizes = pipeline | SpreadItems(attempts, parts) | beam.Map(lambda item: item.size_bytes)

        def check(found):
            assert list(found) == sorted((file.size_bytes for file in plan.files), reverse=True)

        assert_that(sizes, check)


def test_every_item_is_spread_once_on_a_hostile_runner(attempts, tmp_path):
    eager.seed(7, share=0.7)
    parts = write_plan_parts(attempts, make_plan(1500))
    out = tmp_path / "numbers"
    with beam.Pipeline(options=PipelineOptions(list(eager.RUNNER))) as pipeline:
        _ = pipeline | SpreadItems(attempts, parts) | beam.ParDo(_Note(str(out)))
    assert {int(line) for line in out.read_text().split()} == set(range(1500))


class _Note(beam.DoFn):
    def __init__(self, path):
        self._path = path

    def process(self, item):
        with Path(self._path).open("a") as file:
            file.write(f"{item.number}\n")


@pytest.mark.parametrize(("num_items", "groups"), [(0, 0), (1, 1), (16, 1), (17, 2), (1024, 64), (10**7, 64)])
def test_counts_of_ids_have_no_key_through_which_all_pass(num_items, groups):
    """A group has many items, where there are many, but the work grows with the number of groups up to 64."""
    assert count_groups(num_items) == groups
