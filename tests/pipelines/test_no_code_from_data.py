"""Nothing that is read, received or named by a build can become code. For the source: tests/lints/code_from_data.py."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.portability.api import beam_runner_api_pb2
from support.builds import build_file, run_once, small_corpus, texts
from support.graphs import every_graph, list_creates

from tokcore.errors import FormatError
from tokcore.files.canonical_json import write_canonical_json
from tokcore.shards.opened_shards import open_shards
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.store.attempts import Attempts, publish
from tokcore_schemas.refs import RunRef, ShufflePart, StoredFile
from tokcore_schemas.stage_table import STAGES, WHOLE

# ------------------------------------------------------------------------------------------------------ between workers

# Beam's own transforms that pickle what they hold. We use Create and GroupByKey, which need not; Reshuffle would.
BEAMS_OWN: set[str] = set()

# Beam pickles the graph itself, on the machine that submits it: functions, sums and transforms, with their settings.
GRAPH_ITSELF = {
    b"beam:dofn:pickled_python_info:v1",
    b"beam:combinefn:pickled_python:v1",
    b"beam:transform:pickled_python:v1",
}


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> list[beam.Pipeline]:
    return every_graph(tmp_path_factory.mktemp("graphs"))


def pickled(components, coder_id: str) -> bool:
    coder = components.coders[coder_id]
    return "pickle" in coder.spec.urn or any(pickled(components, part) for part in coder.component_coder_ids)


def test_no_pickle_on_what_travels(graphs):
    names = set()
    for graph in graphs:
        components = graph.to_runner_api().components
        assert len(components.pcollections) >= 5
        names |= {pc.unique_name for pc in components.pcollections.values() if pickled(components, pc.coder_id)}
    assert names == BEAMS_OWN


def test_no_pickle_in_accumulators(graphs):
    combined = 0
    for graph in graphs:
        components = graph.to_runner_api().components
        for transform in components.transforms.values():
            if transform.spec.urn == "beam:transform:combine_per_key:v1":
                payload = beam_runner_api_pb2.CombinePayload.FromString(transform.spec.payload)
                assert not pickled(components, payload.accumulator_coder_id), transform.unique_name
                combined += 1
    assert combined >= 4


def test_beam_pickles_the_graph_itself_and_nothing_else(graphs):
    found = {urn for graph in graphs for urn in re.findall(rb"[\w:]*pickle[\w:]*", proto_bytes(graph))}
    assert found == GRAPH_ITSELF


def test_what_a_build_creates_is_names_of_plan_files(graphs):
    """Create is pickled with its values, which must not be texts of the corpus; parts of a shuffle name files."""
    builds = graphs[:-1]
    assert len(builds) == 10
    kinds = set()
    for graph in builds:
        found = list_creates(graph)
        assert found
        values = [value for create in found for value in create.values]
        kinds |= {type(value) for value in values}
        for value in values:
            name = value if isinstance(value, str) else f"plan-0000-{'0' * 64}.jsonl"
            assert re.fullmatch(r"plan-\d{4}-[0-9a-f]{64}\.jsonl", name)
            assert isinstance(value, str) or [type(part) for part in value] == [int, ShufflePart]
    assert kinds == {str}


def proto_bytes(graph) -> bytes:
    return graph.to_runner_api().SerializeToString()


def test_every_transform_of_ours_is_in_a_graph(graphs):
    def below(cls):
        return {cls} | {one for sub in cls.__subclasses__() for one in below(sub)}

    ours = below(beam.PTransform) | below(beam.DoFn) | below(beam.CombineFn)
    ours = {
        cls.__name__ for cls in ours if cls.__module__.split(".")[0] == "tokcore_pipelines" and not below(cls) - {cls}
    }
    text = "".join(str(graph.to_runner_api()) for graph in graphs)
    assert len(ours) > 10
    assert not [name for name in ours if name not in text]


# ------------------------------------------------------------------------------------------------------------ in paths

OUTSIDE = ["/etc/passwd", "../../secret", "arrow/../../secret", "s3://bucket/a", "a\\b", "a\0b", "", ".", "a//b", "./a"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paths")
    small_corpus(folder)
    run_once(build_file(folder), folder / "out")
    return folder / "out"


@pytest.fixture
def output(built: Path, tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("not yours")
    return Path(shutil.copytree(built, tmp_path / "out"))


def rewritten(output: Path, stage: str, change) -> None:
    """Change a manifest and correct every hash above it, as an attacker with write access would."""
    path = output / stage / "manifest.json"
    content = json.loads(path.read_bytes())
    change(content)
    path.write_bytes(write_canonical_json(content))
    build = find_manifest(str(output), WHOLE)
    inputs = {name: find_manifest(str(output), STAGES[name]).as_input() for name in build.inputs}
    build = dataclasses.replace(build, inputs=inputs, root="")
    build = dataclasses.replace(build, root=build.content_id())
    (output / "manifest.json").write_bytes(build.to_bytes())


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("stage", ["plan", "rejected", "counts", "tokenizer", "shards"])
def test_a_manifest_that_names_what_is_outside(output, stage, path):
    def change(content):
        content["files"][0]["path"] = path

    rewritten(output, stage, change)
    assert any("expected a relative path" in problem for problem in verify(str(output)).problems)


@pytest.mark.parametrize("path", OUTSIDE)
def test_shards_outside_are_not_opened(output, path):
    def change(content):
        content["files"][0]["path"] = path

    rewritten(output, "shards", change)
    with pytest.raises(FormatError, match="not below its folder"):
        open_shards(output)


def test_shards_behind_a_link_are_not_opened(output):
    shard = next((output / "shards" / "megatron").glob("*.bin"))
    shard.rename(output.parent / "elsewhere.bin")
    shard.symlink_to(output.parent / "elsewhere.bin")
    with pytest.raises(FormatError, match="a link to a place outside of"):
        open_shards(output)


@pytest.mark.parametrize("path", OUTSIDE)
def test_records_of_work_that_name_what_is_outside(tmp_path, path):
    attempts = Attempts(str(tmp_path / "out"), "counts", "0" * 64)
    (tmp_path / "out").mkdir()
    with attempts.new_file("a") as new:
        new.file.write(b"content")
    stored = attempts.record("good", new.stored("a"))
    for changed in (dataclasses.replace(stored, path=path), dataclasses.replace(stored, attempt=path)):
        recorded = attempts.record(f"key-{changed.path == path}", changed)
        assert attempts.result(f"key-{changed.path == path}", StoredFile) == recorded
        with pytest.raises(FormatError, match="expected a relative path"):
            publish(attempts, str(tmp_path / "out" / "counts"), [recorded])
    with pytest.raises(FormatError, match="expected a relative path"):
        attempts.url(RunRef("en", 0, path, 0, 0, "").attempt)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]


# ------------------------------------------------------------------------------------------------- the current folder


def test_a_build_runs_nothing_from_the_folder_in_which_it_is_started(tmp_path):
    """Also not where files have the names of our packages, and of modules that workers and readers import."""
    (tmp_path / "hi.txt").write_text("some text\n")
    pq.write_table(pa.table({"text": texts("en", 30)}), tmp_path / "en.parquet")
    sources = '[[source]]\nlang = "hi"\nfiles = "hi.txt"\n[[source]]\nlang = "en"\nfiles = "en.parquet"\n'
    path = build_file(tmp_path, sources, '[learn]\nmodel = "byte"\n')
    ours = ("tokcore", "tokcore_schemas", "tokcore_pipelines", "schemas", "pipelines")
    for name in (*ours, "apache_beam", "json", "numpy", "pyarrow"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("open('was-run', 'w').close()\n")
    program = Path(sys.executable).parent / "tokcore"
    done = subprocess.run([program, "build", path], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "was-run").exists()
    assert len(open_shards(tmp_path / "out")) == 31
