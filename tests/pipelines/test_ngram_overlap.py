"""[[filter]] ngram_overlap: documents that share a run of words with a test item go, and a receipt says which."""

from __future__ import annotations

import json
import random
import re

import pytest
from support.builds import build_file, jsonl, run, tokcore, write
from support.three_formats import list_ids, write_csv, write_thirds

from tokcore.errors import ConfigError, StageError
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.reading.overlaps import load_items
from tokcore_schemas.build_classes import Filter, Learn, Source
from tokcore_schemas.build_in_python import Build
from tokcore_schemas.stage_table import REJECTED, WHOLE

N = 6
SETTINGS = '[learn]\nvocab_size = 280\nallow_smaller = true\n[shards]\nformats = ["arrow"]\ntarget_tokens = 3000\n'
RULES = f"""
[[filter]]
keep = "ok"
[[filter]]
ngram_overlap = {{ files = ["evals/*.jsonl", "evals/b.csv"], n = {N}, field = "question" }}
"""


def make_corpus():
    """Documents and test items of few words, so that some share runs by chance; some items stand in documents."""
    draw = random.Random(5)
    words = [*"abcdefgh", "Été", "ночь", "42"]

    def text(num):
        return " ".join(draw.choice(words) for _ in range(num))

    items = [text(draw.randrange(4, 20)) for _ in range(40)]
    documents = []
    for i in range(240):
        body = text(30)
        if i % 5 == 0:
            body += f"\n{draw.choice(items).upper().replace(' ', ', ')}! {text(5)}"
        documents.append({"id": f"{i:03d}", "text": body, "ok": i % 7 != 0})
    return documents, items


DOCUMENTS, ITEMS = make_corpus()
PLACES = [("evals/a.jsonl", i) for i in range(25)] + [("evals/b.csv", i) for i in range(15)]


def list_runs(text):
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[i : i + N]) for i in range(len(words) - N + 1)}


# The oracle: of each document that is asked, the items that it shares a run with.
FOUND = {
    one["id"]: [number for number, item in enumerate(ITEMS) if list_runs(item) & list_runs(one["text"])]
    for one in DOCUMENTS
    if one["ok"]
}
KEPT = sorted(name for name, items in FOUND.items() if not items)


def corpus(folder, documents=DOCUMENTS):
    """Items are in JSON lines and csv."""
    write_thirds(folder, documents)
    (folder / "evals").mkdir(exist_ok=True)
    write(folder / "evals" / "a.jsonl", jsonl([{"question": item, "answer": "x"} for item in ITEMS[:25]]))
    write_csv(folder / "evals" / "b.csv", [{"question": item} for item in ITEMS[25:]])
    return '[[source]]\nlang = "en"\nid = "id"\nfiles = ["a.jsonl", "b.csv", "c.parquet"]\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("overlap")
    run(build_file(folder, corpus(folder) + RULES, SETTINGS), folder / "out")
    return folder


def read_receipt(output):
    return [json.loads(line) for line in (output / "rejected" / "overlaps.jsonl").read_text().splitlines()]


