"""[dedup] by line and by paragraph: texts are what a plain loop leaves of them, within each source."""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builds import build_file, jsonl, run, texts, tokcore, tree, write
from support.slices import SliceProcesses
from support.three_formats import NAMES, write_thirds

import tokcore as tk
from tokcore.errors import ConfigError
from tokcore_pipelines import check, remove, report, update
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.store.crashpoints import DEDUPING_POINTS
from tokcore_pipelines.work import find_duplicates
from tokcore_pipelines.work.pieces import cut_pieces, leave_pieces
from tokcore_schemas import shuffle
from tokcore_schemas.config import load_config
from tokcore_schemas.document import compute_document_key, is_selected
from tokcore_schemas.stage_table import DEDUP, WHOLE

SHARE = "0.25"


def make_documents():
    """Lines that many documents have: in all files and languages, indented, at the end of a text, and twice in one."""
    draw = random.Random(3)
    pool = [line[:40] for text in texts("en", 12) for line in text.split("\n") if line.strip()]
    documents = []
    for i in range(240):
        lines = [draw.choice(["", "  "]) + draw.choice(pool) for _ in range(draw.randrange(1, 5))]
        lines += [f"only here {i}"] * (i % 5 > 0)
        lines += [lines[0]] * (i % 7 == 0)
        draw.shuffle(lines)
        text = "".join(line + draw.choice(["\n", "\n", "\n\n", "\r\n", "\n \t\n"]) for line in lines)
        documents.append(
            {"id": f"d{draw.randrange(1 << 40):010x}", "l": draw.choice(["en", "ru"]), "text": text.rstrip() or "x"}
        )
    return documents


DOCUMENTS = make_documents()
PREFER = 'prefer = ["split:validation"]\n'
BYTES = f'[learn]\nmodel = "byte"\n[shards]\nformats = ["arrow"]\ntarget_tokens = 3000\nvalidation = {SHARE}\n'


def corpus(folder, documents=DOCUMENTS):
    """Each format is a source."""
    write_thirds(folder, documents)
    return "".join(f'[[source]]\nlang_field = "l"\nid = "id"\nfiles = "{name}"\n' for name in NAMES)


def split_by_hand(text, by):
    """Pieces as a loop over lines makes them."""
    lines = text.splitlines(keepends=True) if "\r" not in text else re.findall(r"[^\n]*\n|[^\n]+", text)
    if by == "line":
        return lines
    pieces, is_ended = [], False
    for number, line in enumerate(lines):
        is_blank = not line.strip() and line.endswith("\n")
        if number == 0 or (is_ended and not is_blank):
            pieces.append("")
        pieces[-1] += line
        is_ended = is_blank and len(pieces[-1]) > len(line)
    return pieces


def cut_by_hand(by, documents=DOCUMENTS):
    """The oracle: (id -> what is left of the text, for documents of which something is; pieces cut; bytes cut)."""
    best = {}
    for i, one in enumerate(documents):
        key = compute_document_key(one["l"], one["id"], one["text"].encode())
        rank = not is_selected(key, 0, "validation", Decimal(SHARE)), one["l"], key
        for number, piece in enumerate(split_by_hand(one["text"], by)):
            if piece.strip():
                name = i % 3, piece.strip()
                best[name] = min(best.get(name, (*rank, number)), (*rank, number))
    left, num_cut, bytes_cut = {}, Counter(), Counter()
    for i, one in enumerate(documents):
        key = compute_document_key(one["l"], one["id"], one["text"].encode())
        pieces = split_by_hand(one["text"], by)
        stays = [
            not piece.strip() or best[i % 3, piece.strip()][2:] == (key, number) for number, piece in enumerate(pieces)
        ]
        text = "".join(piece for piece, goes_on in zip(pieces, stays, strict=True) if goes_on)
        num_cut[one["l"]] += stays.count(False)
        bytes_cut[one["l"]] += len(one["text"].encode()) - len(text.encode())
        if text.strip():
            left[one["id"]] = text
    return left, num_cut, bytes_cut


def list_texts(output):
    tokenizer, shards = tk.Tokenizer.load(output / "tokenizer"), tk.open_shards(output, split="all")
    return {
        shards.document(i).id: tokenizer.decode(shards[i].tolist()).decode().removesuffix("<|endoftext|>")
        for i in range(len(shards))
    }


@pytest.fixture(scope="module", params=["line", "paragraph"])
def by(request):
    return request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory, by):
    folder = tmp_path_factory.mktemp(by)
    run(build_file(folder, corpus(folder) + f'[dedup]\nby = "{by}"\n{PREFER}', BYTES), folder / "out")
    return folder


def test_shards_have_what_a_loop_leaves(folder, by):
    left, num_cut, _ = cut_by_hand(by)
    assert list_texts(folder / "out") == left
    assert 100 < len(left) < len(DOCUMENTS)
    assert sum(num_cut.values()) > 50
    pieces = [(i % 3, one.strip()) for i, d in enumerate(DOCUMENTS) for one in split_by_hand(left.get(d["id"], ""), by)]
    assert len({*pieces} - {(i, "") for i in range(3)}) == sum(1 for _, one in pieces if one), "each once"


