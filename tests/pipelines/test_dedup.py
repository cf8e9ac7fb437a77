"""[dedup]: of equal documents one stays, that of a loop in plain Python, in counts and shards; the ledger says so."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import unicodedata
from collections import Counter
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builds import build_file, jsonl, run, texts, tokcore, write
from support.slices import SliceProcesses
from support.three_formats import list_ids, write_thirds

import tokcore as tk
from tokcore.errors import ConfigError, FormatError, LedgerError
from tokcore.files.canonical_json import hash_sha256
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.crashpoints import DEDUPING_POINTS
from tokcore_pipelines.work import find_duplicates
from tokcore_pipelines.work.candidates import Candidates, find_staying, join_candidates, make_row_type, sort_candidates
from tokcore_pipelines.work.drop_lists import parse_drops, write_drops
from tokcore_pipelines.work.item_reader import ItemReader
from tokcore_schemas import shuffle
from tokcore_schemas.build_in_python import Build
from tokcore_schemas.document import compute_document_key, is_selected
from tokcore_schemas.plan import DropList
from tokcore_schemas.stage_table import DEDUP, WHOLE


def make_documents():
    """Texts that come once, or up to nine times: in several files, formats and languages, in other spellings, too."""
    draw = random.Random(11)
    pool = [text[:120] for text in texts("en", 60)]
    documents = []
    for i in range(360):
        text = draw.choice(pool) if i % 4 else f"only once: {i} {draw.random()}"
        documents.append(
            {
                "id": f"d{draw.randrange(1 << 40):010x}",
                "l": draw.choice(["en", "de", "ru"]),
                "text": text.upper() if i % 10 == 4 else text,
                "quality": None if i % 8 == 5 else draw.choice([-1.5, 0, 0.25, 3]),
                "cluster": None if i % 9 == 2 else draw.randrange(70),
            }
        )
    return documents


DOCUMENTS = make_documents()
SHARE = "0.25"
PREFER = '["split:validation", "source_order", "-quality"]'
SETTINGS = f'[learn]\nvocab_size = 300\n[shards]\nformats = ["arrow"]\ntarget_tokens = 2000\nvalidation = {SHARE}\n'
FILES = ("c.parquet", "a.jsonl", "b.csv")  # in the order of sources
BYTES = '[learn]\nmodel = "byte"\n[shards]\nformats = ["arrow"]\n'


def name_file(i):
    return ("a.jsonl", "b.csv", "c.parquet")[i % 3]


def corpus(folder, documents=DOCUMENTS):
    """Each format is a source."""
    write_thirds(folder, documents)
    return "".join(f'[[source]]\nlang_field = "l"\nid = "id"\nfiles = "{name}"\n' for name in FILES)


def find_kept(value_of, rank_of=lambda one, i: (), documents=DOCUMENTS):
    """The oracle: ids of those that a plain loop keeps: of each value the document of the smallest rank."""
    best = {}
    kept = set()
    for i, one in enumerate(documents):
        if (value := value_of(one)) is None:
            kept.add(one["id"])
            continue
        key = compute_document_key(one["l"], one["id"], one["text"].encode())
        rank = (*rank_of(one, i), one["l"], key)
        if value not in best or rank < best[value][0]:
            best[value] = rank, one["id"]
    return sorted(kept | {name for _, name in best.values()})


def rank_by_prefer(one, i):
    key = compute_document_key(one["l"], one["id"], one["text"].encode())
    is_validation = is_selected(key, 0, "validation", Decimal(SHARE))
    quality = one["quality"]
    return not is_validation, FILES.index(name_file(i)), quality is None, -(quality or 0)


KEPT = find_kept(lambda one: one["text"], rank_by_prefer)
DEDUPED = f'[dedup]\nby = "text"\nprefer = {PREFER}\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dedup")
    run(build_file(folder, corpus(folder) + DEDUPED, SETTINGS), folder / "out")
    return folder


def list_documents(output):
    shards = tk.open_shards(output, split="all")
    return [shards.document(i) for i in range(len(shards))]


def test_shards_have_what_a_loop_keeps(folder):
    assert len(KEPT) == len({one["text"] for one in DOCUMENTS}) < 250, "each text once"
    assert list_ids(folder / "out") == KEPT


def test_exact_deduplication_is_that_of_polars(tmp_path):
    run(build_file(tmp_path, corpus(tmp_path) + '[dedup]\nby = "text"\n', SETTINGS), tmp_path / "out")
    keys = [compute_document_key(one["l"], one["id"], one["text"].encode()) for one in DOCUMENTS]
    table = pl.DataFrame(DOCUMENTS).with_columns(key=pl.Series(keys, dtype=pl.Binary)).sort("l", "key")
    kept = table.unique("text", keep="first", maintain_order=True)
    assert list_ids(tmp_path / "out") == sorted(kept["id"].to_list())


def test_a_field_decides_and_documents_without_it_stay(tmp_path):
    """A cluster that another tool made: an integer in Parquet and JSON, text in csv."""
    source = corpus(tmp_path) + '[dedup]\nby = "cluster"\nprefer = ["quality"]\n'
    run(build_file(tmp_path, source, SETTINGS), tmp_path / "out")

    def rank(one, i):
        return one["quality"] is None, one["quality"] or 0

    # csv has no null: what is empty there is the empty name, of which one stays.
    def value(one):
        is_csv = name_file(DOCUMENTS.index(one)) == "b.csv"
        return str(one["cluster"]) if one["cluster"] is not None else "" if is_csv else None

    assert list_ids(tmp_path / "out") == find_kept(value, rank)


def test_texts_are_compared_after_normalizing(tmp_path):
    documents = [{"id": str(i), "text": text} for i, text in enumerate(["Ärger", "A\u0308RGER", "ärger", "anders"])]
    write(tmp_path / "a.jsonl", jsonl(documents))
    source = '[[source]]\nlang = "de"\nid = "id"\nfiles = "a.jsonl"\n[dedup]\nby = "text"\n'
    run(build_file(tmp_path, source, BYTES), tmp_path / "as-is")
    assert len(list_ids(tmp_path / "as-is")) == 4
    run(build_file(tmp_path, source + 'normalize = ["nfc", "lowercase"]\n', BYTES), tmp_path / "out")
    expected = {unicodedata.normalize("NFC", one["text"]).lower() for one in documents}
    kept = list_documents(tmp_path / "out")
    assert len(kept) == len(expected) == 2
    tokenizer, shards = tk.Tokenizer.load(tmp_path / "out" / "tokenizer"), tk.open_shards(tmp_path / "out", split="all")
    decoded = {tokenizer.decode(shards[i].tolist()).decode().removesuffix("<|endoftext|>") for i in range(2)}
    assert decoded <= {one["text"] for one in documents}, "the text of what stays is as it was"


def test_the_ledger_says_how_many_by_language_and_file(folder):
    records = require_manifest(str(folder / "out"), WHOLE).totals.records
    dropped = [one for one in DOCUMENTS if one["id"] not in KEPT]
    assert records.filtered == {lang: {"duplicate": n} for lang, n in sorted(Counter(o["l"] for o in dropped).items())}
    assert records.read == records.documents + records.num_duplicates == len(DOCUMENTS)
    made = require_manifest(str(folder / "out"), DEDUP).totals
    assert (made.documents, made.duplicates) == (len(DOCUMENTS), len(dropped))
    files = [json.loads(line) for line in (folder / "out" / "rejected" / "files.jsonl").read_text().splitlines()]
    for number, file in enumerate(files):
        own = Counter(one["l"] for one in DOCUMENTS[number::3] if one["id"] not in KEPT)
        assert {lang: of["duplicate"] for lang, of in file["filtered"].items()} == own
    said = tokcore("build", folder / "build.toml", "--output", folder / "out", cwd=folder).stdout
    assert f"360 records read = {len(KEPT)} documents + 0 rejected + {len(dropped)} duplicates" in said


def test_the_files_name_each_duplicate(folder):
    found = {}
    for path in (folder / "out" / "dedup").glob("item-*.jsonl"):
        found |= parse_drops(path.read_bytes(), path.name)
    for number, name in enumerate(("a.jsonl", "b.csv", "c.parquet")):
        expected = [i for i, one in enumerate(DOCUMENTS[number::3]) if one["id"] not in KEPT]
        assert found[name, 0].tolist() == expected


def test_counting_saw_the_same_documents(folder):
    build = require_manifest(str(folder / "out"), WHOLE)
    counts = json.loads((folder / "out" / "counts" / "manifest.json").read_text())["languages"]
    for lang, one in build.languages.items():
        own = [d["text"].encode() for d in DOCUMENTS if d["l"] == lang and d["id"] in KEPT]
        assert (one.documents, one.text_bytes) == (len(own), sum(map(len, own)))
        assert counts[lang]["counted_documents"] == len(own)


def test_verify_finds_what_is_wrong_with_a_list_and_repair_makes_it_again(folder):
    assert verify(str(folder / "out"), decode=None, base=str(folder)).problems == ()
    path = next(path for path in sorted((folder / "out" / "dedup").glob("item-*.jsonl")) if path.stat().st_size)
    shard = next((folder / "out" / "shards").rglob("*.arrow"))
    was, whole = path.read_bytes(), shard.read_bytes()
    path.write_bytes(was.replace(b'"records":[', b'"records":[9999,', 1))
    assert any(path.name in problem for problem in verify(str(folder / "out")).problems)
    shard.unlink()
    repaired = tokcore("repair", folder / "out", cwd=folder)
    assert repaired.returncode == 0, repaired.stderr
    assert (path.read_bytes(), shard.read_bytes()) == (was, whole)


def test_documents_are_not_read_by_a_damaged_list(folder):
    stored = Stored(str(folder / "out"))
    items = [stored.plan.assignment(item) for item in stored.plan.items]
    item = next(one for one in items if storage.read_bytes(one.drops.url))
    assert sum(batch.texts.num_texts for one in items for _, batch in ItemReader(one, str(folder))) == len(KEPT)
    wrong = dataclasses.replace(item, drops=dataclasses.replace(item.drops, sha256="0" * 64))
    with pytest.raises(FormatError, match="not those that were committed"):
        [*ItemReader(wrong, str(folder))]


def test_a_list_of_other_documents_is_refused(folder, tmp_path):
    """A record that is no document, or was rejected, cannot be a duplicate: something else was compared."""
    stored = Stored(str(folder / "out"))
    item = next(one for one in map(stored.plan.assignment, stored.plan.items) if storage.read_bytes(one.drops.url))
    data = storage.read_bytes(item.drops.url).replace(b"]", b",99999]", 1)
    write(tmp_path / "list", data)
    other = dataclasses.replace(item, drops=DropList(str(tmp_path / "list"), hash_sha256(data)))
    with pytest.raises(LedgerError, match="duplicates in the range"):
        [*ItemReader(other, str(folder))]


def test_workers_engines_cuts_and_spills_change_no_byte(folder, tmp_path, monkeypatch):
    root = require_manifest(str(folder / "out"), WHOLE).root
    path = build_file(tmp_path, corpus(tmp_path) + DEDUPED, SETTINGS)
    assert run(path, tmp_path / "two", workers=2).root == root
    direct = tokcore("build", path, "--output", tmp_path / "direct", "--engine", "direct", cwd=tmp_path)
    assert direct.returncode == 0, direct.stderr
    assert require_manifest(str(tmp_path / "direct"), WHOLE).root == root
    with monkeypatch.context() as patched:
        patched.setattr(find_duplicates, "SPILL_DOCUMENTS", 7)
        patched.setattr(shuffle, "BYTES_PER_BUCKET", 4096)
        assert run(path, tmp_path / "spilled").root == root
    cut = run(
        build_file(tmp_path, corpus(tmp_path) + DEDUPED, SETTINGS + "[plan]\nrange_bytes = 2000\n"), tmp_path / "cut"
    )
    assert list_ids(tmp_path / "cut") == KEPT
    assert cut.totals.documents_digest == require_manifest(str(folder / "out"), WHOLE).totals.documents_digest
    assert verify(str(tmp_path / "cut"), decode=None, base=str(tmp_path)).problems == ()


def test_show_says_that_the_lists_are_no_shards(folder):
    shown = tokcore("show", folder / "out" / "dedup")
    assert shown.returncode == 2
    assert "holds what the stage dedup leaves, and no shards: `tokcore show" in shown.stderr


def test_slices_make_the_same_build(folder, tmp_path):
    path = build_file(tmp_path, corpus(tmp_path) + DEDUPED, SETTINGS)
    with SliceProcesses(path, tmp_path / "out", 2) as slices:
        started = [slices.start(number) for number in (1, 2)]
        for one in started:
            code, _, err = one.wait()
            assert code == 0, err
    assert require_manifest(str(tmp_path / "out"), WHOLE).root == require_manifest(str(folder / "out"), WHOLE).root


@pytest.mark.parametrize("point", DEDUPING_POINTS)
def test_killed_builds_go_on(folder, tmp_path, point):
    path = build_file(tmp_path, corpus(tmp_path) + DEDUPED, SETTINGS)
    command = ("build", path, "--output", tmp_path / "out", "--workers", "1")
    killed = tokcore(*command, cwd=tmp_path, env={**os.environ, "TOKCORE_CRASH": f"{point}:1"})
    assert killed.returncode != 0
    done = tokcore(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert require_manifest(str(tmp_path / "out"), WHOLE).root == require_manifest(str(folder / "out"), WHOLE).root


def test_a_shuffle_and_smaller_vocabularies_have_the_same_documents(folder, tmp_path):
    settings = SETTINGS.replace("vocab_size = 300", "vocab_size = [280, 300]") + (
        "[encode]\nvocab_size = [280, 300]\n[shuffle]\nseed = 3\n"
    )
    run(build_file(tmp_path, corpus(tmp_path) + DEDUPED, settings), tmp_path / "out")
    assert list_ids(tmp_path / "out") == list_ids(tmp_path / "out-280") == KEPT
    for name in ("out", "out-280"):
        assert verify(str(tmp_path / name), decode=None, base=str(tmp_path)).problems == ()


def test_masks_and_filters_come_before(tmp_path):
    """Texts that differ in an address are equal once it is masked; a dropped document stands for no duplicate."""
    documents = [
        {"id": "a", "text": "write to a@b.org", "ok": False},
        {"id": "b", "text": "write to c@d.org", "ok": True},
        {"id": "c", "text": "write to e@f.org", "ok": True},
    ]
    write(tmp_path / "a.jsonl", jsonl(documents))
    source = (
        '[[source]]\nlang = "en"\nid = "id"\nfiles = "a.jsonl"\n[mask]\npresets = ["email"]\n'
        '[[filter]]\nkeep = "ok"\n[dedup]\nby = "text"\n'
    )
    run(build_file(tmp_path, source, BYTES), tmp_path / "out")
    records = require_manifest(str(tmp_path / "out"), WHOLE).totals.records
    assert records.filtered == {"en": {"duplicate": 1, "keep": 1}}
    assert list_ids(tmp_path / "out") in (["b"], ["c"])


def test_another_output_takes_it_over(folder, tmp_path):
    other = tokcore("build", folder / "build.toml", "--output", tmp_path / "out", "--from", folder / "out", cwd=folder)
    assert other.returncode == 0, other.stderr
    assert require_manifest(str(tmp_path / "out"), WHOLE).root == require_manifest(str(folder / "out"), WHOLE).root
    encoded = tokcore("encode", folder / "build.toml", "--output", folder / "out", "-o", tmp_path / "again", cwd=folder)
    assert encoded.returncode == 0, encoded.stderr
    assert list_ids(tmp_path / "again") == KEPT


def test_an_update_is_a_build_of_all_files(tmp_path):
    """Copies in new files win where they are preferred, and what a file hid comes back when it goes."""
    first, rest = DOCUMENTS[:200], DOCUMENTS[200:]
    source = corpus(tmp_path, first).replace('"a.jsonl"', '"*.jsonl"')
    path = build_file(tmp_path, source + DEDUPED, SETTINGS)
    run(path, tmp_path / "out")
    write(tmp_path / "new.jsonl", jsonl(rest))
    updated = tokcore("update", path, "--output", tmp_path / "out", cwd=tmp_path)
    assert updated.returncode == 0, updated.stderr
    run(path, tmp_path / "fresh")
    assert list_ids(tmp_path / "out") == list_ids(tmp_path / "fresh")
    before = {one["id"] for one in first}
    texts_of = {one["id"]: one["text"] for one in DOCUMENTS}
    kept = {texts_of[name]: name for name in list_ids(tmp_path / "out")}
    assert len(kept) == len({*texts_of.values()}), "each text once"
    assert any(kept[one["text"]] not in before for one in first), "a new copy won"
    assert verify(str(tmp_path / "out"), decode=None, base=str(tmp_path)).problems == ()
    (tmp_path / "a.jsonl").unlink()
    removed = tokcore("update", path, "--output", tmp_path / "out", "--vanished", "remove", cwd=tmp_path)
    assert removed.returncode == 0, removed.stderr
    run(path, tmp_path / "again")
    assert list_ids(tmp_path / "out") == list_ids(tmp_path / "again")
    assert tokcore("update", path, "--output", tmp_path / "out", cwd=tmp_path).returncode == 0
    assert len(list((tmp_path / "out" / "log").iterdir())) == 2, "nothing has changed since"


def test_a_removal_takes_all_documents_of_a_text(tmp_path):
    """Copies that were dropped as duplicates stay away, now and in updates, until the tombstone is taken back."""
    path = build_file(tmp_path, corpus(tmp_path).replace('"a.jsonl"', '"*.jsonl"') + DEDUPED, SETTINGS)
    run(path, tmp_path / "out")
    text_of = {one["id"]: one["text"] for one in DOCUMENTS}
    times = Counter(text_of.values())
    gone = [name for name in KEPT if times[text_of[name]] > 2][:3]
    write(tmp_path / "ids.txt", "\n".join(gone).encode())
    removed = tokcore("remove", tmp_path / "out", "--ids", tmp_path / "ids.txt", cwd=tmp_path)
    assert removed.returncode == 0, removed.stderr
    left = sorted({*KEPT} - {*gone})
    assert list_ids(tmp_path / "out") == left
    # A copy that would win, since it has the best quality, in a new file.
    more = [{**DOCUMENTS[0], "id": f"new-{i}", "text": text_of[name], "quality": 99} for i, name in enumerate(gone)]
    write(tmp_path / "new.jsonl", jsonl([*more, {**more[0], "id": "other", "text": "a text that is new"}]))
    updated = tokcore("update", path, "--output", tmp_path / "out", cwd=tmp_path)
    assert updated.returncode == 0, updated.stderr
    assert list_ids(tmp_path / "out") == sorted([*left, "other"])
    assert verify(str(tmp_path / "out"), decode=None, base=str(tmp_path)).problems == ()
    restored = tokcore("restore", tmp_path / "out", "--ids", tmp_path / "ids.txt", cwd=tmp_path)
    assert restored.returncode == 0, restored.stderr
    assert tokcore("update", path, "--output", tmp_path / "out", cwd=tmp_path).returncode == 0
    run(path, tmp_path / "fresh")
    assert list_ids(tmp_path / "out") == list_ids(tmp_path / "fresh")


def test_a_removed_language_takes_equal_texts_of_others(tmp_path):
    path = build_file(tmp_path, corpus(tmp_path) + DEDUPED, SETTINGS)
    run(path, tmp_path / "out")
    removed = tokcore("remove", tmp_path / "out", "--lang", "de", cwd=tmp_path)
    assert removed.returncode == 0, removed.stderr
    in_german = {one["text"] for one in DOCUMENTS if one["l"] == "de"}
    left = [name for name in KEPT if {one["id"]: one["text"] for one in DOCUMENTS}[name] not in in_german]
    assert list_ids(tmp_path / "out") == left
    assert verify(str(tmp_path / "out"), decode=None, base=str(tmp_path)).problems == ()


def test_what_cannot_be_read_again_is_not_updated(tmp_path):
    path = build_file(tmp_path, corpus(tmp_path).replace('"a.jsonl"', '"*.jsonl"') + DEDUPED, SETTINGS)
    write(tmp_path / "old.jsonl", jsonl(DOCUMENTS[:3]))
    run(path, tmp_path / "out")
    (tmp_path / "old.jsonl").unlink()
    write(tmp_path / "new.jsonl", jsonl([{**DOCUMENTS[0], "id": "new", "text": "new"}]))
    refused = tokcore("update", path, "--output", tmp_path / "out", cwd=tmp_path)
    assert refused.returncode != 0
    assert "old.jsonl: vanished" in refused.stderr


def test_an_output_is_not_changed_in_parts(folder):
    refused = tokcore("remove", folder / "out", "--source", "a.jsonl", cwd=folder)
    assert refused.returncode == 2
    assert "built with [dedup]" in refused.stderr
    compacted = tokcore("compact", folder / "out", cwd=folder)
    assert compacted.returncode == 0, compacted.stderr
    assert "nothing to gain" in compacted.stdout


def test_changed_settings_are_another_build(folder, tmp_path):
    path = build_file(tmp_path, corpus(tmp_path) + DEDUPED.replace('"-quality"', '"quality"'), SETTINGS)
    for name in ("a.jsonl", "b.csv", "c.parquet"):
        (tmp_path / name).unlink()
        (tmp_path / name).symlink_to(folder / name)
    path.write_text(path.read_text().replace('files = "', f'files = "{folder}/'))
    refused = tokcore("build", build_file(folder, corpus(folder), SETTINGS), "--output", folder / "out", cwd=folder)
    build_file(folder, corpus(folder) + DEDUPED, SETTINGS)
    assert refused.returncode == 2
    assert "dedup" in refused.stderr


def test_check_and_the_report_show_it(folder):
    done = tokcore("check", folder / "build.toml", "--output", folder / "new", "--json", cwd=folder)
    told = json.loads(done.stdout or done.stderr)["duplicates_in_sample"]
    assert (told["documents"], told["duplicates"]) == (360, 360 - len(KEPT))
    assert len(told["examples"]) == 3
    for example in told["examples"]:
        files = {name: DOCUMENTS[number::3] for number, name in enumerate(("a.jsonl", "b.csv", "c.parquet"))}
        dropped, kept = (files[one["file"].rpartition("/")[2]][one["record"]] for one in (example, example["stays"]))
        assert dropped["text"] == kept["text"]
        assert (dropped["id"] in KEPT, kept["id"] in KEPT) == (False, True)
    report = tokcore("report", folder / "out", "-o", folder / "report.html", cwd=folder)
    assert report.returncode == 0, report.stderr
    of_sources = json.loads((folder / "report.json").read_text())["corpus"]["filtered"]["sources"]
    assert sum(of["duplicate"] for of in of_sources.values()) == 360 - len(KEPT)


ROWS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 2),
        st.sampled_from([0, 7]),
        st.sampled_from(["b", "a", "c"]),
        st.integers(0, 2),
    ),
    max_size=30,
)


@given(ROWS, st.integers(1, 5))
def test_the_first_of_each_digest_stays_however_rows_are_dealt(rows, num_parts):
    found = []
    parts = []
    for start in range(num_parts):
        own = rows[start::num_parts]
        langs = sorted({lang for *_, lang, _ in own})
        table = np.zeros(len(own), make_row_type(1))
        for i, (head, tail, rank, lang, key) in enumerate(own):
            table[i] = (head, tail, (rank,), langs.index(lang), key, 0, 0, start, start + i * num_parts, 0)
        parts.append(Candidates(table, tuple(langs)))
    joined = join_candidates(parts, 1)
    ordered = sort_candidates(joined.rows)
    found = {(int(row["head"]), int(row["tail"])): int(row["ordinal"]) for row in ordered[find_staying(ordered)]}
    expected = {}
    for i, (head, tail, rank, lang, key) in enumerate(rows):
        best = (rank, lang, key, i % num_parts, i)
        expected[head, tail] = min(expected.get((head, tail), best), best)
    assert found == {digest: best[-1] for digest, best in expected.items()}
    assert sorted(ordered["ordinal"].tolist()) == [*range(len(rows))]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1 << 40)), unique=True))
def test_lists_come_back(places):
    table = np.array(places, np.int64).reshape(-1, 2)
    data = write_drops([("a", 0), ("a", 5), ("ü", 0)], table[:, 0], table[:, 1])
    found = {place: records.tolist() for place, records in parse_drops(data, "list").items()}
    expected = {}
    for number, record in sorted(places):
        expected.setdefault((("a", 0), ("a", 5), ("ü", 0))[number], []).append(record)
    assert found == expected


@pytest.mark.parametrize(
    "data",
    [
        b"{}\n",
        b'{"pieces":[[1]],"start":0,"uri":"a"}\n',
        b'{"records":[],"start":0,"uri":"a"}\n',
        b'{"records":["1"]}\n',
        b"x\n",
    ],
)
def test_a_damaged_list_is_refused(data):
    with pytest.raises(FormatError, match="list"):
        parse_drops(data, "list")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "does nothing without by"),
        ('prefer = ["source_order"]', "does nothing without by"),
        ('by = "a[*]"', "leads to several values"),
        ('by = "url"\nnormalize = ["nfc"]', 'is for by = "text"'),
        ('by = "text"\nprefer = ["split:test"]', "expected split:train or split:validation"),
        ('by = "text"\nprefer = ["split:validation"]', "there is one: add, for example, shards.validation"),
        ('by = "text"\nprefer = ["-"]', "dedup.prefer expected split:"),
        ('by = "text"\nprefer = ["q"]\n[[filter]]\nkeep = "q == \'x\'"', "as a string, and dedup.prefer as a number"),
        ('by = "s"\n[mask]\nspans = "s"', "holds the spans of [mask]"),
        ('by = "text"\n[[filter]]\nkeep = "s"\nname = "duplicate"', "ledgers call what [dedup] drops so"),
    ],
)
def test_what_a_build_file_may_not_say(tmp_path, lines, said):
    settings = "[learn]\nvocab_size = 300\n"
    path = build_file(tmp_path, f'[[source]]\nlang = "en"\nfiles = "*.jsonl"\n[dedup]\n{lines}\n', settings)
    with pytest.raises(ConfigError) as refused:
        Build.load(path)
    assert said in str(refused.value)


def test_a_field_that_no_record_has_ends_the_build_at_once(tmp_path):
    source = corpus(tmp_path) + '[dedup]\nby = "clusters"\n'
    with pytest.raises(ConfigError, match=r"dedup.by.*has the field 'clusters'"):
        run(build_file(tmp_path, source, SETTINGS), tmp_path / "out")


def test_an_output_without_it_says_nothing_of_it(tmp_path):
    run(build_file(tmp_path, corpus(tmp_path), SETTINGS), tmp_path / "out")
    assert not (tmp_path / "out" / "dedup").exists()
    for path in (tmp_path / "out").rglob("manifest.json"):
        assert b"dedup" not in path.read_bytes()
    config = dataclasses.replace(require_manifest(str(tmp_path / "out"), WHOLE).config)
    assert config.dedup is None
