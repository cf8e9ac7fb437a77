"""[metadata]: fields of records are columns beside their documents, everywhere, and no id or count depends on them."""

from __future__ import annotations

import json
import os

import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builds import build_file, jsonl, run, texts, tokcore, tree, write
from support.reading import reading

import tokcore as tk
from tokcore.errors import ConfigError
from tokcore.shards.conversion import Reading, convert, find_settings, list_origins
from tokcore.shards.format_table import SHARD_FORMATS
from tokcore.shards.opened_shards import find_shard_files
from tokcore_pipelines import build, check, remove, report, update
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.look.report.metadata_tally import MOST_VALUES, MetadataTally
from tokcore_pipelines.reading.input_range import read_documents
from tokcore_pipelines.reading.metadata import make_metadata
from tokcore_pipelines.store import storage
from tokcore_schemas.build_in_python import Build
from tokcore_schemas.config import load_config, parse_config
from tokcore_schemas.plan import FieldOfRecord, MetadataField
from tokcore_schemas.stage_table import MIXED, PACKED, SHARDS, WHOLE

METADATA = """
[metadata]
url = "string"
"about.score" = { type = "float32", required = true }
license = { type = "string", default = "unknown" }
year = { type = "int32", default = 1999 }
adult = "bool"
"""
DOCUMENTS = [
    {
        "id": f"{lang}-{i}",
        "l": lang,
        "text": text,
        "url": f"https://{lang}/é{i}",
        "about": {"score": None if i % 11 == 5 else (i * 37 % 100) / 7},
        "license": ["cc0", "mit", None][i % 3],
        "year": [2000.0 + i, None, -5][i % 3],
        "adult": [True, False, None][i % 3],
    }
    for lang in ("en", "ru")
    for i, text in enumerate(texts(lang, 30))
]
SOURCES = '[[source]]\nlang_field = "l"\nid = "id"\nfiles = ["a*.jsonl", "b.parquet"]\n'
FORMATS = ["arrow", "huggingface", "mds", "megatron", "parquet"]
SETTINGS = f"[learn]\nvocab_size = 300\n[shards]\nformats = {json.dumps(FORMATS)}\ntarget_tokens = 1500\n"


def corpus(folder, documents=DOCUMENTS):
    """Half each in JSON lines and Parquet."""
    write(folder / "a.jsonl", jsonl(documents[::2]))
    pq.write_table(pa.Table.from_pylist(documents[1::2]), folder / "b.parquet", row_group_size=9)
    return SOURCES


def expect(documents=DOCUMENTS):
    """The oracle: id -> the columns of a document."""
    return {
        one["id"]: {
            "about.score": float(np.float32(one["about"]["score"])),
            "adult": one["adult"],
            "license": one["license"] or "unknown",
            "url": one["url"],
            "year": 1999 if one["year"] is None else int(one["year"]),
        }
        for one in documents
        if one["about"]["score"] is not None
    }


