"""[[filter]]: counts and shards have the documents that a plain loop over records keeps, and the ledger says why."""

from __future__ import annotations

import io
import json
import math
from collections import Counter

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builds import build_file, jsonl, run, texts, tokcore, write
from support.quality_texts import make_texts
from support.reading import reading
from support.three_formats import list_ids, write_thirds

from tokcore.errors import ConfigError
from tokcore.text.quality.rules import RULES
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.reading.input_range import list_looked_at, read_documents
from tokcore_pipelines.store import storage
from tokcore_schemas.build_in_python import Build
from tokcore_schemas.build_tables import FilterTable, name_rules
from tokcore_schemas.config import parse_config
from tokcore_schemas.plan import FilterRule
from tokcore_schemas.stage_table import SHARDS, WHOLE

DOCUMENTS = [
    {
        "id": f"{lang}-{i}",
        "l": lang,
        "text": text,
        "about": {"score": None if i % 11 == 5 else (i * 37 % 100) / 100},
        "license": ["cc0", "mit", "by", None][i % 4],
        "adult": i % 7 == 3,
    }
    for lang in ("en", "ru")
    for i, text in enumerate([*make_texts(48), *texts("ru", 16)])
]
FILTERS = """
[[filter]]
keep = "about.score >= 0.3 and license in ['cc0', 'mit', 'by'] and not adult"
[[filter]]
rule = "gopher_repetition"
dup_line_frac = 0.25
langs = "en*"
[[filter]]
name = "letters"
rule = "label_script"
"""
SETTINGS = '[learn]\nvocab_size = 300\n[shards]\nformats = ["arrow"]\ntarget_tokens = 3000\n'


def judge_by_hand(one):
    """The oracle: why a record is dropped; "" if it is kept."""
    score = one["about"]["score"]
    if score is None or score < 0.3 or one["license"] is None or one["adult"]:
        return "keep"
    if one["l"] == "en":
        cls = RULES["gopher_repetition"].parameters
        for measure in RULES["gopher_repetition"].measure(one["text"], cls(dup_line_frac=0.25), "en"):
            if measure.value > measure.most:
                return f"gopher_repetition.{measure.name}"
    letters = [c for c in one["text"].lower() if c.isalpha()]
    cyrillic = sum("а" <= c <= "я" or c == "ё" for c in letters)
    share = cyrillic / len(letters)
    return "" if (share if one["l"] == "ru" else 1 - share) >= 0.5 else "letters.other_script"


REASONS = {one["id"]: judge_by_hand(one) for one in DOCUMENTS}
FILTERED = {
    lang: dict(
        sorted(Counter(REASONS[one["id"]] for one in DOCUMENTS if one["l"] == lang and REASONS[one["id"]]).items())
    )
    for lang in ("en", "ru")
}


def flatten(one):
    about = {"about.score": one["about"]["score"], "license": one["license"] or "none", "adult": one["adult"]}
    return {"id": one["id"], "l": one["l"], "text": one["text"], **about}


def corpus(folder, documents=DOCUMENTS):
    write_thirds(folder, documents, flatten)
    return '[[source]]\nlang_field = "l"\nid = "id"\nfiles = ["a.jsonl", "b.csv", "c.parquet"]\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filters")
    run(build_file(folder, corpus(folder) + FILTERS, SETTINGS), folder / "out")
    return folder


def test_shards_have_what_a_loop_keeps(folder):
    assert len(set(REASONS.values())) > 4, "documents that each rule drops"
    assert list_ids(folder / "out") == sorted(name for name, reason in REASONS.items() if not reason)


def test_the_ledger_says_why_by_language_and_file(folder):
    records = require_manifest(str(folder / "out"), WHOLE).totals.records
    assert records.filtered == FILTERED
    assert records.read == records.documents + records.num_filtered == len(DOCUMENTS)
    files = [json.loads(line) for line in (folder / "out" / "rejected" / "files.jsonl").read_text().splitlines()]
    for number, file in enumerate(files):
        own = DOCUMENTS[number::3]
        expected = Counter((one["l"], REASONS[one["id"]]) for one in own if REASONS[one["id"]])
        told = {(lang, reason): n for lang, of in file["filtered"].items() for reason, n in of.items()}
        assert told == expected
        assert file["records"] == file["documents"] + sum(expected.values())


