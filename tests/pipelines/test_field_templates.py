"""Templates over fields, and lang_map: in every format with fields the same as what one would write by hand."""

from __future__ import annotations

import csv
import io
import json

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builds import build_file, jsonl, run, texts, write
from support.reading import read, reading, reasons

import tokcore
from tokcore.errors import ConfigError
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.reading.column_reader import read_columns
from tokcore_pipelines.reading.input_range import read_documents
from tokcore_pipelines.store import storage
from tokcore_schemas.config import parse_config
from tokcore_schemas.field_template import is_template, list_paths, parse_template


def fill_by_hand(pieces, tail, record):
    """The oracle. pieces: (text before, field, whether it may be missing) of each field."""
    out, is_first = pieces[0][0], True
    for before, name, optional in pieces:
        value = record.get(name)
        if value is None and not optional:
            return None
        if value is None or (optional and value == ""):
            continue
        out += str(value) if is_first else before + str(value)
        is_first = False
    return None if is_first else out + tail


NAMES = ("a", "b", "c")
LITERALS = st.text("{}xé \n?:", max_size=4)
VALUES = st.none() | st.text("é\n{}x ", max_size=4)


@given(
    st.lists(st.tuples(LITERALS, st.sampled_from(NAMES), st.booleans()), min_size=1, max_size=4),
    LITERALS,
    st.lists(st.fixed_dictionaries(dict.fromkeys(NAMES, VALUES)), min_size=1, max_size=5),
)
def test_a_template_is_filled_as_by_hand(pieces, tail, records):
    def double(text):
        return text.replace("{", "{{").replace("}", "}}")

    spelled = "".join(f"{double(before)}{{{name}{'?' * optional}}}" for before, name, optional in pieces) + double(tail)
    assert is_template(spelled)
    assert list_paths(spelled) == [name for _, name, _ in pieces]
    expected = [fill_by_hand(pieces, tail, record) for record in records]
    found, rejects = read(jsonl(records), text=spelled)
    assert [text.decode() for text in found] == [text for text in expected if text is not None]
    assert reasons(rejects) == [(i, "missing_text") for i, text in enumerate(expected) if text is None]


RECORDS = [
    {"title": "One", "body": "first", "note": None, "tags": ["x", "y"], "num": 3, "part": {"of": "p"}},
    {"title": None, "body": "second", "note": "N", "tags": [], "num": 4, "part": {"of": "q"}},
    {"title": "Three", "body": None, "note": "N", "tags": ["z"], "num": 5, "part": {"of": None}},
    {"title": None, "body": "fourth", "note": None, "tags": None, "num": 6, "part": None},
]


def write_parquet(records):
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(records), file)
    return file.getvalue()


def write_arrow(records):
    table, file = pa.Table.from_pylist(records), io.BytesIO()
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return file.getvalue()


FORMATS = {"jsonl": jsonl, "parquet": write_parquet, "arrow": write_arrow}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_agree(name):
    how = reading(
        format=name,
        text="{title?}: {body} ({tags[*]?:, })",
        id="{part.of?}-{num}",
        unit="",
    )
    found, rejects = read(FORMATS[name](RECORDS), how)
    # The text between two fields goes with the second one; what stands after the last one stays.
    assert found == [b"One: first (x, y)", b"second)", b"fourth)"]
    assert [(one.record, one.reason) for one in rejects] == [(2, "missing_text")]
    assert "body" in rejects[0].detail


def test_ids_are_templates_in_every_format(tmp_path):
    for name, make in FORMATS.items():
        path = write(tmp_path / f"a.{name}", make(RECORDS))
        how = reading(format=name, text="{body?}{num}", id="{part.of?}-{num}", unit="")
        pin = storage.stat(str(path))
        reader = read_columns(pin, how) if name != "jsonl" else read_documents(pin, 0, pin.size_bytes, how)
        assert [document_id for batch in reader for document_id in batch.ids] == ["p-3", "q-4", "5", "6"]


