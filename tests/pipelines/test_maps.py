"""[[map]]: counts and shards have what the user's function leaves, wherever it runs, and nothing runs unasked."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builds import ROOT, build_file, jsonl, run, texts, tree, write
from support.reading import reading

import tokcore as tk
from tokcore.errors import ConfigError, StageError
from tokcore.plugins.map_code import identify_code
from tokcore_pipelines import build, check, remove, update
from tokcore_pipelines.begin.check_build import make_check_report
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import DIRECT, RunOptions, parse_slice
from tokcore_pipelines.reading import maps
from tokcore_pipelines.reading.input_range import read_documents
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.allowed_code import allowing_code
from tokcore_schemas.config import load_config
from tokcore_schemas.plan import FieldOfRecord, MapRule
from tokcore_schemas.stage_table import PLAN, WHOLE

MODULE = '''
import random
import pyarrow as pa
import pyarrow.compute as pc

def keep(batch):
    """Masks the word for water, drops short texts, rejects odd years, moves what is Cyrillic to Russian."""
    rows = [one for one in batch.to_pylist() if len(one["text"]) > 185]
    for one in rows:
        one["reject"] = "score" if one["score"] is not None and one["score"] < 0.2 else None
        one["lang"] = "ru" if "и" in one["text"] else one["lang"]
        one["text"] = one["text"].replace("that", "THAT")
        one["score"] = 1.0 if one["id"].endswith("7") else one["score"]
    return pa.RecordBatch.from_pylist(rows, batch.schema.append(pa.field("reject", pa.string())))

def same(batch):
    return batch

def count_rows(batch):
    return batch.set_column(1, "text", pa.array([f"{t} {batch.num_rows}" for t in batch["text"].to_pylist()]))

def hash_words(batch):
    return batch.set_column(1, "text", pa.array([" ".join({*t.split()}) for t in batch["text"].to_pylist()]))

def draw(batch):
    return batch.filter(pa.array([random.random() < 0.5 for _ in range(batch.num_rows)]))

def remember(batch, seen=[]):
    seen += [batch.num_rows]
    return batch.slice(0, batch.num_rows if len(seen) == 1 else batch.num_rows - 1)

def fail(batch):
    if "en-5" in batch["id"].to_pylist():
        raise ValueError("cannot say why")
    return batch

def grow(batch):
    texts = {"en-1": "x" * 5000, "en-2": "a <|endoftext|>"}
    text = [texts.get(one, "fine") for one in batch["id"].to_pylist()]
    return batch.set_column(1, "text", pa.array(text))
'''
SETTINGS = '[learn]\nvocab_size = 300\nallow_smaller = true\n[shards]\nformats = ["arrow"]\ntarget_tokens = 3000\n'
MAP = '[[map]]\nrun = "{}:keep"\nversion = "3"\n[[filter]]\nkeep = "score >= 0.4"\n'
DOCUMENTS = [
    {"id": f"{lang}-{i}", "l": "en", "text": text, "score": None if i % 11 == 5 else (i * 37 % 100) / 100}
    for lang in ("en", "ru")
    for i, text in enumerate(texts(lang, 40))
]


@pytest.fixture(autouse=True)
def _nothing_is_loaded(monkeypatch):
    monkeypatch.setattr(maps, "_tried", set())
    monkeypatch.setattr(maps, "_loaded", {})
    monkeypatch.delenv("TOKCORE_ALLOW_CODE", raising=False)
    maps.find_step.cache_clear()


def module(folder, monkeypatch, text=MODULE):
    """The name of a module of its own, since a process imports each name once."""
    name = f"clean_{abs(hash(str(folder)))}"
    (folder / "code").mkdir(exist_ok=True)
    (folder / "code" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(folder / "code")
    return name


def corpus(folder, documents=DOCUMENTS):
    """Half each in JSON lines and Parquet."""
    write(folder / "a.jsonl", jsonl(documents[::2]))
    pq.write_table(pa.Table.from_pylist(documents[1::2]), folder / "b.parquet", row_group_size=9)
    return '[[source]]\nlang_field = "l"\nid = "id"\nfiles = ["a.jsonl", "b.parquet"]\n'


def do_by_hand(one):
    """The oracle: (why a record is dropped; "" if it is kept, its language, its text)."""
    lang = "ru" if "и" in one["text"] else one["l"]
    if len(one["text"]) <= 185:
        return "keep", one["l"], one["text"]
    if one["score"] is not None and one["score"] < 0.2:
        return "keep.score", one["l"], one["text"]
    score = 1.0 if one["id"].endswith("7") else one["score"]
    return "" if score is not None and score >= 0.4 else "keep-2", lang, one["text"].replace("that", "THAT")


def list_documents(output):
    shards = tk.open_shards(output, split="all")
    tokenizer = tk.Tokenizer.load(str(output))
    told = ((shards.document(i), tokenizer.decode(shards[i])) for i in range(len(shards)))
    return sorted((one.id, one.lang, text.decode().removesuffix("<|endoftext|>")) for one, text in told)


def expect():
    outcomes = {one["id"]: do_by_hand(one) for one in DOCUMENTS}
    kept = sorted((name, lang, text) for name, (why, lang, text) in outcomes.items() if not why)
    filtered = Counter((lang, why.replace("keep-2", "quality")) for why, lang, _ in outcomes.values() if why)
    return kept, dict(filtered)


def write_build(folder, monkeypatch):
    name = module(folder, monkeypatch)
    steps = MAP.format(name).replace("keep =", 'name = "quality"\nkeep =')
    return build_file(folder, corpus(folder) + steps, SETTINGS)


def test_shards_ledgers_and_verify_have_what_a_loop_leaves(tmp_path, monkeypatch):
    path = write_build(tmp_path, monkeypatch)
    kept, filtered = expect()
    assert {why for _, why in filtered} == {"keep", "keep.score", "quality"}
    assert {lang for _, lang, _ in kept} == {"en", "ru"}
    with allowing_code(True):
        run(path, tmp_path / "out")
        assert verify(str(tmp_path / "out"), decode=None, base=str(tmp_path)).problems == ()
    assert list_documents(tmp_path / "out") == kept
    records = require_manifest(str(tmp_path / "out"), WHOLE).totals.records
    assert {(lang, why): n for lang, of in records.filtered.items() for why, n in of.items()} == filtered
    assert records.read == len(DOCUMENTS) == records.documents + records.num_filtered


def test_workers_slices_and_engines_make_the_same_bytes(tmp_path, monkeypatch):
    path = write_build(tmp_path, monkeypatch)
    config = load_config(str(path))
    with allowing_code(True):
        run(path, tmp_path / "here")
        Build(config, RunOptions(2), str(tmp_path / "workers")).run()
        Build(config, RunOptions(1, share=parse_slice("1/1")), str(tmp_path / "slice")).run()
        Build(config, RunOptions(1).with_engine(DIRECT, "", ("--runner=FnApiRunner",)), str(tmp_path / "direct")).run()
    trees = [tree(tmp_path / name) for name in ("here", "workers", "slice", "direct")]
    assert trees[0] == trees[1] == trees[2] == trees[3]


def test_identity_is_the_code(tmp_path, monkeypatch):
    path = write_build(tmp_path, monkeypatch)
    with allowing_code(True):
        run(path, tmp_path / "out")
        (rule,) = require_manifest(str(tmp_path / "out"), PLAN).config.settings[0].maps
        assert (rule.name, rule.version, rule.distribution) == ("keep", "3", "")
        config = load_config(str(path))
        was = config.hash_settings()
        file = next((tmp_path / "code").glob("*.py"))
        file.write_text(file.read_text().replace("185", "186"))
        assert config.hash_settings() != was
        with pytest.raises(ConfigError, match="a different build"):
            run(path, tmp_path / "out")
        maps.find_step.cache_clear()
        with pytest.raises(StageError, match=r"the code of .* is not that of the plan"):
            maps.find_step(rule)
    run(build_file(tmp_path, corpus(tmp_path), SETTINGS, name="plain.toml"), tmp_path / "plain")
    assert "maps" not in (tmp_path / "plain" / "plan" / "manifest.json").read_text()


def test_code_of_packages_and_distributions(tmp_path, monkeypatch):
    package = tmp_path / "own_pack"
    write(package / "__init__.py", b"raise RuntimeError('imported')")
    write(package / "deep" / "clean.py", b"def keep(batch): return batch")
    monkeypatch.syspath_prepend(tmp_path)
    was = identify_code("own_pack.deep.clean:keep")
    write(package / "__pycache__" / "x.pyc", b"1")
    write(package / ".hidden", b"1")
    assert identify_code("own_pack.deep.clean:keep") == was
    write(package / "words.txt", b"a word list")
    changed = identify_code("own_pack.deep.clean:keep")
    assert changed.sha256 != was.sha256
    assert changed.distribution == ""
    assert identify_code("numpy:sort").distribution.startswith("numpy ")
    assert identify_code("tokcore.text.texts:Texts").distribution == "", "an editable install is files"
    with pytest.raises(ConfigError, match="there is no module nowhere_at_all"):
        identify_code("nowhere_at_all.clean:keep")


COMMANDS = [
    ("build", "build.toml"),
    ("count", "build.toml", "--output", "other"),
    ("check", "build.toml"),
    ("update", "build.toml"),
    ("watch", "build.toml"),
    ("verify", "out", "--decode", "all"),
    ("remove", "out", "--source", "a.jsonl"),
]


def test_no_command_runs_code_unasked(tmp_path, monkeypatch):
    name = module(tmp_path, monkeypatch, MODULE + "\nopen('ran', 'w').close()\n")
    path = build_file(tmp_path, corpus(tmp_path) + f'[[map]]\nrun = "{name}:same"\n', SETTINGS)
    monkeypatch.chdir(tmp_path)
    with allowing_code(True):
        run(path, tmp_path / "out")
    (tmp_path / "ran").unlink()
    (tmp_path / "out" / "shards").rename(tmp_path / "gone")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "code"), "TOKCORE_ALLOW_CODE": "1"}
    for arguments in (*COMMANDS, ("repair", "out")):
        if arguments[0] in ("verify", "remove"):
            (tmp_path / "gone").rename(tmp_path / "out" / "shards") if (tmp_path / "gone").exists() else None
        elif arguments[0] == "repair":
            next((tmp_path / "out" / "shards").rglob("*.arrow")).unlink()
        done = subprocess.run(
            [sys.executable, "-m", "tokcore_pipelines.cli", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode, arguments
        assert "--allow-code" in done.stderr + done.stdout, (arguments, done)
        assert not (tmp_path / "ran").exists(), arguments
    done = subprocess.run(
        [sys.executable, "-m", "tokcore_pipelines.cli", "repair", "out", "--allow-code"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ran").exists()


def test_python_asks_too_and_each_call_anew(tmp_path, monkeypatch):
    path = write_build(tmp_path, monkeypatch)
    with pytest.raises(ConfigError, match="allow_code=True"):
        build(path, workers=1)
    out = build(path, workers=1, allow_code=True)
    with pytest.raises(ConfigError, match="allow_code=True"):
        check(path)
    assert check(path, allow_code=True)["maps"][0]["name"] == "keep"
    more = [{**one, "id": f"new-{one['id']}"} for one in DOCUMENTS[:8]]
    file = tmp_path / "a.jsonl"
    path.write_text(path.read_text().replace('"a.jsonl"', '"a*.jsonl"'))
    write(tmp_path / "a2.jsonl", jsonl(more))
    assert file.exists()
    with pytest.raises(ConfigError, match="allow_code=True"):
        update(path, workers=1)
    update(path, workers=1, allow_code=True)
    kept = {name for name, _, _ in expect()[0]} | {one["id"] for one in more if not do_by_hand(one)[0]}
    shards = tk.open_shards(out.url)
    assert {shards.document(i).id for i in range(len(shards))} == kept
    name = sorted(kept)[0]
    remove(out, ids=[name], workers=1, allow_code=True)
    shards = tk.open_shards(out.url)
    assert {shards.document(i).id for i in range(len(shards))} == kept - {name}


def read_with(tmp_path, function, monkeypatch, **changes):
    rule = MapRule("step", f"{module(tmp_path, monkeypatch)}:{function}", "", "")
    rule = dataclasses.replace(rule, sha256=identify_code(rule.run).sha256)
    settings = reading(format="jsonl", id="id", lang_field="l", lang="", maps=(rule,), **changes)
    file = write(tmp_path / "x.jsonl", jsonl(DOCUMENTS[:40]))
    with allowing_code(True):
        return [*read_documents(storage.stat(str(file)), 0, file.stat().st_size, settings)]


@pytest.mark.parametrize("function", ["count_rows", "hash_words", "draw", "remember"])
def test_what_depends_on_more_than_a_document_is_found(tmp_path, function, monkeypatch):
    with pytest.raises(StageError, match=r"x\.jsonl, record \d+: .* in this process, and .* in another one"):
        read_with(tmp_path, function, monkeypatch)


def test_an_error_names_the_record(tmp_path, monkeypatch):
    with pytest.raises(StageError, match=r"step \(clean_\d+:fail\): .*x\.jsonl, record 5: ValueError: cannot say why"):
        read_with(tmp_path, "fail", monkeypatch)


def test_a_step_that_changes_nothing_gives_the_batch_itself(tmp_path, monkeypatch):
    fields = {"fields": (FieldOfRecord("score", "number"),)}
    (same,) = read_with(tmp_path, "same", monkeypatch, **fields)
    file = tmp_path / "x.jsonl"
    settings = reading(format="jsonl", id="id", lang_field="l", lang="", **fields)
    (plain,) = read_documents(storage.stat(str(file)), 0, file.stat().st_size, settings)
    assert [same.texts.text(i) for i in range(40)] == [plain.texts.text(i) for i in range(40)]
    assert (same.ids, same.langs, same.fields, same.filtered) == (plain.ids, plain.langs, plain.fields, {})


def test_changed_texts_are_checked_as_those_of_records(tmp_path, monkeypatch):
    (batch,) = read_with(tmp_path, "grow", monkeypatch, max_document_bytes=4000, forbidden=("<|endoftext|>",))
    assert [(one.record, one.reason) for one in batch.rejects] == [(1, "document_too_large"), (2, "special_text")]
    assert batch.ids == [one["id"] for one in DOCUMENTS[:40] if one["id"] not in ("en-1", "en-2")]
    assert batch.num_records == 40
    assert {batch.texts.text(i) for i in range(38)} == {b"fine"}


def test_check_shows_what_a_step_does(tmp_path, monkeypatch):
    path = write_build(tmp_path, monkeypatch)
    (told,) = check(path, allow_code=True)["maps"]
    outcomes = [do_by_hand(one) for one in DOCUMENTS]
    reasons = Counter(why for why, _, _ in outcomes if why in ("keep", "keep.score"))
    assert (told["documents"], told["dropped"], told["reasons"]) == (80, reasons.total(), dict(reasons))
    left = [one for one, (why, _, _) in zip(DOCUMENTS, outcomes, strict=True) if why in ("", "keep-2")]
    assert told["changed"] == sum("that" in one["text"] for one in left)
    assert len(told["examples"]) == 3
    with allowing_code(True):
        (told,) = make_check_report(Build(load_config(str(path))), StageProgress(-1), "map.0")["maps"]
    assert len(told["examples"]) == min(20, told["dropped"] + told["changed"])


def test_check_gives_steps_the_text_before_masks(tmp_path, monkeypatch):
    name = module(tmp_path, monkeypatch)
    mask = "[mask]\nregex = { that = 'that' }\nreplacement = \"THAT\"\n"
    steps = MAP.format(name).replace("keep =", 'name = "quality"\nkeep =')
    (told,) = check(build_file(tmp_path, corpus(tmp_path) + mask + steps, SETTINGS), allow_code=True)["maps"]
    assert told["changed"] > 0


def test_a_step_gets_no_name_that_a_rule_has(tmp_path):
    told = '[[map]]\nrun = "json:loads"\n[[map]]\nrun = "json:keep"\n[[filter]]\nkeep = "x"\n'
    config = load_config(str(build_file(tmp_path, corpus(tmp_path) + told, SETTINGS)))
    assert [rule.name for rule in config.map_rules] == ["loads", "keep-2"]


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ('run = "clean"', "expected MODULE:FUNCTION"),
        ('run = "a.b:c d"', "expected MODULE:FUNCTION"),
        ('run = "a:keep"\nname = "a b"', "expected letters, digits"),
        ('run = "a:keep"\nname = "keep"\n[[filter]]\nkeep = "x"', r"'?\"?keep\"?'?: filter\[0\] is called so, too"),
        ('version = "1"', "map.0..run is missing"),
    ],
)
def test_wrong_keys_are_named(tmp_path, told, wrong):
    with pytest.raises(ConfigError, match=wrong):
        load_config(str(build_file(tmp_path, corpus(tmp_path) + "[[map]]\n" + told, SETTINGS)))


def test_a_worker_says_no_to_what_its_driver_did_not_allow():
    code = "from tokcore_pipelines.store.allowed_code import require_code_allowed as ask; ask('a:b')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert "ConfigError" in done.stderr


def test_names_and_spans_of_records_pass_steps(tmp_path, monkeypatch):
    """What masks and deduplication look at, before and after a step changes it; a number stays as exact as it is."""
    name = module(tmp_path, monkeypatch)
    big = 2**53 + 1  # no float
    documents = [
        {"id": "a", "l": "en", "text": "x" * 190 + " Ann", "score": 0.5, "group": big, "pii": [[191, 194, "PERSON"]]},
        {"id": "b", "l": "en", "text": "y" * 190, "score": 0.5, "group": big - 1, "pii": None},
        {"id": "c", "l": "en", "text": "z" * 190, "score": 0.5, "group": str(big - 1), "pii": None},
        {"id": "d-7", "l": "en", "text": "v" * 190, "score": 0.5, "group": None, "pii": None},
    ]
    write(tmp_path / "a.jsonl", jsonl(documents))
    told = '[mask]\nspans = "pii"\nreplacement = "<PERSON>"\n[dedup]\nby = "group"\n' + MAP.format(name)
    source = '[[source]]\nlang_field = "l"\nid = "id"\nfiles = "a.jsonl"\n'
    with allowing_code(True):
        run(
            build_file(tmp_path, source + told.replace("keep =", 'name = "quality"\nkeep ='), SETTINGS),
            tmp_path / "out",
        )
    shards = tk.open_shards(tmp_path / "out")
    tokenizer = tk.Tokenizer.load(tmp_path / "out")
    found = {shards.document(i).id: tokenizer.decode(shards[i]).decode() for i in range(len(shards))}
    assert found.keys() in ({"a", "b", "d-7"}, {"a", "c", "d-7"})
    assert found["a"].startswith("x" * 190 + " <PERSON>")