def list_metadata(place, **how):
    shards = tk.open_shards(place, split="all", **how)
    return {shards.document(i).id: shards.metadata(i) for i in range(len(shards))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("metadata")
    path = build_file(folder, corpus(folder) + METADATA, SETTINGS, build="max_rejected = 1")
    run(path, folder / "out")
    run(build_file(folder, SOURCES, SETTINGS, "plain.toml", "max_rejected = 1"), folder / "plain")
    return folder


def test_every_format_and_polars_have_the_columns(folder):
    for place in (folder / "out", *(folder / "out" / "shards" / name for name in FORMATS)):
        assert list_metadata(place) == expect()
    for frame in (
        polars.read_parquet(folder / "out/shards/parquet/*.parquet"),
        polars.concat(map(polars.read_ipc, sorted((folder / "out/shards/arrow").glob("*.arrow")))),
    ):
        names = ["about.score", "adult", "license", "url", "year"]
        assert {one.pop("id"): one for one in frame.select("id", *names).to_dicts()} == expect()
        assert frame["about.score"].dtype == polars.Float32
    assert list_metadata(folder / "plain") == {one["id"]: {} for one in DOCUMENTS}


def test_a_missing_required_field_rejects_the_record(folder):
    records = require_manifest(str(folder / "out"), WHOLE).totals.records
    assert records.rejected == {"missing_field": sum(one["about"]["score"] is None for one in DOCUMENTS)}


def test_ids_and_digests_are_those_of_a_build_without(folder, tmp_path):
    documents = [one for one in DOCUMENTS if one["about"]["score"] is not None]
    path = build_file(tmp_path, corpus(tmp_path, documents), SETTINGS)
    run(path, tmp_path / "plain")
    plain, own = (require_manifest(str(place), WHOLE) for place in (tmp_path / "plain", folder / "out"))
    assert plain.totals.documents_digest == own.totals.documents_digest
    assert (plain.totals.tokens, plain.totals.text_bytes) == (own.totals.tokens, own.totals.text_bytes)
    count = [(one / "counts").glob("*.parquet") for one in (tmp_path / "plain", folder / "out")]
    tables = [sorted(pq.read_table(path).to_pylist(), key=repr) for place in count for path in sorted(place)]
    assert tables[: len(tables) // 2] == tables[len(tables) // 2 :]
    assert "metadata" not in (tmp_path / "plain" / "plan" / "manifest.json").read_text()
    assert "metadata" not in (tmp_path / "plain" / "shards" / "manifest.json").read_text()


def test_verify_compares_columns(folder, tmp_path):
    assert verify(str(folder / "out"), decode=None, base=str(folder)).problems == ()
    path = build_file(tmp_path, corpus(tmp_path) + METADATA, SETTINGS, build="max_rejected = 1")
    run(path, tmp_path / "out")
    file = tmp_path / "a.jsonl"
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    file.write_bytes(file.read_bytes().replace(b'"license": "cc0"', b'"license": "mit"', 1))
    os.utime(file, ns=times)  # so that it passes for the pinned file
    (problem,) = verify(str(tmp_path / "out"), decode=None, base=str(tmp_path)).problems
    assert "a.jsonl, record 0: stored with other metadata, {" in problem


def test_a_shuffle_a_mixture_and_several_workers(folder, tmp_path):
    more = '[shuffle]\nseed = 7\n[mixture]\nstrategy = "natural"\nover = "languages"\n[pack]\nlength = 64\n'
    path = build_file(folder, SOURCES + METADATA, SETTINGS + more, "more.toml", "max_rejected = 1")
    run(path, tmp_path / "one")
    run(path, tmp_path / "two", workers=2)
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    for stage in (SHARDS, MIXED):
        found = list_metadata(tmp_path / "one" / stage.name)
        assert found == {name: expect()[name] for name in found}
        assert found
    rows = tk.open_shards(tmp_path / "one" / PACKED.name)
    assert rows.metadata(0) == {}, "a row has several documents"
    assert verify(str(tmp_path / "one"), decode=None, base=str(folder)).problems == ()


def test_an_update_and_another_type(folder, tmp_path):
    sources = corpus(tmp_path)
    path = build_file(tmp_path, sources + METADATA, SETTINGS, build="max_rejected = 1")
    run(path, tmp_path / "out")
    more = [{**one, "id": f"new-{one['id']}"} for one in DOCUMENTS[:5]]
    write(tmp_path / "a2.jsonl", jsonl(more))
    update(path, workers=1)
    assert list_metadata(tmp_path / "out") == {**expect(), **expect(more)}
    found = verify(str(tmp_path / "out"), decode=None, base=str(tmp_path))
    assert found.problems == ()
    name = sorted(expect())[0]
    remove(tmp_path / "out", ids=[name], workers=1)
    assert list_metadata(tmp_path / "out") == {
        other: told for other, told in {**expect(), **expect(more)}.items() if other != name
    }
    (tmp_path / "b.parquet").rename(tmp_path / "gone")  # its documents are decoded from tokens now
    other = next(one["id"] for one in DOCUMENTS[1::2] if one["id"] in expect())
    assert other != name
    remove(tmp_path / "out", ids=[other], workers=1)
    left = {one: told for one, told in {**expect(), **expect(more)}.items() if one not in (name, other)}
    assert list_metadata(tmp_path / "out") == left
    (tmp_path / "gone").rename(tmp_path / "b.parquet")
    (tmp_path / "a2.jsonl").unlink()
    path.write_text(path.read_text().replace('type = "int32"', 'type = "int64"'))
    with pytest.raises(ConfigError, match="metadata"):
        run(path, tmp_path / "out")


def test_conversion_carries_them(folder, tmp_path):
    files = find_shard_files(folder / "out" / "shards" / "megatron")
    origins = list_origins(files, str(folder / "out" / "shards"))
    for name in ("parquet", "nanogpt"):
        target = SHARD_FORMATS[name]
        settings = find_settings(origins, Reading(), None, "zstd", "", target)

        def new_file(path, name=name):
            place = tmp_path / name / path
            place.parent.mkdir(parents=True, exist_ok=True)
            return place.open("wb")

        convert(origins, Reading(), target, settings, new_file)
        assert list_metadata(tmp_path / name) == expect()


def test_show_report_and_card(folder):
    shard = next(iter(sorted((folder / "out" / "shards" / "arrow").glob("*.arrow"))))
    shown = tokcore("show", f"{shard}:0")
    first = tk.open_shards(shard).metadata(0)
    assert f"license: {first['license']}" in shown.stdout.splitlines()
    told = json.loads(tokcore("show", f"{shard}:0", "--json").stdout)
    assert told["metadata"] == first
    numbers = report(folder / "out")["corpus"]["metadata"]
    licenses = [one["license"] for one in expect().values()]
    assert numbers["license"]["values"] == {
        name: licenses.count(name) for name in sorted({*licenses}, key=lambda name: (-licenses.count(name), name))
    }
    scores = [one["about.score"] for one in expect().values()]
    assert (numbers["about.score"]["least"], numbers["about.score"]["most"]) == (min(scores), max(scores))
    assert numbers["adult"]["documents"] == sum(one["adult"] is not None for one in expect().values())
    assert '"about.score"' in (folder / "out" / "README.md").read_text()


def test_a_column_with_many_texts_takes_little_memory():
    tally = MetadataTally()
    tally.add(pa.record_batch({"url": [str(i) for i in range(MOST_VALUES + 1)]}))
    tally.add(pa.record_batch({"url": ["1"]}))
    told = tally.finish()["url"]
    assert (told["documents"], told["different"], told["values"]) == (MOST_VALUES + 2, None, {})


def read(tmp_path, records, *fields):
    file = write(tmp_path / "x.jsonl", jsonl(records))
    named = tuple(FieldOfRecord(one.name, one.kind) for one in fields)
    settings = reading(metadata=fields, fields=named)
    return [*read_documents(storage.stat(str(file)), 0, file.stat().st_size, settings)]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("int32", {5: 5, -(2**31): -(2**31), 7.0: 7}, [2**31, 1.5, "5", True]),
        ("int64", {2**62 + 1: 2**62 + 1}, [2**63, 0.1, [1]]),
        ("float32", {1: 1.0, 0.1: 0.1}, [1e39, "0.1", False]),
        ("float64", {1e300: 1e300}, ["x", {}]),
        ("string", {"": "", "é": "é"}, [1, True, ["a"]]),
        ("bool", {True: True, False: False}, [1, "true"]),
    ],
)
def test_values_of_a_type(tmp_path, kind, good, bad):
    records = [{"text": "t", "x": value} for value in (*good, *bad, None)]
    (batch,) = read(tmp_path, records, MetadataField("x", kind))
    assert batch.fields["x"] == [*good.values(), None]
    assert [type(one) for one in batch.fields["x"][:-1]] == [type(one) for one in good.values()]
    assert [(one.record, one.reason) for one in batch.rejects] == [
        (len(good) + i, "bad_field") for i in range(len(bad))
    ]
    assert batch.num_records == len(records)


