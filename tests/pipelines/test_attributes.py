"""metadata.attributes: tables beside the inputs hold fields of documents; what a loop in plain Python joins."""

from __future__ import annotations

import random
import shutil

import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builds import ON_BEAM, build_file, jsonl, run, texts, tokcore, tree, write
from support.slices import SliceProcesses

import tokcore as tk
from tokcore.errors import ConfigError, StageError
from tokcore_pipelines import build, check, remove, update
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.reading import attributes
from tokcore_schemas.build_in_python import Build
from tokcore_schemas.config import load_config
from tokcore_schemas.json_schema import make_json_schema
from tokcore_schemas.plan import Attributes, AttributesFile
from tokcore_schemas.stage_table import WHOLE

DOCUMENTS = [
    {"id": f"{lang}-{i}", "l": lang, "text": text, "quality": "not this one", "year": i}
    for lang in ("en", "ru")
    for i, text in enumerate(texts(lang, 60))
]
ROWS = [
    {"id": one["id"], "quality": i * 37 % 100 / 8, "topic": None if i % 9 == 3 else f"topic {i % 5}", "unread": "x"}
    for i, one in enumerate(DOCUMENTS)
    if i % 7 != 4
] + [{"id": f"nobody-{i}", "quality": 99.0, "topic": "none", "unread": "y"} for i in range(20)]
SOURCES = '[[source]]\nlang_field = "l"\nid = "id"\nfiles = ["a*.jsonl", "b.parquet"]\n'
METADATA = """
[metadata]
attributes = "scores/*.parquet"
quality = { type = "float32", default = 9 }
topic = "string"
year = "int32"
[[filter]]
keep = "quality < 10 and year >= 5"
"""
SETTINGS = '[plan]\nrange_bytes = 3000\n[learn]\nvocab_size = 300\n[shards]\nformats = ["arrow", "parquet"]\n'


def write_tables(folder, rows=ROWS):
    """In random order, in two files of small row groups and other types of texts."""
    rows = random.Random(5).sample(rows, len(rows))
    half = len(rows) // 2
    (folder / "scores").mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows[:half]), folder / "scores" / "1.parquet", row_group_size=7)
    other = pa.Table.from_pylist(rows[half:])
    other = other.set_column(0, "id", other["id"].cast(pa.large_string()))
    pq.write_table(other, folder / "scores" / "2.parquet", row_group_size=50)


def corpus(folder):
    write(folder / "a.jsonl", jsonl(DOCUMENTS[::2]))
    plain = [{name: value for name, value in one.items() if name != "quality"} for one in DOCUMENTS[1::2]]
    pq.write_table(pa.Table.from_pylist(plain), folder / "b.parquet", row_group_size=9)
    write_tables(folder)


def expect(documents=DOCUMENTS, rows=ROWS):
    """The oracle: id -> the columns of a document that is kept."""
    of_id = {one["id"]: one for one in rows}
    joined = {
        one["id"]: {
            "quality": float(np.float32(of_id.get(one["id"], {"quality": 9})["quality"])),
            "topic": of_id.get(one["id"], {"topic": None})["topic"],
            "year": one["year"],
        }
        for one in documents
    }
    return {name: one for name, one in joined.items() if one["quality"] < 10 and one["year"] >= 5}