def make_receipt():
    """The oracle: a line for each item that a document shares a run with."""
    lines = []
    for number, (file, record) in enumerate(PLACES):
        dropped = [
            {"file": ("a.jsonl", "b.csv", "c.parquet")[i % 3], "record": i // 3}
            for i, one in enumerate(DOCUMENTS)
            if number in FOUND.get(one["id"], ())
        ]
        dropped.sort(key=lambda one: (one["file"], one["record"]))
        if dropped:
            told = {"rule": "ngram_overlap", "file": file, "record": record}
            lines.append({**told, "documents": len(dropped), "dropped": dropped})
    return lines


def test_what_shares_a_run_with_an_item_goes_and_nothing_else(folder):
    assert 20 < len(KEPT) < len(FOUND) - 20
    assert list_ids(folder / "out") == KEPT
    records = require_manifest(str(folder / "out"), WHOLE).totals.records
    assert records.filtered == {"en": {"keep": 240 - len(FOUND), "ngram_overlap": len(FOUND) - len(KEPT)}}


def test_the_receipt_names_items_and_documents_and_is_of_the_root(folder):
    assert read_receipt(folder / "out") == make_receipt()
    assert any(entry.path == "overlaps.jsonl" for entry in require_manifest(str(folder / "out"), REJECTED).files)


def test_workers_engines_and_cuts_change_nothing(folder, tmp_path):
    root = require_manifest(str(folder / "out"), WHOLE).root
    path = build_file(tmp_path, corpus(tmp_path) + RULES, SETTINGS)
    assert run(path, tmp_path / "two", workers=2).root == root
    direct = tokcore("build", path, "--output", tmp_path / "direct", "--engine", "direct", cwd=tmp_path)
    assert direct.returncode == 0, direct.stderr
    assert require_manifest(str(tmp_path / "direct"), WHOLE).root == root
    cut = build_file(tmp_path, corpus(tmp_path) + RULES, SETTINGS + "[plan]\nrange_bytes = 1500\n")
    run(cut, tmp_path / "cut")
    assert list_ids(tmp_path / "cut") == KEPT
    assert read_receipt(tmp_path / "cut") == make_receipt()


def test_verify_and_repair(folder, tmp_path):
    assert verify(str(folder / "out"), decode=None, base=str(folder)).problems == ()
    receipt = folder / "out" / "rejected" / "overlaps.jsonl"
    shard = next((folder / "out" / "shards").rglob("*.arrow"))
    was, whole = receipt.read_bytes(), shard.read_bytes()
    receipt.unlink()
    shard.write_bytes(whole[:-1])
    repaired = tokcore("repair", folder / "out", cwd=folder)
    assert repaired.returncode == 0, repaired.stderr
    assert (receipt.read_bytes(), shard.read_bytes()) == (was, whole)


def test_updates_and_removals_keep_receipts(tmp_path):
    path = build_file(tmp_path, corpus(tmp_path, DOCUMENTS[:120]).replace('"a.jsonl"', '"*.jsonl"') + RULES, SETTINGS)
    run(path, tmp_path / "out")
    write(tmp_path / "new.jsonl", jsonl(DOCUMENTS[120:]))
    updated = tokcore("update", path, "--output", tmp_path / "out", cwd=tmp_path)
    assert updated.returncode == 0, updated.stderr
    assert list_ids(tmp_path / "out") == KEPT
    write(tmp_path / "ids.txt", "\n".join(KEPT[::3]).encode())
    removed = tokcore("remove", tmp_path / "out", "--ids", tmp_path / "ids.txt", cwd=tmp_path)
    assert removed.returncode == 0, removed.stderr
    assert verify(str(tmp_path / "out"), decode=None, base=str(tmp_path)).problems == ()


def test_items_that_changed_stop_a_build(tmp_path):
    """They are pinned by their content: what was planned is what is asked, or nothing is made."""
    path = build_file(tmp_path, corpus(tmp_path) + RULES, SETTINGS)
    run(path, tmp_path / "out")
    items = tmp_path / "evals" / "a.jsonl"
    items.write_bytes(items.read_bytes() + jsonl([{"question": "one more item of a test"}]))
    other = tokcore("build", path, "--output", tmp_path / "out", cwd=tmp_path)
    assert other.returncode == 2
    was, now = re.findall(r"ngram_overlap n = \d+, \S+ of items ([0-9a-f]{16})", other.stderr)
    assert was != now
    load_items.cache_clear()  # a process reads them once
    with pytest.raises(StageError, match="not what it was when the build was planned"):
        verify(str(tmp_path / "out"), decode=None, base=str(tmp_path))


def test_check_shows_which_item(folder):
    done = tokcore("check", folder / "build.toml", "--output", folder / "new", "--json", "--rule", "1", cwd=folder)
    told = json.loads(done.stdout or done.stderr)
    assert told["filters"][1]["dropped"] == len(FOUND) - len(KEPT)
    for example in told["rule"]["dropped"]:
        ((file, record),) = example["values"].items()
        number = ["a.jsonl", "b.csv", "c.parquet"].index(example["file"].rpartition("/")[2])
        document = DOCUMENTS[number::3][example["record"]]
        shared = (n for n, item in enumerate(ITEMS) if list_runs(item) & list_runs(document["text"]))
        assert ("evals/" + file.rpartition("/")[2], record) == PLACES[next(shared)]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("{ n = 13 }", "ngram_overlap.files is missing"),
        ('{ files = "none/*.jsonl" }', "no file matches"),
        ('{ files = "evals/a.jsonl" }', "missing_text: field text"),
        ('{ files = "evals/a.jsonl", field = "question", n = 90 }', "none of 25 items has 90 words: lower n"),
        ('{ files = "evals/a.jsonl", field = "question", n = 0 }', "ngram_overlap.n = 0"),
        ('{ files = "evals/a.jsonl", fields = "q" }', "Did you mean field?"),
        ('{ files = "evals/c.bin" }', "cannot tell the format"),
        ('{ files = "evals/a.jsonl", field = "{" }', "ngram_overlap.field"),
        ('"evals/a.jsonl"', "expected a table"),
    ],
)
def test_what_a_rule_may_not_say(tmp_path, rule, said):
    source = corpus(tmp_path)
    write(tmp_path / "evals" / "c.bin", b"x")
    with pytest.raises(ConfigError) as refused:
        run(build_file(tmp_path, f"{source}[[filter]]\nngram_overlap = {rule}\n", SETTINGS), tmp_path / "out")
    assert said in str(refused.value)


def test_one_kind_a_rule(tmp_path):
    rule = '[[filter]]\nkeep = "a"\nngram_overlap = { files = "x.jsonl" }\n'
    with pytest.raises(ConfigError, match="both are there"):
        Build.load(build_file(tmp_path, f'[[source]]\nlang = "en"\nfiles = "a.jsonl"\n{rule}', SETTINGS))


def test_classes_say_it_as_toml_does():
    told = {"files": ["a.jsonl"], "n": 8, "field": "q"}
    build = Build(
        output="out",
        sources=[Source(lang="en", files="a.jsonl")],
        filters=[Filter(ngram_overlap=told)],
        learn=Learn(vocab_size=300),
    )
    assert Build.from_toml(build.to_toml()).to_toml() == build.to_toml()
    (table,) = build.parse().filters
    assert (table.ngram_overlap.files, table.ngram_overlap.n, table.ngram_overlap.field) == (("a.jsonl",), 8, "q")