MAP = """
import pyarrow as pa
def measure(batch):
    lengths = [len(one) / 4 for one in batch["text"].to_pylist()]
    return batch.set_column(batch.schema.get_field_index("size"), "size", pa.array(lengths))
"""


def test_a_step_fills_a_field_that_a_filter_looks_at(tmp_path, monkeypatch):
    """Also of text files, which have no fields."""
    (tmp_path / "measure_texts.py").write_text(MAP)
    monkeypatch.syspath_prepend(tmp_path)
    lines = texts("en", 40)
    write(tmp_path / "a.txt", b"\n".join(text.replace("\n", " ").encode() for text in lines))
    steps = '[metadata]\nsize = "float64"\n[[map]]\nrun = "measure_texts:measure"\n[[filter]]\nkeep = "size < 46"\n'
    sources = '[[source]]\nlang = "en"\nfiles = "a.txt"\nunit = "line"\n'
    made = build(build_file(tmp_path, sources + steps, SETTINGS), workers=1, allow_code=True)
    shards = made.open_shards()
    sizes = [len(one) / 4 for one in lines]
    assert [shards.metadata(i)["size"] for i in range(len(shards))] == [one for one in sizes if one < 46]
    assert 0 < len(shards) < 40
    assert made.totals.records.filtered == {"en": {"keep": 40 - len(shards)}}