def test_counting_saw_the_same_documents(folder):
    kept = [one for one in DOCUMENTS if not REASONS[one["id"]]]
    build = require_manifest(str(folder / "out"), WHOLE)
    counts = json.loads((folder / "out" / "counts" / "manifest.json").read_text())["languages"]
    for lang, one in build.languages.items():
        own = [document["text"].encode() for document in kept if document["l"] == lang]
        assert (one.documents, one.text_bytes) == (len(own), sum(map(len, own)))
        assert counts[lang]["counted_documents"] == len(own)


def test_verify_repair_and_the_terminal(folder, tmp_path):
    assert verify(str(folder / "out"), decode=None, base=str(folder)).problems == ()
    shard = next((folder / "out" / "shards").rglob("*.arrow"))
    was = shard.read_bytes()
    shard.write_bytes(was[:-1])
    repaired = tokcore("repair", folder / "out", cwd=folder)
    assert repaired.returncode == 0, repaired.stderr
    assert shard.read_bytes() == was
    said = tokcore("build", folder / "build.toml", "--output", folder / "out", cwd=folder).stdout
    total = sum(sum(of.values()) for of in FILTERED.values())
    assert f"128 records read = {128 - total} documents + 0 rejected + {total} filtered" in said
    assert f"keep: {FILTERED['en']['keep'] + FILTERED['ru']['keep']}" in said


def test_workers_and_cuts_change_no_byte(folder, tmp_path):
    corpus(tmp_path)
    path = build_file(tmp_path, corpus(tmp_path) + FILTERS, SETTINGS)
    one = run(path, tmp_path / "one", workers=2)
    assert one.root == require_manifest(str(folder / "out"), WHOLE).root
    cut = build_file(tmp_path, corpus(tmp_path) + FILTERS, SETTINGS + "[plan]\nrange_bytes = 2000\n")
    small = run(cut, tmp_path / "cut")
    assert small.totals.documents_digest == one.totals.documents_digest
    assert small.totals.records.filtered == FILTERED


def test_an_output_without_filters_says_nothing_of_them(tmp_path):
    source = corpus(tmp_path)
    run(build_file(tmp_path, source, SETTINGS), tmp_path / "out")
    for path in (tmp_path / "out").rglob("manifest.json"):
        assert b"filter" not in path.read_bytes()


def test_updates_filter_new_files_and_removals_add_up(folder, tmp_path):
    path = build_file(tmp_path, corpus(tmp_path, DOCUMENTS[:60]).replace('"a.jsonl"', '"*.jsonl"') + FILTERS, SETTINGS)
    run(path, tmp_path / "out")
    write(tmp_path / "new.jsonl", jsonl(DOCUMENTS[60:]))
    updated = tokcore("update", path, "--output", tmp_path / "out", cwd=tmp_path)
    assert updated.returncode == 0, updated.stderr
    kept = [name for name, reason in REASONS.items() if not reason]
    assert list_ids(tmp_path / "out") == sorted(kept)
    gone = kept[::4]
    write(tmp_path / "ids.txt", "\n".join(gone).encode())
    removed = tokcore("remove", tmp_path / "out", "--ids", tmp_path / "ids.txt", cwd=tmp_path)
    assert removed.returncode == 0, removed.stderr
    assert list_ids(tmp_path / "out") == sorted({*kept} - {*gone})
    assert verify(str(tmp_path / "out"), decode=None, base=str(tmp_path)).problems == ()


def test_changed_filters_are_another_build(folder):
    path = build_file(folder, corpus(folder) + FILTERS.replace("0.3", "0.4"), SETTINGS)
    refused = tokcore("build", path, "--output", folder / "out", cwd=folder)
    build_file(folder, corpus(folder) + FILTERS, SETTINGS)
    assert refused.returncode == 2
    assert "filters" in refused.stderr


def test_check_shows_what_each_rule_would_drop(folder):
    done = tokcore("check", folder / "build.toml", "--output", folder / "new", "--json", "--rule", "1", cwd=folder)
    told = json.loads(done.stdout or done.stderr)
    assert [one["name"] for one in told["filters"]] == ["keep", "gopher_repetition", "letters"]
    seen = Counter(reason for reason in REASONS.values() if reason)
    for one in told["filters"]:
        assert one["reasons"] == {
            reason: n for reason, n in sorted(seen.items()) if reason.split(".")[0] == one["name"]
        }
        assert len(one["examples"]) == min(3, one["dropped"])
    assert told["filters"][0]["documents"] == len(DOCUMENTS)
    for side in ("dropped", "kept"):
        assert told["rule"][side]
        assert all(one["lang"] == "en" for one in told["rule"][side])
        assert all(bool(one["reason"]) == (side == "dropped") for one in told["rule"][side])


