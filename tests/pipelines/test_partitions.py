"""shards.partition_by: each document is in the folder of its values, and a loop over documents says which that is."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset
import pytest
from support.builds import ON_BEAM, build_file, jsonl, run, tokcore, tree, write
from support.partitioned import DOCUMENTS, METADATA, NULL, SOURCES, find_bin, find_folder, group, make_documents

import tokcore as tk
from tokcore.errors import ConfigError, StageError
from tokcore.formats.partition_names import Partitioning, find_partition
from tokcore.shards.format_table import SHARD_FORMATS
from tokcore.shards.labels import label_strings
from tokcore.shards.partitions import find_fault, label_partitions
from tokcore_pipelines import remove, report, update
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.look.show import list_shards, list_shards_at
from tokcore_schemas.config import parse_config
from tokcore_schemas.shard_entries import list_named_shards
from tokcore_schemas.stage_table import MIXED, PACKED, SHARDS, WHOLE

KEYS = 'partition_by = ["lang", "topic", "quality"]\nbins = { quality = [0.2, 0.5, 0.8] }\n'
FORMATS = [name for name in SHARD_FORMATS if SHARD_FORMATS[name].holds_metadata or not SHARD_FORMATS[name].has_columns]
FEW = ["arrow", "megatron"]
SETTINGS = "[learn]\nvocab_size = 300\n[plan]\nrange_bytes = 9000\n[shards]\nvalidation = 0.2\ntarget_tokens = 150\n"


def list_partitions(place, at: int | None = None) -> dict[str, set[str]]:
    """Folder -> the documents in its shards, each once."""
    found: dict[str, list[str]] = defaultdict(list)
    shards = tk.open_shards(place, split="all", at=at)
    names = iter(range(len(shards)))
    for file in shards.list_files():
        own = [shards.document(next(names)).id for _ in range(file.num_documents)]
        found[find_partition(Path(file.path).parent)] += own
    assert all(len({*ids}) == len(ids) for ids in found.values())
    return {folder: {*ids} for folder, ids in found.items()}


def settings(more: str = "", formats: list[str] = FORMATS) -> str:
    return f"{SETTINGS}formats = {json.dumps(formats)}\n{KEYS}{more}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("partitions")
    write(folder / "a.jsonl", jsonl(DOCUMENTS))
    run(build_file(folder, SOURCES + METADATA, settings()), folder / "out")
    run(build_file(folder, SOURCES + METADATA, SETTINGS, "plain.toml"), folder / "plain")
    return folder


def test_every_format_has_the_groups_of_a_loop(folder):
    assert len(group(DOCUMENTS)) > 40
    for place in (folder / "out", *(folder / "out" / "shards" / name for name in FORMATS)):
        assert list_partitions(place) == group(DOCUMENTS)
    one = find_folder(DOCUMENTS[0])
    below = list_partitions(folder / "out" / "shards" / "nanogpt" / one)
    assert below == {one: group(DOCUMENTS)[one]}, "a folder of a partition opens by itself"


def test_other_folders_the_same_documents(folder):
    plain, own = (require_manifest(str(folder / name), WHOLE) for name in ("plain", "out"))
    assert plain.totals.documents_digest == own.totals.documents_digest
    assert plain.languages == own.languages
    assert "partition" not in (folder / "plain" / "shards" / "manifest.json").read_text()


def test_what_reads_hive_folders_reads_these(folder):
    place = folder / "out" / "shards" / "parquet"
    own = [one for one in DOCUMENTS if one["topic"] != NULL]  # which others take for none
    expected = {one["id"]: (one["l"], one["topic"], find_bin(one["quality"])) for one in own}
    names = ("id", "lang", "topic", "quality")
    frame = polars.scan_parquet(place, hive_partitioning=True).select(names).collect()
    found = {id: tuple(values) for id, *values in frame.rows()}
    assert {id: found[id] for id in expected} == expected
    schema = pa.schema([("lang", pa.string()), ("topic", pa.string()), ("quality", pa.float32())])
    partitioning = pyarrow.dataset.partitioning(schema, flavor="hive")
    table = pyarrow.dataset.dataset(place, partitioning=partitioning).to_table(columns=list(names))
    found = {row.pop("id"): tuple(row.values()) for row in table.to_pylist()}
    assert {id: found[id] for id in expected} == expected
    few = pyarrow.dataset.dataset(place, partitioning=partitioning).to_table(
        filter=(pyarrow.dataset.field("topic") == "a/b c") & (pyarrow.dataset.field("quality") == 3)
    )
    assert set(few["id"].to_pylist()) == {
        id for id, (_, topic, bin) in expected.items() if (topic, bin) == ("a/b c", 3)
    }
    rows = duckdb.sql(
        f"SELECT lang, count(*) FROM read_parquet('{place}/**/*.parquet', hive_partitioning=true) GROUP BY 1"
    )
    assert dict(rows.fetchall()) == Counter(one["l"] for one in DOCUMENTS)


def test_shards_end_at_the_target_in_each_partition(folder):
    shards = list_named_shards(require_manifest(str(folder / "out"), SHARDS))
    streams = defaultdict(list)
    for shard in shards:
        assert shard.facts.lang == ""
        streams[shard.facts.item, shard.facts.partition, shard.facts.split].append(shard.facts.tokens)
    assert all(tokens >= 150 for own in streams.values() for tokens in own[:-1])
    assert len({item for item, _, _ in streams}) > 3
    assert max(map(len, streams.values())) > 1


def test_the_same_bytes_whatever_does_the_work(folder, tmp_path):
    more = '[shuffle]\nseed = 7\n[mixture]\nstrategy = "natural"\n[pack]\nlength = 64\n'
    for name, text in (("plan", settings(formats=FEW)), ("shuffled", settings(more, FEW))):
        path = build_file(folder, SOURCES + METADATA, text, f"{name}.toml")
        run(path, tmp_path / f"{name}-1")
        run(path, tmp_path / f"{name}-2", workers=2)
        assert tree(tmp_path / f"{name}-1") == tree(tmp_path / f"{name}-2")
        assert verify(str(tmp_path / f"{name}-1"), decode=None, base=str(folder)).problems == ()
    run(build_file(folder, SOURCES + METADATA, settings(formats=FEW), "plan.toml"), tmp_path / "beam", runner=ON_BEAM)
    assert tree(tmp_path / "plan-1") == tree(tmp_path / "beam")
    for stage in (SHARDS, MIXED):
        assert list_partitions(tmp_path / "shuffled-1" / stage.name / "arrow") == group(DOCUMENTS)
    rows = {
        find_partition(Path(path).parent) for path in tk.open_shards(tmp_path / "shuffled-1" / PACKED.name, "all").paths
    }
    assert rows == group(DOCUMENTS).keys(), "rows have documents of one partition"


def test_updates_removals_and_repairs_follow(folder, tmp_path):
    write(tmp_path / "a.jsonl", jsonl(DOCUMENTS))
    path = build_file(tmp_path, SOURCES + METADATA, settings(formats=["parquet", "megatron"]))
    run(path, tmp_path / "out")
    more = make_documents("b", 40)
    write(tmp_path / "a2.jsonl", jsonl(more))
    update(path, workers=1)
    assert list_partitions(tmp_path / "out") == group([*DOCUMENTS, *more])
    listed = list_shards_at(read_output(str(tmp_path / "out")))
    assert {name: sums.documents for name, sums in listed.partitions.items()} == {
        name: len(ids) for name, ids in group([*DOCUMENTS, *more]).items()
    }
    gone = [DOCUMENTS[3]["id"], more[2]["id"]]
    remove(tmp_path / "out", ids=gone, workers=1)
    left = group([one for one in [*DOCUMENTS, *more] if one["id"] not in gone])
    assert list_partitions(tmp_path / "out") == left
    assert verify(str(tmp_path / "out"), decode=None, base=str(tmp_path)).problems == ()
    lost = sorted((tmp_path / "out" / "shards" / "megatron").rglob("train-*.bin"))[0]
    lost.unlink()
    repair(str(tmp_path / "out"))
    assert lost.exists()
    assert verify(str(tmp_path / "out"), decode=None, base=str(tmp_path)).problems == ()


def test_a_document_in_the_wrong_folder_is_found(folder, tmp_path, monkeypatch):
    """Shards made by a build that deals wrongly: hashes and manifests fit together, and folders lie."""
    from tokcore_pipelines.work import shard_streams

    path = build_file(folder, SOURCES + METADATA, settings(formats=["parquet"]), "wrong.toml")
    right = shard_streams.label_partitions

    def deal(by, langs, metadata):
        at = metadata.schema.get_field_index("topic")
        return right(by, langs, metadata.set_column(at, "topic", pa.array(["web"] * len(langs))))

    monkeypatch.setattr(shard_streams, "label_partitions", deal)
    run(path, tmp_path / "out")
    monkeypatch.undo()
    problems = verify(str(tmp_path / "out"), decode=None, base=str(folder)).problems
    assert any("is of partition lang=" in one and "topic=web" in one for one in problems)


def test_too_many_partitions_end_the_build_before_shards_are_committed(folder, tmp_path):
    num = len(group(DOCUMENTS))
    for limit in (5, num - 1):
        more = f"max_partitions = {limit}\n"
        path = build_file(folder, SOURCES + METADATA, settings(more, ["parquet"]), "many.toml")
        with pytest.raises(StageError, match=rf"shards.max_partitions = {limit}: .*Leave a key out") as error:
            run(path, tmp_path / "out")
        found = int(str(error.value).partition(" the documents have ")[2].partition(" ")[0])
        assert (found == num) == (limit > 5), "found by the first work item, or once all are there"
        assert not (tmp_path / "out" / "shards" / "manifest.json").exists()
    path.write_text(path.read_text().replace(f"max_partitions = {limit}", f"max_partitions = {num}"))
    run(path, tmp_path / "out")
    assert list_partitions(tmp_path / "out") == group(DOCUMENTS)


def test_a_value_too_long_for_a_folder(tmp_path):
    write(tmp_path / "a.jsonl", jsonl([{**DOCUMENTS[0], "topic": "é" * 50}]))
    path = build_file(tmp_path, SOURCES + METADATA, settings(formats=["parquet"]).replace("validation = 0.2", ""))
    path.write_text(path.read_text().replace("vocab_size", "allow_smaller = true\nvocab_size"))
    with pytest.raises(StageError, match=r"partition_by: a document has topic = 'é.*306 bytes, at most 255"):
        run(path, tmp_path / "out")


def test_show_and_the_report(folder):
    shown = tokcore("show", folder / "out")
    sums = list_shards(str(folder / "out")).partitions
    numbers = {name: len(ids) for name, ids in group(DOCUMENTS).items()}
    assert {name: own.documents for name, own in sums.items()} == numbers
    assert re.search(r"\npartition +shards +documents +tokens +stored\nlang=", shown.stdout)
    assert f"and {len(sums) - 20:,} more (--json has all shards)" in shown.stdout
    told = json.loads(tokcore("show", folder / "out", "--json").stdout)
    assert Counter(shard["partition"] for shard in told) == {name: own.shards for name, own in sums.items()}
    reported = report(folder / "out")["corpus"]["partitions"]
    assert {name: own["documents"] for name, own in reported.items()} == numbers


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            'partition_by = ["topics"]',
            "names topics, which is no field of the metadata: expected lang",
        ),
        ('partition_by = ["quality"]', r"names quality, whose values \(float32\) hardly repeat: give it bins"),
        ('partition_by = ["topic"]\nbins = { topic = [1] }', "is for numbers, and topic is a string"),
        ('partition_by = ["topic"]\nbins = { year = [1] }', "is for a key of partition_by, which does not name it"),
        ('partition_by = ["year"]\nbins = { year = [1.5] }', "has 1.5, and year is an int32"),
        ('partition_by = ["year"]\nbins = { year = [3, 1] }', "must have bounds that ascend"),
        ('partition_by = ["quality"]\nbins = { quality = [0.1, 0.100000000001] }', "rounded to float32"),
        ('partition_by = ["year"]\nbins = { year = [] }', "is empty"),
        ('partition_by = ["year"]\nbins = { year = 3 }', "expected a table of lists"),
        ('partition_by = ["lang", "lang"]', "is there twice"),
        ('by = "lang"\npartition_by = ["topic"]', "partition_by is there, too"),
        ("max_partitions = 0", "expected a whole number of at least 1"),
    ],
)
def test_what_a_build_file_may_not_say(keys, message):
    with pytest.raises(ConfigError, match=message):
        parse_config(f'version = 1\n[build]\noutput = "o"\n{SOURCES}{METADATA}[shards]\n{keys}\n', "build.toml")


@pytest.mark.parametrize(("kind", "dtype"), [("int32", pa.int32()), ("int64", pa.int64()), ("float64", pa.float64())])
def test_bins_are_half_open(kind, dtype):
    bounds = ("-3", "0", "7") if kind != "int64" else ("-3", "0", str(2**62 + 1))
    by = Partitioning(("x",), {"x": bounds})
    assert find_fault(by, [("x", kind)]) is None
    edges = [int(one) for one in bounds]
    values = sorted({one + step for one in edges for step in (-1, 0, 1)})
    column = pa.array([*values, None], dtype)
    found = label_partitions(by, label_strings(["en"] * len(column)), pa.record_batch({"x": column}))
    assert [*found] == [*(f"x={sum(one >= edge for edge in edges)}" for one in values), f"x={NULL}"]
    if kind == "float64":
        nan = label_partitions(by, label_strings(["en"]), pa.record_batch({"x": pa.array([float("nan")])}))
        assert [*nan] == [f"x={NULL}"]


def test_no_document_no_partition():
    empty = pa.record_batch({"t": pa.array([], pa.string())})
    assert [*label_partitions(Partitioning(("lang", "t"), {}), label_strings([]), empty)] == []
