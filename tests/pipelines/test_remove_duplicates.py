"""Removals from outputs with [dedup]: all equal documents go, or one with --this-copy, as if it had never been."""

from __future__ import annotations

import dataclasses
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builds import build_file, jsonl, run, tokcore, write
from support.updates import build_fresh, update_here

import tokcore as tk
from tokcore.errors import ConfigError, FormatError
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.check.verify_removed import verify_removed
from tokcore_pipelines.history.remove_documents import Remove
from tokcore_pipelines.history.restore_documents import Restore
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.commit_log import name_commit, parse_commit

SETTINGS = '[learn]\nmodel = "byte"\n[shards]\nformats = ["arrow"]\ntarget_tokens = 2000\nvalidation = 0.25\n'
SOURCE = '[[source]]\nlang_field = "l"\nid = "id"\nfiles = "in/*.jsonl"\n'
PREFER = 'prefer = ["split:validation", "-quality"]\n'
TEXT = f'[dedup]\nby = "text"\n{PREFER}'
FIELD = f'[dedup]\nby = "cluster"\n{PREFER}'
LINE = '[dedup]\nby = "line"\n'
BOTH = pytest.mark.parametrize("table", [TEXT, FIELD], ids=["text", "field"])


def make_documents():
    """Documents 'd0' and so on; ten texts come five times each, in all files and languages; ten texts once."""
    draw = random.Random(3)
    documents = []
    for i in range(60):
        told = i % 12 if i % 12 < 10 else 100 + i
        documents.append(
            {
                "id": f"d{i}",
                "l": draw.choice(["en", "de"]),
                "text": f"the {told}th story\nof a fox\nthat is told {told} times",
                "quality": draw.randrange(9),
                "cluster": None if told == 3 else f"c{told % 6}",
            }
        )
    return documents


DOCUMENTS = make_documents()
OF_TEXT = {text: [one["id"] for one in DOCUMENTS if one["text"] == text] for text in {one["text"] for one in DOCUMENTS}}


def write_corpus(folder, documents=DOCUMENTS):
    """Each third document is in one of three files."""
    for number in range(3):
        write(folder / "in" / f"{number}.jsonl", jsonl([one for one in documents if int(one["id"][1:]) % 3 == number]))


def build(folder, table=TEXT):
    write_corpus(folder)
    run(build_file(folder, SOURCE + table, SETTINGS), folder / "out")
    return folder


def remove(folder, *ids, this_copy=False, **named):
    options = RunOptions(here=True)
    return Remove(str(folder / "out"), ids, base=str(folder), options=options, this_copy=this_copy, **named).run()


def restore(folder, *ids):
    return Restore(str(folder / "out"), ids).run()


def update(folder):
    return update_here(folder / "build.toml", folder / "out", vanished="remove")


def list_texts(output):
    shards = tk.open_shards(output, split="all")
    tokenizer = tk.Tokenizer.load(output)
    return {shards.document(i).id: tokenizer.decode(shards[i]).decode() for i in range(len(shards))}


def require_as_if(folder, documents):
    """The newest commit is what a build gives over these documents alone."""
    fresh = folder / "fresh"
    table = (folder / "build.toml").read_text()
    for path in fresh.rglob("*.jsonl"):
        path.unlink()
    write_corpus(fresh, documents)
    write(fresh / "build.toml", table.encode())
    number = len([*folder.glob("fresh/out*")])
    expected = build_fresh(fresh / "build.toml", fresh / f"out{number}", folder / "out")
    totals = read_log(str(folder / "out")).totals()
    same = ("documents", "text_bytes", "tokens", "documents_digest")
    assert {name: getattr(totals, name) for name in same} == {name: getattr(expected, name) for name in same}
    assert list_texts(folder / "out") == list_texts(fresh / f"out{number}")
    assert verify(str(folder / "out"), decode=None, base=str(folder)).problems == ()
    for ledger in read_ledger_lines(folder / "out"):
        dropped = sum(sum(reasons.values()) for reasons in ledger.get("filtered", {}).values())
        assert ledger["records"] == ledger["documents"] + ledger.get("removed", 0) + dropped