def test_the_report_has_it_by_language_and_source(folder):
    done = tokcore("report", folder / "out", "-o", folder / "report.html", cwd=folder)
    assert done.returncode == 0, done.stderr
    told = json.loads((folder / "report.json").read_text())["corpus"]["filtered"]
    assert told["languages"] == FILTERED
    by_reason = Counter(reason for reason in REASONS.values() if reason)
    assert sum(map(Counter, told["sources"].values()), Counter()) == by_reason
    assert len(told["sources"]) == 3
    assert "What was dropped, by source" in (folder / "report.html").read_text()


def test_values_are_the_same_in_every_format():
    records = [
        {"text": "t", "s": "x", "n": 1, "f": 0.5, "b": True},
        {"text": "t", "s": None, "n": None, "f": None, "b": None},
        {"text": "t", "s": "", "n": -(2**53) - 1, "f": 1e300, "b": False},
    ]
    rules = name_rules([FilterTable(keep="s == 'x' or n > 0 or f > 0 or not b or z is null")])
    table = pa.Table.from_pylist(records)
    arrow, parquet = io.BytesIO(), io.BytesIO()
    with pa.ipc.new_stream(arrow, table.schema) as writer:
        writer.write_table(table)
    pq.write_table(table, parquet)
    for name, data in (("jsonl", jsonl(records)), ("arrow", arrow.getvalue()), ("parquet", parquet.getvalue())):
        how = reading(format=name, unit="", fields=list_looked_at(rules))
        with storage.write_attempt(f"memory://values.{name}") as file:
            file.write(data)
        pin = storage.stat(f"memory://values.{name}")
        (batch,) = read_documents(pin, 0, pin.size_bytes, how)
        found = {key: batch.fields[key] for key in "snfb"}
        assert found == {key: [record[key] for record in records] for key in "snfb"}, name
        assert batch.fields["z"] == [None] * 3


SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=3)
)
ANY = st.recursive(
    SCALARS, lambda one: st.lists(one, max_size=2) | st.dictionaries(st.text(max_size=2), one, max_size=2)
)


@given(
    st.lists(st.fixed_dictionaries({"text": st.text(max_size=3)}, optional={"n": ANY, "s": ANY, "b": ANY}), min_size=1),
    st.lists(st.fixed_dictionaries({}, optional={"c": SCALARS}), min_size=1),
    st.sampled_from(["n > 1 and s == '' and b and a.c == 'x' and z is null", "n > 1 and z is null"]),
)
def test_the_kernel_reads_the_values_that_a_parser_reads(records, inner, keep):
    """Where there is a group, records are read by a parser, one by one."""
    for record, inside in zip(records, inner, strict=False):
        record["a"] = inside
    fields = list_looked_at(name_rules([FilterTable(keep=keep)]))
    with storage.write_attempt("memory://either") as file:
        file.write(jsonl([{**record, "g": "1"} for record in records]))
    pin = storage.stat("memory://either")
    found = []
    for group in ("", "g"):
        (batch,) = read_documents(pin, 0, pin.size_bytes, reading(fields=fields, group=group))
        texts_of = [batch.texts.text(i) for i in range(batch.texts.num_texts)]
        found.append((texts_of, dict(batch.fields), batch.ordinals.tolist(), batch.rejects))
    assert found[0] == found[1]
    assert all(len(values) == len(found[0][0]) for values in found[0][1].values())


def test_documents_and_values_stay_together():
    """Of a batch of which some documents were left out, the values of fields are those of the others."""
    rules = name_rules([FilterTable(keep="n > 2")])
    how = reading(fields=list_looked_at(rules), filters=rules)
    with storage.write_attempt("memory://together") as file:
        file.write(jsonl([{"text": str(i), "n": i} for i in range(6)]))
    pin = storage.stat("memory://together")
    (batch,) = read_documents(pin, 0, pin.size_bytes, how)
    assert [batch.texts.text(i) for i in range(3)] == [b"3", b"4", b"5"]
    assert batch.fields == {"n": [3, 4, 5]}
    assert batch.filtered == {"en": {"keep": 3}}
    assert batch.num_records == 6