def list_metadata(place):
    shards = tk.open_shards(place, split="all")
    return {shards.document(i).id: shards.metadata(i) for i in range(len(shards))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attributes")
    corpus(folder)
    run(build_file(folder, SOURCES + METADATA, SETTINGS), folder / "out")
    return folder


def test_shards_and_counts_have_the_documents_of_a_plain_join(folder):
    assert list_metadata(folder / "out") == expect()
    frame = polars.read_parquet(folder / "out/shards/parquet/*.parquet")
    assert {one.pop("id"): one for one in frame.select("id", "quality", "topic", "year").to_dicts()} == expect()
    whole = require_manifest(str(folder / "out"), WHOLE).totals
    counts = polars.concat(polars.read_parquet(one) for one in (folder / "out" / "counts").glob("*.parquet"))
    kept = [one["text"] for one in DOCUMENTS if one["id"] in expect()]
    told = {one["pretoken"]: one["count"] for one in tk.count_pretokens(kept).to_pylist()}
    summed = counts.group_by("pretoken").agg(polars.col("count").sum()).to_dicts()
    assert {one["pretoken"]: one["count"] for one in summed} == told
    assert whole.records.documents == len(expect())
    assert sum(one["keep"] for one in whole.records.filtered.values()) == len(DOCUMENTS) - len(expect())


def test_workers_slices_and_beam_make_the_same_build(folder, tmp_path):
    path = build_file(folder, SOURCES + METADATA, SETTINGS, "again.toml")
    run(path, tmp_path / "two", workers=2)
    run(path, tmp_path / "beam", runner=ON_BEAM)
    with SliceProcesses(path, tmp_path / "sliced", 2) as slices:
        for one in [slices.start(number) for number in (1, 2)]:
            code, _, err = one.wait()
            assert code == 0, err
    for name in ("two", "beam", "sliced"):
        assert tree(tmp_path / name) == tree(folder / "out"), name


def test_verify_decodes_and_repair_makes_shards_again(folder, tmp_path):
    assert verify(str(folder / "out"), decode=None, base=str(folder)).problems == ()
    before = tree(folder / "out")
    sorted((folder / "out" / "shards" / "arrow").glob("*.arrow"))[0].unlink()
    repaired = tokcore("repair", folder / "out", cwd=folder)
    assert repaired.returncode == 0, repaired.stderr
    assert tree(folder / "out") == before


def test_a_table_that_changed(tmp_path):
    corpus(tmp_path)
    path = build_file(tmp_path, SOURCES + METADATA, SETTINGS)
    run(path, tmp_path / "out")
    write_tables(tmp_path, ROWS[:-1])
    found = tokcore("verify", "--decode", "1", tmp_path / "out", cwd=tmp_path)
    assert found.returncode != 0
    assert "1.parquet: its content is not what it was when the build was planned" in found.stdout + found.stderr
    with pytest.raises(ConfigError, match="holds a different build"):
        run(path, tmp_path / "out")


def test_an_update_takes_new_rows_and_reads_all_files_again(tmp_path):
    corpus(tmp_path)
    path = build_file(tmp_path, SOURCES + METADATA, SETTINGS)
    run(path, tmp_path / "out")
    more = [{**one, "id": f"new-{one['id']}"} for one in DOCUMENTS[:40]]
    write(tmp_path / "a2.jsonl", jsonl(more))
    update(path, workers=1)
    assert list_metadata(tmp_path / "out") == {**expect(), **expect(more)}
    rows = [{**one, "quality": one["quality"] + 1} for one in ROWS]
    rows += [{"id": one["id"], "quality": 0.5, "topic": "new", "unread": "z"} for one in more]
    write_tables(tmp_path, rows)
    update(path, workers=1)
    assert list_metadata(tmp_path / "out") == {**expect(rows=rows), **expect(more, rows)}
    assert verify(str(tmp_path / "out"), decode=None, base=str(tmp_path)).problems == ()
    name = sorted(expect(rows=rows))[0]
    remove(tmp_path / "out", ids=[name], workers=1)
    assert name not in list_metadata(tmp_path / "out")


def test_rows_by_source_and_ordinal(tmp_path):
    """Of shards of an earlier build, with the same ranges: also of text files, which have no ids."""
    for name, lang in (("a.txt", "en"), ("b.txt", "ru")):
        write(tmp_path / name, b"\n".join(text.replace("\n", " ").encode() for text in texts(lang, 60)))
    sources = '[[source]]\nlang = "en"\nfiles = "*.txt"\nunit = "line"\n'
    run(build_file(tmp_path, sources, SETTINGS, "first.toml"), tmp_path / "first")
    frame = polars.read_parquet(tmp_path / "first/shards/parquet/*.parquet").select("source", "ordinal")
    assert len(frame) == 120
    rows = [{**one, "score": i / 4} for i, one in enumerate(frame.to_dicts()) if i % 3]
    (tmp_path / "scores").mkdir()
    pq.write_table(pa.Table.from_pylist(rows[::-1]), tmp_path / "scores" / "s.parquet")
    told = '[metadata]\nscore = "float64"\nattributes = { files = "scores/*", join = "ordinal", missing = "reject" }\n'
    told += '[[filter]]\nkeep = "score >= 5"\n'
    run(build_file(tmp_path, sources + told, SETTINGS, build="max_rejected = 1"), tmp_path / "out")
    frame = polars.read_parquet(tmp_path / "out/shards/parquet/*.parquet").select("source", "ordinal", "score")
    place = lambda one: (one["source"], one["ordinal"])  # noqa: E731
    assert sorted(frame.to_dicts(), key=place) == sorted((one for one in rows if one["score"] >= 5), key=place)
    records = require_manifest(str(tmp_path / "out"), WHOLE).totals.records
    assert records.rejected == {"missing_row": 120 - len(rows)}


@pytest.mark.parametrize("missing", ["reject", "error"])
def test_a_missing_row(tmp_path, missing):
    corpus(tmp_path)
    told = METADATA.replace('"scores/*.parquet"', f'{{ files = ["scores/*.parquet"], missing = "{missing}" }}')
    path = build_file(tmp_path, SOURCES + told, SETTINGS, build="max_rejected = 1")
    if missing == "error":
        with pytest.raises(StageError, match=r"no row for id en-4\. Add the row"):
            run(path, tmp_path / "out")
        return
    run(path, tmp_path / "out")
    with_row = [one for i, one in enumerate(DOCUMENTS) if i % 7 != 4]
    assert list_metadata(tmp_path / "out") == expect(with_row)
    records = require_manifest(str(tmp_path / "out"), WHOLE).totals.records
    assert records.rejected == {"missing_row": len(DOCUMENTS) - len(with_row)}
    rejects = b"".join(one.read_bytes() for one in (tmp_path / "out" / "rejected").glob("*.jsonl*"))
    assert b"no row for id en-4" in rejects


def test_a_required_field_that_a_row_lacks_rejects(tmp_path):
    corpus(tmp_path)
    told = '[metadata]\nattributes = "scores/*.parquet"\ntopic = { type = "string", required = true }\n'
    run(build_file(tmp_path, SOURCES + told, SETTINGS, build="max_rejected = 1"), tmp_path / "out")
    topics = {one["id"]: one["topic"] for one in ROWS if one["topic"]}
    assert list_metadata(tmp_path / "out") == {
        one["id"]: {"topic": topics[one["id"]]} for one in DOCUMENTS if one["id"] in topics
    }


def wrong(folder, rows, told="", sources=SOURCES):
    corpus(folder)
    if rows is not None:
        shutil.rmtree(folder / "scores")
        (folder / "scores").mkdir()
        pq.write_table(pa.Table.from_pylist(rows), folder / "scores" / "1.parquet")
    return build_file(folder, sources + (told or METADATA), SETTINGS)


@pytest.mark.parametrize(
    ("rows", "told", "said"),
    [
        ([{"name": "a", "quality": 1.0}], "", "there is no column 'id'. It has 'name', 'quality'"),
        ([{"id": "a", "other": 1.0}], "", "none of its columns .'id', 'other'. is a field"),
        ([*ROWS, ROWS[3]], "", r"1\.parquet: row [0-9]+: is of the same document as .*1\.parquet: row 3"),
        ([{"id": None, "quality": 1.0}], "", "row 0: id: no document can have that key"),
        (None, METADATA.replace("scores/*", "none/*"), "files = 'none/.*: no file matches"),
        (None, METADATA.replace("scores/*.parquet", "a.jsonl"), "cannot be read as Parquet"),
        (None, '[metadata]\nattributes = { files = "scores/*", join = "place" }\nquality = "float32"', "id, ordinal"),
        (None, '[metadata]\nattributes = { join = "id" }\nquality = "float32"', "files is missing"),
    ],
)
def test_wrong_tables_and_keys_are_named(tmp_path, rows, told, said):
    path = wrong(tmp_path, rows, told)
    with pytest.raises(ConfigError, match=said):
        build(path, workers=1)


def test_a_source_without_ids(tmp_path):
    with pytest.raises(ConfigError, match="joined by id, and a source of jsonl files has none"):
        build(wrong(tmp_path, None, sources=SOURCES.replace('id = "id"\n', "")), workers=1)


def test_a_value_of_another_type_rejects(tmp_path):
    path = wrong(tmp_path, [{"id": "en-8", "quality": "good"}])
    path.write_text(path.read_text().replace("[build]", "[build]\nmax_rejected = 1"))
    run(path, tmp_path / "out")
    records = require_manifest(str(tmp_path / "out"), WHOLE).totals.records
    assert records.rejected == {"bad_field": 1}


def test_check_says_what_filters_drop(folder):
    told = check(build_file(folder, SOURCES + METADATA, SETTINGS, "again.toml"))
    assert (told["problems"], told["filters"][0]["dropped"]) == ([], len(DOCUMENTS) - len(expect()))


def test_a_field_may_be_called_attributes(tmp_path):
    write(tmp_path / "a.jsonl", jsonl([{"id": "1", "l": "en", "text": "a b", "attributes": "x"}]))
    sources = SOURCES.replace(', "b.parquet"', "")
    byte = '[learn]\nmodel = "byte"\n[shards]\nformats = ["arrow"]\n'
    run(build_file(tmp_path, sources + '[metadata]\nattributes = "string"\n', byte), tmp_path / "out")
    assert list_metadata(tmp_path / "out") == {"1": {"attributes": "x"}}


def test_in_python_and_by_set(folder):
    path = build_file(folder, SOURCES + METADATA, SETTINGS, "again.toml")
    built = Build.load(path)
    assert built.metadata["attributes"] == "scores/*.parquet"
    assert Build.from_toml(built.to_toml()) == built.__class__(**{**vars(built), "base": None})
    other = load_config(str(path), ["metadata.attributes.join=ordinal", "metadata.attributes.missing=error"])
    assert (other.attributes.files, other.attributes.join, other.attributes.missing) == (
        ("scores/*.parquet",),
        "ordinal",
        "error",
    )
    assert other.hash_settings() != load_config(str(path)).hash_settings()
    alone = load_config(str(path), ['metadata.attributes="x.parquet"'])
    assert alone.attributes.files == ("x.parquet",)
    known = make_json_schema()["properties"]["metadata"]
    assert "join" in str(known["properties"]["attributes"])


@given(st.dictionaries(st.text(max_size=3), st.none() | st.integers(-5, 5), max_size=40), st.lists(st.text(max_size=3)))
def test_rows_are_found_as_a_dict_finds_them(tmp_path_factory, rows, asked):
    path = tmp_path_factory.mktemp("t") / "t.parquet"
    columns = {"id": pa.array(rows, pa.string()), "x": pa.array(rows.values(), pa.int64())}
    pq.write_table(pa.table(columns), path, row_group_size=3)
    file = AttributesFile(str(path), path.stat().st_size, attributes.storage.compute_sha256(str(path)))
    table = attributes.load_table(Attributes("id", "default", (file,), ("x",)))
    asked = [*asked, *rows]
    found = table.find(b"".join(map(attributes.digest_key, asked)))
    assert [row >= 0 for row in found.tolist()] == [one in rows for one in asked]
    assert table.take(found, "x") == [rows.get(one) for one in asked]


def test_digests_whose_first_half_is_equal_are_told_apart():
    heads, tails = np.array([7, 7, 7, 9], np.uint64), np.array([1, 4, 6, 0], np.uint64)
    table = attributes.Table(heads, tails, np.array([2, 0, 3, 1]), (), np.array([0]))
    asked = b"".join(
        head.to_bytes(8, "big") + tail.to_bytes(8, "big") for head, tail in ((7, 4), (7, 5), (7, 6), (9, 1))
    )
    assert table.find(asked).tolist() == [0, -1, 3, -1]