def read_ledger_lines(output):
    part = read_log(str(output)).parts()[0].path
    lines = (output / part / "rejected" / "files.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def without(*ids):
    return [one for one in DOCUMENTS if one["id"] not in ids]


def find_equal(kept_id, by="text"):
    (one,) = [one for one in DOCUMENTS if one["id"] == kept_id]
    return {kept_id} if one[by] is None else {other["id"] for other in DOCUMENTS if other[by] == one[by]}


def choose_kept(folder, num_equal=5, by="text"):
    """A document that stands for others, and one of these."""
    kept = next(name for name in sorted(list_texts(folder / "out")) if len(find_equal(name, by)) >= num_equal)
    return kept, min(find_equal(kept, by) - {kept})


@BOTH
def test_the_next_copy_comes_back(tmp_path, table):
    by = "text" if table == TEXT else "cluster"
    folder = build(tmp_path, table)
    kept, dropped = choose_kept(folder, by=by)
    before = list_texts(folder / "out")
    done = remove(folder, kept, this_copy=True)
    assert (done.unknown, done.documents) == (0, 1)
    assert (done.commit.why.removed, done.commit.why.came) == (1, 1)
    assert "remove: 1 document removed; 1 equal one came instead; files" in tokcore("log", folder / "out").stdout
    after = list_texts(folder / "out")
    assert len(after) == len(before)
    (new,) = after.keys() - before.keys()
    assert new in find_equal(kept, by)
    assert done.commit.totals.removed == 1
    require_as_if(folder, without(kept))
    # A copy that no shard holds goes, too: it does not come back when the next one goes.
    for name in sorted(find_equal(kept, by) - {kept, new}):
        remove(folder, name, this_copy=True)
    assert remove(folder, new, this_copy=True).documents == 1, "the last one leaves none"
    require_as_if(folder, without(*find_equal(kept, by)))
    assert dropped not in list_texts(folder / "out")


@BOTH
def test_all_equal_documents_go_whichever_is_named(tmp_path, table):
    """Also one that was dropped as a duplicate; and a copy of later, when none that was named is there any more."""
    by = "text" if table == TEXT else "cluster"
    folder = build(tmp_path, table)
    kept, dropped = choose_kept(folder, by=by)
    done = remove(folder, dropped)
    assert (done.unknown, done.documents) == (0, 1)
    left = without(*find_equal(kept, by))
    require_as_if(folder, left)
    assert verify_removed(str(folder / "out"), [dropped]).problems == ()
    # All that were there go, and one comes that nobody named.
    (one,) = [one for one in DOCUMENTS if one["id"] == kept]
    late = {**one, "id": "d999", "quality": 99}
    write_corpus(folder, [*left, late])
    assert update(folder) is not None
    require_as_if(folder, left)
    assert restore(folder, dropped).names == 1
    assert update(folder) is not None, "its file counts as changed"
    require_as_if(folder, [*left, late])


def test_what_was_taken_with_its_copies_can_be_taken_alone_and_the_other_way_round(tmp_path):
    folder = build(tmp_path)
    kept, _ = choose_kept(folder)
    remove(folder, kept)
    require_as_if(folder, without(*find_equal(kept)))
    assert remove(folder, kept).commit is None, "nothing is removed twice"
    assert remove(folder, kept, this_copy=True).commit is not None
    require_as_if(folder, without(kept))
    assert remove(folder, kept, this_copy=True).commit is None
    assert remove(folder, kept).commit is not None
    require_as_if(folder, without(*find_equal(kept)))
    restore(folder, kept)
    assert update(folder) is not None
    require_as_if(folder, DOCUMENTS)


def test_two_names_of_one_text_keep_it_away_until_both_are_restored(tmp_path):
    """Also from a copy that nobody named, when both are gone."""
    folder = build(tmp_path)
    kept, dropped = choose_kept(folder)
    remove(folder, kept)
    remove(folder, dropped)
    left = without(*find_equal(kept))
    (one,) = [one for one in DOCUMENTS if one["id"] == kept]
    late = {**one, "id": "d999"}
    write_corpus(folder, [*left, late])
    update(folder)
    restore(folder, kept)
    update(folder)
    assert "d999" not in list_texts(folder / "out")
    restore(folder, dropped)
    update(folder)
    require_as_if(folder, [*left, late])


def test_files_go_alone_only(tmp_path):
    folder = build(tmp_path)
    with pytest.raises(ConfigError, match="add --this-copy, and they stay"):
        remove(folder, sources=("1.jsonl",))
    with pytest.raises(ConfigError, match="leave --lang out"):
        remove(folder, langs=("de",), this_copy=True)
    done = remove(folder, sources=("1.jsonl",), this_copy=True)
    assert done.commit.why.vanished == 1
    require_as_if(folder, [one for one in DOCUMENTS if int(one["id"][1:]) % 3 != 1])


def test_lines_of_one_that_goes_alone_come_back_elsewhere(tmp_path):
    folder = build(tmp_path, LINE)
    whole = next(name for name, text in sorted(list_texts(folder / "out").items()) if "of a fox" in text)
    remove(folder, whole, this_copy=True)
    assert any("of a fox" in text for text in list_texts(folder / "out").values())
    require_as_if(folder, without(whole))
    remove(folder, whole)
    assert not any("of a fox" in text for text in list_texts(folder / "out").values())


def test_a_dry_run_counts_what_would_go(tmp_path):
    folder = build(tmp_path)
    kept, dropped = choose_kept(folder)
    done = remove(folder, dropped, dry_run=True)
    assert (done.commit, done.parts, done.read_again, done.unknown) == (None, 1, 3, 0)
    # It is in no shard, but one that is equal is, and goes, too.
    shards = tk.open_shards(folder / "out", "all")
    (standing,) = [i for i in range(len(shards)) if shards.document(i).id == kept]
    assert (done.documents, done.cost.tokens, done.cost.shards) == (1, len(shards[standing]), 1)
    assert remove(folder, dropped, kept, dry_run=True).documents == 1
    assert len([*(folder / "out").glob("log/*")]) == 0
    with pytest.raises(ConfigError, match="nothing has the id 'nobody'"):
        remove(folder, kept, "nobody")


def test_the_command_and_outputs_without_duplicates(tmp_path):
    folder = build(tmp_path, "")
    write(folder / "ids.txt", b"d0\n")
    refused = tokcore("remove", folder / "out", "--ids", folder / "ids.txt", "--this-copy", cwd=folder)
    assert refused.returncode == 2
    assert "leave --this-copy out" in refused.stderr


def test_a_commit_whose_digests_are_not_its_tombstones_is_refused(tmp_path):
    folder = build(tmp_path)
    remove(folder, choose_kept(folder)[0])
    path = folder / "out" / name_commit(1)
    commit = parse_commit(path.read_bytes(), "1")
    assert len(commit.equal) == 1
    path.write_bytes(dataclasses.replace(commit, equal=((commit.equal[0][0], "00"),)).to_bytes())
    with pytest.raises(FormatError, match="its digests are not"):
        read_log(str(folder / "out"))


@settings(max_examples=settings().max_examples // 12 or 1)
@given(st.lists(st.tuples(st.sampled_from(["d1", "d13", "d25", "d2", "d10"]), st.booleans()), min_size=1, max_size=6))
def test_any_removals_are_a_build_that_never_had_the_documents(tmp_path_factory, chosen):
    folder = build(tmp_path_factory.mktemp("any"))
    gone, buried = set(), set()
    for name, this_copy in chosen:
        remove(folder, name, this_copy=this_copy)
        gone.add(name)
        (buried.discard if this_copy else buried.add)(name)
    # d1, d13 and d25 are equal.
    taken = gone.union(*(find_equal(name) for name in buried))
    if len(taken) < len(DOCUMENTS):
        require_as_if(folder, without(*taken))