def test_the_ledger_counts_pieces_and_bytes(folder, by):
    left, num_cut, bytes_cut = cut_by_hand(by)
    records = require_manifest(str(folder / "out"), WHOLE).totals.records
    assert records.cut == {lang: {"bytes": bytes_cut[lang], by: num_cut[lang]} for lang in ("en", "ru")}
    gone = Counter(one["l"] for one in DOCUMENTS if one["id"] not in left)
    assert records.filtered == {lang: {"duplicate": num} for lang, num in gone.items()}
    assert records.read == len(DOCUMENTS) == records.documents + sum(gone.values())
    assert require_manifest(str(folder / "out"), DEDUP).totals.duplicates == sum(num_cut.values())
    files = [json.loads(line) for line in (folder / "out" / "rejected" / "files.jsonl").read_text().splitlines()]
    assert sum(of[by] for file in files for of in file["cut"].values()) == sum(num_cut.values())
    said = tokcore("build", folder / "build.toml", "--output", folder / "out", cwd=folder).stdout
    assert f"duplicates left out of documents: {sum(num_cut.values()):,} {by}s, " in said
    told = report(folder / "out")["corpus"]["cut"]
    assert told["languages"] == records.cut
    assert told["sources"].keys() == {*NAMES}


def test_workers_engines_cuts_and_spills_change_no_byte(folder, by, tmp_path, monkeypatch):
    source = corpus(tmp_path) + f'[dedup]\nby = "{by}"\n{PREFER}'
    path = build_file(tmp_path, source, BYTES)
    run(path, tmp_path / "two", workers=2)
    direct = tokcore("build", path, "--output", tmp_path / "direct", "--engine", "direct", cwd=tmp_path)
    assert direct.returncode == 0, direct.stderr
    with SliceProcesses(path, tmp_path / "sliced", 2) as slices:
        for one in [slices.start(number) for number in (1, 2)]:
            code, _, err = one.wait()
            assert code == 0, err
    with monkeypatch.context() as patched:
        patched.setattr(find_duplicates, "SPILL_DOCUMENTS", 7)
        patched.setattr(shuffle, "BYTES_PER_BUCKET", 4096)
        run(path, tmp_path / "spilled")
    root = require_manifest(str(folder / "out"), WHOLE).root
    for name in ("two", "direct", "sliced", "spilled"):
        assert require_manifest(str(tmp_path / name), WHOLE).root == root, name
    run(build_file(tmp_path, source, BYTES + "[plan]\nrange_bytes = 2000\n"), tmp_path / "cut")
    assert list_texts(tmp_path / "cut") == cut_by_hand(by)[0]