def test_csv_fields_and_a_column_that_is_missing():
    file = io.StringIO()
    csv.writer(file).writerows([["q", "a"], ["2+2", "4"], ["3+3", ""]])
    found, rejects = read(file.getvalue().encode(), format="csv", text="Q: {q} A: {a?}", delimiter=",", unit="")
    assert (found, rejects) == ([b"Q: 2+2 A: 4", b"Q: 3+3"], [])
    _, rejects = read(file.getvalue().encode(), format="csv", text="{q} {b}", delimiter=",", unit="")
    assert {one.reason for one in rejects} == {"missing_text"}
    assert "field b; the header names q, a" in rejects[0].detail


def test_what_is_no_text_is_named():
    found, rejects = read(jsonl([{"a": 0.5}, {"a": ["x"]}, {"a": 7}, {"a": True}]), text="<{a}>")
    assert found == [b"<7>"]
    assert [one.reason for one in rejects] == ["bad_text"] * 3
    assert rejects[1].detail == "field a: expected a string or a whole number, found an array"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('text = "{a"', "a brace opens and none closes"),
        ('text = "a}"', "a brace closes and none was opened"),
        ('text = "{{}}"', "no field is named"),
        ('text = "{}"', "names no field"),
        ('text = "{a:, }"', "write {a[*]:, }"),
        ('id = "{a?}"', "each field may be missing"),
        ('id = "a[*]"', "leads to several values"),
        ('lang_map = { eng = "en" }', "is for the languages that lang_field finds"),
    ],
)
def test_a_wrong_template_is_refused(line, said):
    text = f'version = 1\n[build]\noutput = "o"\n[[source]]\nlang = "en"\nfiles = "a.jsonl"\n{line}\n'
    with pytest.raises(ConfigError, match=said.replace("{", r"\{").replace("[*]", r"\[\*\]")) as refused:
        parse_config(text, "b.toml")
    assert "b.toml:7: source[0]." in str(refused.value)


def test_lang_map_comes_before_the_spelling():
    records = [{"text": "a", "l": lang} for lang in ("English (US)", "EN", "eng", "x y", "deu")]
    how = reading(lang="", lang_field="l", lang_map=(("English (US)", "en"), ("eng", "EN")), lang_normalize="bcp47")
    with storage.write_attempt("memory://langs") as file:
        file.write(jsonl(records))
    pin = storage.stat("memory://langs")
    (batch,) = read_documents(pin, 0, pin.size_bytes, how)
    assert [*batch.langs] == ["en", "en", "en", "deu"]
    assert [one.reason for one in batch.rejects] == ["bad_lang"]


def test_a_build_of_templates(tmp_path):
    documents = [
        {"q": text, "a": text[::-1] if i % 3 else None, "code": code, "n": i}
        for code in ("eng", "rus")
        for i, text in enumerate(texts("en", 30))
    ]
    write(tmp_path / "a.jsonl", jsonl(documents[::2]))
    pq.write_table(pa.Table.from_pylist(documents[1::2]), tmp_path / "b.parquet")
    source = (
        '[[source]]\nlang = "{code}-x"\nlang_map = { eng-x = "en", rus-x = "ru" }\nid = "{code}/{n}"\n'
        'text = "{q}\\n{a?}"\nfiles = ["a.jsonl", "b.parquet"]\n'
    )
    run(build_file(tmp_path, source, "[learn]\nvocab_size = 300\n"), tmp_path / "out")
    shards, tokenizer = tokcore.open_shards(tmp_path / "out"), tokcore.Tokenizer.load(str(tmp_path / "out"))
    found = {
        (shards.document(i).lang, shards.document(i).id): tokenizer.decode(shards[i][:-1]).decode()
        for i in range(len(shards))
    }
    assert found == {
        ({"eng": "en", "rus": "ru"}[one["code"]], f"{one['code']}/{one['n']}"): one["q"]
        + (f"\n{one['a']}" if one["a"] is not None else "")
        for one in documents
    }
    checked = verify(str(tmp_path / "out"), decode=None, base=str(tmp_path))
    assert checked.problems == ()
    plan = json.loads((tmp_path / "out" / "plan" / "manifest.json").read_text())
    assert {one["text"] for one in plan["config"]["settings"]} == {"{q}\n{a?}"}


def test_a_name_without_braces_is_no_template():
    assert not is_template("data.text")
    assert parse_template("data.text").parts[0].name == "data.text"