def test_columns_are_those_of_the_documents_asked_for():
    fields = {"x": [1, 2, None, 4], "y": ["a", "b", "c", "d"], "z": [0] * 4}
    made = make_metadata(fields, (("x", "int32"), ("y", "string")), [3, 2])
    assert made.to_pylist() == [{"x": 4, "y": "d"}, {"x": None, "y": "c"}]
    assert made.schema.types == [pa.int32(), pa.string()]
    assert make_metadata(fields, (), [0]) is None


def test_text_files_have_defaults(tmp_path):
    write(tmp_path / "a.txt", b"\n".join(text.encode() for text in texts("en", 20)))
    sources = '[[source]]\nlang = "en"\nfiles = "a.txt"\nunit = "line"\n'
    path = build_file(tmp_path, sources + '[metadata]\nx = "string"\ny = { type = "int64", default = 3 }\n', SETTINGS)
    run(path, tmp_path / "out")
    shards = tk.open_shards(tmp_path / "out")
    assert {repr(shards.metadata(i)) for i in range(len(shards))} == {"{'x': None, 'y': 3}"}


def test_a_field_that_no_record_has_is_a_warning(tmp_path):
    write(tmp_path / "a.jsonl", jsonl([{"text": text, "y": 1} for text in texts("en", 20)]))
    sources = '[[source]]\nlang = "en"\nfiles = "a.jsonl"\n'
    path = build_file(tmp_path, sources + '[metadata]\nx = "string"\ny = "int32"\n', SETTINGS)
    (warning,) = check(path)["warnings"]
    assert "no record that was looked at has the field 'x'. The records have 'text', 'y'" in warning
    run(path, tmp_path / "out")
    assert list_metadata(tmp_path / "out").keys()


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ('x = "str"', "expected one of string, bool, int32, int64, float32, float64. Write .string."),
        ("x = 3", "expected a type, or a table"),
        ('lang = "string"', "is a column that shards have already"),
        ('"a[*].b" = "string"', "must name one field"),
        ('x = { type = "int32", default = 2147483648 }', "default = 2147483648: expected a value of type int32"),
        ('x = { type = "int64", default = 0.5 }', "expected a value of type int64"),
        ('x = { type = "string", default = 1 }', "expected a value of type string"),
        ('x = { type = "bool", default = 1 }', "expected a value of type bool"),
        ('x = { default = "a" }', "type is missing"),
        ("x = \"string\"\n[[filter]]\nkeep = 'x > 1'", "compares x as a number, and metadata has it as a string"),
    ],
)
def test_wrong_keys_are_named(told, wrong):
    text = f'version = 1\n[build]\noutput = "o"\n[[source]]\nlang = "en"\nfiles = "a.jsonl"\n[metadata]\n{told}\n'
    with pytest.raises(ConfigError, match=wrong):
        parse_config(text, "b.toml")


def test_in_python_and_by_set(tmp_path):
    path = build_file(tmp_path, corpus(tmp_path) + METADATA, SETTINGS)
    config = load_config(str(path))
    built = Build.load(path)
    assert Build.from_toml(built.to_toml()).metadata == built.metadata
    assert built.parse().metadata_fields == config.metadata_fields
    other = load_config(str(path), ["metadata.url.required=true", 'metadata.more="bool"'])
    fields = {one.name: one for one in other.metadata_fields}
    assert (fields["url"], fields["more"]) == (
        MetadataField("url", "string", required=True),
        MetadataField("more", "bool"),
    )
    assert other.hash_settings() != config.hash_settings()