@pytest.mark.parametrize("point", DEDUPING_POINTS)
def test_killed_builds_go_on(folder, by, tmp_path, point):
    path = build_file(tmp_path, corpus(tmp_path) + f'[dedup]\nby = "{by}"\n{PREFER}', BYTES)
    command = ("build", path, "--output", tmp_path / "out", "--workers", "1")
    killed = tokcore(*command, cwd=tmp_path, env={**os.environ, "TOKCORE_CRASH": f"{point}:1"})
    assert killed.returncode != 0
    done = tokcore(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert require_manifest(str(tmp_path / "out"), WHOLE).root == require_manifest(str(folder / "out"), WHOLE).root


def test_verify_compares_with_what_is_left_and_repair_makes_it_again(folder):
    assert verify(str(folder / "out"), decode=None, base=str(folder)).problems == ()
    before = tree(folder / "out")
    lists = [one for one in sorted((folder / "out" / "dedup").glob("item-*.jsonl")) if one.stat().st_size]
    lists[0].write_bytes(lists[0].read_bytes().replace(b'"pieces":[', b'"pieces":[[9999,0],', 1))
    next((folder / "out" / "shards").rglob("*.arrow")).unlink()
    repaired = tokcore("repair", folder / "out", cwd=folder)
    assert repaired.returncode == 0, repaired.stderr
    assert tree(folder / "out") == before


def test_check_shows_pieces(folder, by):
    told = check(folder / "build.toml")["duplicates_in_sample"]
    assert (told["of"], told["duplicates"]) == (by, sum(cut_by_hand(by)[1].values()))
    assert all(len(one["text"]) < 60 or by == "paragraph" for one in told["examples"])
    assert f"sampled {by}s, of the sample alone" in tokcore("check", "build.toml", cwd=folder).stdout


def test_check_shows_more_of_what_a_rule_names(folder, by):
    """Of a step, masks and duplicates there are no two sides of a limit: more examples are shown."""
    path = folder / "masked.toml"
    path.write_text((folder / "build.toml").read_text() + '[mask]\nregex = { a = "[ab]" }\n')

    def tell(*rule):
        done = tokcore("check", path, "--output", folder / "masked", "--json", *rule, cwd=folder)
        return done, json.loads(done.stdout) if done.stdout else None

    _, plain = tell()
    _, of_masks = tell("--rule", "mask")
    _, of_duplicates = tell("--rule", "dedup")
    assert [len(one["examples"]) for one in plain["mask"]["kinds"]] == [3]
    assert [len(one["examples"]) for one in of_masks["mask"]["kinds"]] == [20]
    shown = [len(one["duplicates_in_sample"]["examples"]) for one in (plain, of_masks, of_duplicates)]
    assert shown == [3, 3, 20]
    refused, _ = tell("--rule", "map.0")
    assert refused.returncode == 2
    assert "--rule map.0: is not in the build file. Name one of: mask, dedup" in refused.stderr


def test_an_update_and_a_removal(tmp_path):
    """A removed document still keeps its lines from coming back elsewhere; an update compares with all of them."""
    first = [{"id": "a", "text": "one\nof a\ntwo\n"}, {"id": "b", "text": "two\nthree\n"}]
    write(tmp_path / "1.jsonl", jsonl(first))
    source = '[[source]]\nlang = "en"\nid = "id"\nfiles = "*.jsonl"\n[dedup]\nby = "line"\n'
    byte = '[learn]\nmodel = "byte"\n[shards]\nformats = ["arrow"]\n'
    path = build_file(tmp_path, source, byte)
    run(path, tmp_path / "out")
    found = list_texts(tmp_path / "out")
    assert found in ({"a": "one\nof a\ntwo\n", "b": "three\n"}, {"a": "one\nof a\n", "b": "two\nthree\n"})
    write(tmp_path / "2.jsonl", jsonl([{"id": "c", "text": "one\nfour\nthree"}]))
    update(path, workers=1)
    found = list_texts(tmp_path / "out")
    lines = sorted(line for text in found.values() for line in text.splitlines())
    assert lines == ["four", "of a", "one", "three", "two"]
    assert verify(str(tmp_path / "out"), decode=None, base=str(tmp_path)).problems == ()
    remove(tmp_path / "out", ids=["a"], workers=1)
    left = sorted(line for text in list_texts(tmp_path / "out").values() for line in text.splitlines())
    assert left == ["four", "three"]


def test_splits_of_documents_without_ids_follow_from_their_texts(tmp_path):
    source = '[[source]]\nlang = "en"\nfiles = "*.jsonl"\n[dedup]\nby = "line"\nprefer = ["split:validation"]\n'
    with pytest.raises(ConfigError, match=r"source\[0\] dedup.prefer names a split, and by = .line. changes texts"):
        load_config(str(build_file(tmp_path, source, BYTES)))


def test_a_text_that_spells_a_special_token_without_a_duplicate_is_rejected(tmp_path):
    """The token has a line break in it, and a line that comes earlier stands between its halves."""
    tables = '[special]\n"<|endoftext|>" = "document_end"\n"<|a\\nb|>" = "plain"\n[encode]\nspecial_text = "reject"\n'
    source = '[[source]]\nlang = "en"\nid = "id"\nfiles = "*.jsonl"\n[dedup]\nby = "line"\nprefer = ["place"]\n'
    between = {"before": "d|>\n", "joined": "b|>\n", "apart": "c|>\n"}
    told = {name: f"{name} <|a\nagain\n{last}" for name, last in between.items()}
    documents = [{"id": name, "text": text, "place": place} for place, (name, text) in enumerate(told.items())]
    write(tmp_path / "a.jsonl", jsonl(documents))
    path = build_file(tmp_path, source, BYTES + tables)
    path.write_text(path.read_text().replace("[build]\n", "[build]\nmax_rejected = 1\n", 1))
    run(path, tmp_path / "out")
    assert list_texts(tmp_path / "out") == {"before": told["before"], "apart": "apart <|a\nc|>\n"}
    (reject,) = map(json.loads, (tmp_path / "out/rejected/rejected.jsonl").read_text().splitlines())
    assert (reject["record"], reject["reason"]) == (1, "special_text")
    assert "without its duplicates" in reject["detail"]
    assert verify(str(tmp_path / "out"), decode=None, base=str(tmp_path)).problems == ()


@given(st.text(alphabet="a \n\t\r", max_size=30), st.sets(st.integers(0, 9)))
def test_pieces_are_those_of_a_loop(text, dropped):
    for by in ("line", "paragraph"):
        pieces = cut_pieces(text.encode(), by)
        assert b"".join(pieces) == text.encode()
        assert pieces == [one.encode() for one in split_by_hand(text, by)]
        left, num = leave_pieces(text.encode(), by, sorted(dropped))
        assert left == b"".join(one for i, one in enumerate(pieces) if i not in dropped)
        assert num == len(dropped & {*range(len(pieces))})