def test_numbers_of_columns_and_of_csv():
    how = reading(format="parquet", unit="", fields=list_looked_at([FilterRule("k", "q > 0 or d > 0 and c == 'x'")]))
    columns = {
        "text": ["t"] * 3,
        "q": pa.array([0.7, math.nan, None], pa.float32()),
        "d": pa.array([None, "1.25", "-3"], pa.string()).cast(pa.decimal128(9, 2)),
        "c": pa.array(["x", "y", None]).dictionary_encode(),
    }
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    with storage.write_attempt("memory://numbers") as new:
        new.write(file.getvalue())
    pin = storage.stat("memory://numbers")
    (batch,) = read_documents(pin, 0, pin.size_bytes, how)
    assert batch.fields == {"q": [0.699999988079071, None, None], "d": [None, 1.25, -3.0], "c": ["x", "y", None]}
    how = reading(format="csv", unit="", delimiter=",", fields=list_looked_at([FilterRule("k", "q > 0 or b")]))
    with storage.write_attempt("memory://csv") as new:
        new.write(b"text,q,b\nt,0.5,TRUE\nt,,\nt,12,false\nt,x,true\n")
    pin = storage.stat("memory://csv")
    (batch,) = read_documents(pin, 0, pin.size_bytes, how)
    assert batch.fields == {"q": [0.5, None, 12], "b": [True, None, False]}
    assert [(one.record, one.reason) for one in batch.rejects] == [(3, "bad_field")]


def test_a_field_of_another_type_rejects_the_record(tmp_path):
    records = [{"text": "some text", "q": value} for value in (0.5, "high", True, [1], None)]
    write(tmp_path / "a.jsonl", jsonl(records * 20))
    source = '[[source]]\nlang = "en"\nfiles = "a.jsonl"\n[[filter]]\nkeep = "q > 0.1 or q is null"\n'
    run(build_file(tmp_path, source, "[learn]\nvocab_size = 260\n", build="max_rejected = 1"), tmp_path / "out")
    records = require_manifest(str(tmp_path / "out"), SHARDS).totals.records
    assert (records.documents, records.rejected, records.filtered) == (40, {"bad_field": 60}, None)


def test_a_misspelt_field_ends_the_build_at_once(tmp_path):
    source = corpus(tmp_path) + "[[filter]]\nkeep = \"licence == 'mit'\"\n"
    with pytest.raises(ConfigError, match=r"has the field 'licence'.*Did you mean license\?"):
        run(build_file(tmp_path, source, SETTINGS), tmp_path / "out")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "filter[0] needs either keep"),
        ('keep = "a"\nrule = "c4_quality"', "both are there"),
        ('keep = "a ="', "filter[0].keep"),
        ('rule = "gopher"', "filter[0].rule"),
        ('rule = "c4_quality"\nmin_doc_words = 3', "filter[0].min_doc_words is not a key"),
        ('keep = "a"\nmin_doc_words = 3', "is of a ready rule"),
        ('rule = "gopher_quality"\nmin_doc_words = -1', "filter[0].min_doc_words = -1"),
        ('rule = "gopher_quality"\nmin_doc_words = 1.5', "filter[0].min_doc_words = 1.5"),
        ('keep = "a"\nname = "x y"', "filter[0].name"),
        ('keep = "a"\nname = "n"\n[[filter]]\nkeep = "b"\nname = "n"', "filter[0] is called so, too"),
        ('keep = "a > 1"\n[[filter]]\nkeep = "a == \'x\'"', "filter[1].keep compares a as a string"),
    ],
)
def test_a_wrong_filter_is_refused(lines, said):
    text = f'version = 1\n[build]\noutput = "o"\n[[source]]\nlang = "en"\nfiles = "a.jsonl"\n[[filter]]\n{lines}\n'
    with pytest.raises(ConfigError) as refused:
        parse_config(text, "b.toml")
    assert said in str(refused.value)


def test_filters_over_fields_are_not_for_text_files(tmp_path):
    write(tmp_path / "a.txt", b"some text\n")
    source = '[[source]]\nlang = "en"\nfiles = "a.txt"\n[[filter]]\nkeep = "a > 1"\n'
    with pytest.raises(ConfigError, match="text files have no fields"):
        run(build_file(tmp_path, source, SETTINGS), tmp_path / "out")


def test_builds_from_python_have_filters():
    text = (
        'version = 1\n\n[build]\noutput = "o"\n\n[[source]]\nlang = "en"\nfiles = "a.jsonl"\n\n[[filter]]\n'
        'keep = "q >= 0.5"\n\n[[filter]]\nrule = "gopher_quality"\nlangs = "en"\nmin_doc_words = 30\n'
    )
    build = Build.from_toml(text)
    assert build.to_toml() == text
    assert build.parse().filter_rules == (
        FilterRule("keep", "q >= 0.5"),
        FilterRule("gopher_quality", rule="gopher_quality", parameters='{"min_doc_words":30}', langs=("en",)),
    )
    assert build.parse(["filter.1.min_doc_words=50"]).filter_rules[1].parameters == ""
