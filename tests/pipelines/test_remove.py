"""`tokcore remove`: documents go from an output, and no later commit brings them back."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil

import pytest
from support import eager
from support.builds import tokcore, tree
from support.removals import (
    build_corpus,
    list_ids,
    remove_here,
    require_without,
    write_documents,
)
from support.updates import update_here

from tokcore.errors import StageError
from tokcore.files.canonical_json import write_canonical_json
from tokcore.shards.tombstones import spell_tombstone
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.check.verify_removed import verify_removed
from tokcore_pipelines.history.expire_commits import expire
from tokcore_pipelines.history.make_commit import create_commit
from tokcore_pipelines.history.remove_documents import Remove
from tokcore_pipelines.local import pool
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store import crashpoints
from tokcore_schemas.commit_log import Reason, hash_parts

GONE = {"a-3", "a-4", "d-0"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with a corpus, its finished build in out/, and a part with the file e."""
    folder = tmp_path_factory.mktemp("remove")
    build_corpus(folder)
    write_documents(folder, "en/e.jsonl", 6)
    update_here(folder / "build.toml", folder / "out")
    return folder


@pytest.fixture
def corpus(built, tmp_path):
    """A copy of it, whose input files have the times that were pinned."""
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


def update(folder):
    return update_here(folder / "build.toml", folder / "out")


def require_sound(folder):
    report = verify(str(folder / "out"), decode=None, base=str(folder))
    assert report.problems == ()


def test_a_removal_is_equal_to_a_build_that_never_had_the_documents(corpus):
    done = remove_here(corpus, GONE)
    assert done.unknown == 0
    assert done.commit.why == Reason("remove", read_again=2, removed=3)
    assert done.commit.dropped == (".",)  # the part of e is not touched
    totals = done.commit.totals
    assert (totals.documents, totals.removed) == (42 + 6 - 3, 3)
    assert totals.records == totals.documents + totals.removed + 5  # each file has a reject
    assert not GONE & list_ids(corpus / "out")
    assert list_ids(corpus / "out", at=1) >= GONE
    require_sound(corpus)
    require_without(corpus, GONE)


def test_only_the_part_that_holds_them_is_made_again(corpus):
    done = remove_here(corpus, {"e-1"})
    assert [path.split("/")[0] for path in done.commit.dropped] == ["parts"]
    assert (done.commit.why.read_again, done.commit.why.removed) == (1, 1)
    require_sound(corpus)
    require_without(corpus, {"e-1"})


def test_nothing_is_removed_twice(corpus):
    remove_here(corpus, GONE)
    before = tree(corpus / "out")
    assert remove_here(corpus, GONE).commit is None
    assert tree(corpus / "out") == before
    more = remove_here(corpus, {*GONE, "b-2"})
    assert more.commit.why.removed == 1
    assert len(more.commit.removed) == 1
    require_without(corpus, {*GONE, "b-2"})
    require_sound(corpus)


def test_updates_do_not_bring_a_document_back(corpus):
    remove_here(corpus, GONE)
    assert update(corpus) is None  # what was pinned is as it was
    write_documents(corpus, "en/a.jsonl", 15, word="other")  # a new version, with a-3 and a-4
    commit = update(corpus)
    assert (commit.why.changed, commit.why.read_again) == (1, 0)
    assert not GONE & list_ids(corpus / "out")
    require_without(corpus, GONE)
    # A file that is new has a document of a removed id, too.
    (corpus / "en" / "z.jsonl").write_bytes((corpus / "mixed" / "d.jsonl").read_bytes())
    assert update(corpus).why.new == 1
    assert not GONE & list_ids(corpus / "out")
    require_without(corpus, GONE)
    require_sound(corpus)


def test_ids_that_no_document_has_stay_away(corpus):
    done = remove_here(corpus, {"y-0"})
    assert (done.unknown, done.commit.why.removed, done.commit.parts) == (1, 0, read_log(str(corpus / "out")).parts(1))
    write_documents(corpus, "en/y.jsonl", 2)
    update(corpus)
    assert {"y-0", "y-1"} & list_ids(corpus / "out") == {"y-1"}
    require_without(corpus, {"y-0"})


def test_a_language_goes(corpus):
    done = remove_here(corpus, langs=["de"])
    assert done.commit.why.removed == 9
    write_documents(corpus, "mixed/g.jsonl", 3, "de")
    write_documents(corpus, "mixed/h.jsonl", 3, "it")
    update(corpus)
    ids = list_ids(corpus / "out")
    assert not {one for one in ids if one[0] in "cg"}
    assert {"h-0", "d-0"} <= ids
    require_without(corpus, {f"{name}-{i}" for name in "cg" for i in range(9)})
    require_sound(corpus)


@pytest.mark.parametrize("pattern", ["en/a*", "a.jsonl", "**/a.jsonl"])
def test_the_documents_of_files_go(corpus, pattern):
    done = remove_here(corpus, sources=[pattern])
    assert (done.commit.why.vanished, done.commit.why.removed, done.commit.why.read_again) == (1, 12, 0)
    write_documents(corpus, "en/a.jsonl", 15, word="other")  # a new version of the file is left out, too
    assert update(corpus) is None
    require_without(corpus, {*(f"a-{i}" for i in range(15)), "a-bad"})
    require_sound(corpus)


def test_all_files_of_a_part_may_go(corpus):
    done = remove_here(corpus, sources=["e.jsonl"])
    assert (done.commit.added, len(done.commit.dropped)) == ((), 1)
    assert done.commit.root == read_log(str(corpus / "out")).build.root
    require_sound(corpus)
    before = tree(corpus / "out")
    with pytest.raises(StageError, match="no input file would be left"):
        remove_here(corpus, sources=["*.jsonl"])
    assert tree(corpus / "out") == before


# ------------------------------------------------------------------------------------------------------ kills and races


@pytest.mark.parametrize("point", [*crashpoints.REMOVING_POINTS, "count.item", "encode.shard", "build.committed"])
def test_a_killed_removal_goes_on_to_the_same_commit(corpus, point):
    (corpus / "gone.txt").write_text("\n".join(sorted(GONE)))
    shutil.copytree(corpus, corpus.parent / "undisturbed")
    remove_here(corpus.parent / "undisturbed", GONE)
    command = ("remove", corpus / "out", "--ids", corpus / "gone.txt", "--base", corpus)
    killed = tokcore(*command, env={**os.environ, "TOKCORE_CRASH": f"{point}:1"})
    assert killed.returncode != 0
    assert (read_log(str(corpus / "out")).newest == 2) is (point == "remove.committed")
    eager.seed(0, 0)
    assert tokcore(*command).returncode == 0
    assert tree(corpus / "out") == tree(corpus.parent / "undisturbed" / "out")


def test_an_update_that_commits_meanwhile_is_heeded(corpus):
    others = []

    def overtake(point):
        if point == "remove.built" and not others:
            others.append(point)
            write_documents(corpus, "en/f.jsonl", 3)
            write_documents(corpus, "en/z.jsonl", 2)
            others.append(update(corpus))

    crashpoints.watch(overtake)
    try:
        done = remove_here(corpus, {*GONE, "f-1"})
    finally:
        crashpoints.watch(None)
    assert (others[1].number, done.commit.number) == (2, 3)
    assert done.commit.why.removed == 4
    require_without(corpus, {*GONE, "f-1"})
    require_sound(corpus)


# --------------------------------------------------------------------------------------------------------------- proof


def test_names_are_nowhere_in_clear(corpus):
    before = {*tree(corpus / "out")}
    remove_here(corpus, {"a-3"}, langs=["de"])
    after = tree(corpus / "out")
    for path in {*after} - before:
        assert b"a-3" not in (corpus / "out" / path).read_bytes()
    key = read_log(str(corpus / "out")).tombstone_key
    root = bytes.fromhex(json.loads((corpus / "out" / "manifest.json").read_bytes())["root"])
    assert key == hashlib.sha256(b"tokcore-removed-v1\0" + root).hexdigest()
    assert read_log(str(corpus / "out")).commits[-1].removed == tuple(
        sorted([spell_tombstone(key, "id", "a-3"), spell_tombstone(key, "lang", "de")])
    )


def test_workers_look_through_many_documents(corpus, monkeypatch):
    """One pool for all parts, and the same answers."""
    output = str(corpus / "out")
    here = verify_removed(output, sorted(GONE))
    monkeypatch.setattr("tokcore_pipelines.history.find_removed.WORTH_WORKERS", 1)
    pools = []
    monkeypatch.setattr(pool, "Pool", lambda *given, make=pool.Pool: pools.append(make(*given)) or pools[-1])
    assert verify_removed(output, sorted(GONE), RunOptions(2)) == here
    done = Remove(output, tuple(GONE), base=str(corpus), options=RunOptions(1)).run()
    assert (done.unknown, done.commit.why.removed) == (0, 3)
    pools.clear()
    monkeypatch.setattr("tokcore_pipelines.check.verification.WORTH_BYTES", 0)
    assert verify(output, decode=None, base=str(corpus), options=RunOptions(1)).problems == ()
    assert len(pools) == 1


def test_removals_in_logs_of_version_1_hold(corpus):
    """Their key follows from the manifest of the build. No later commit may look for other tombstones."""
    output = corpus / "out"
    build = hashlib.sha256((output / "manifest.json").read_bytes()).digest()
    key = hashlib.sha256(b"tokcore-removed-v1\0" + build).hexdigest()
    before = read_log(str(output)).commits[-1]
    old = dataclasses.replace(
        before,
        number=2,
        previous=hashlib.sha256(before.to_bytes()).hexdigest(),
        why=Reason("remove"),
        added=(),
        dropped=(),
        removed=(spell_tombstone(key, "id", "y-0"),),
        format_version=1,
    )
    (output / "log" / "2.json").write_bytes(old.to_bytes())
    write_documents(corpus, "en/y.jsonl", 2)
    assert update(corpus).format_version == 2
    assert {"y-0", "y-1"} & list_ids(output) == {"y-1"}
    assert remove_here(corpus, {"y-1"}).unknown == 0
    assert not {"y-0", "y-1"} & list_ids(output)
    require_sound(corpus)


def test_verification_proves_that_none_is_left(corpus):
    output = str(corpus / "out")
    asked = sorted(GONE)
    first = verify_removed(output, asked)
    assert "log: no commit removes 3 of the ids" in first.problems[-1]
    left = ".: commits 0 to 1: 3 documents in shards and tables that should be gone"
    assert first.problems[0] == f"{left}: run `tokcore remove`"
    remove_here(corpus, GONE)
    second = verify_removed(output, asked)
    assert second.problems == (f"{left}: run `tokcore expire --keep 1`",)
    assert "was learned from commit 0, with 3 of the documents" in second.notes[0]
    # Without ids, what the log says was removed is looked for.
    assert verify_removed(output, []).problems == second.problems
    assert verify_removed(output, ["e-0"]).problems[-2:][0].startswith("parts/")


def test_what_rejects_quote_is_left_out(corpus):
    output = corpus / "out"
    report = verify_removed(str(output), ["a-bad"])
    assert report.held[0].rejects == 1
    commit = remove_here(corpus, {"a-3", "a-bad"}).commit
    lines = (output / commit.added[0].path / "rejected" / "rejected.jsonl").read_text().splitlines()
    assert [(json.loads(line)["detail"], json.loads(line)["sample"]) for line in lines] == [("", "")] * 4
    write_documents(corpus, "en/f.jsonl", 4)
    (added,) = update(corpus).added
    (line,) = (output / added.path / "rejected" / "rejected.jsonl").read_text().splitlines()
    assert (json.loads(line)["detail"], json.loads(line)["sample"]) == ("", "")
    assert {one.path for one in verify_removed(str(output), ["a-bad"]).held} == {"."}
    require_sound(corpus)


def test_a_rejected_record_alone_can_be_taken_out(corpus):
    """No document has its id. Its part is made again, of the same shards, and nothing of its rejects is quoted."""
    output, asked = str(corpus / "out"), ["e-bad"]
    # An earlier removal may have made the tombstone, and left the sample.
    log = read_log(output)
    tombstone = spell_tombstone(log.tombstone_key, "id", "e-bad")
    assert create_commit(log, Reason("remove"), (), (), [tombstone]) is not None
    (held,) = verify_removed(output, asked).held
    assert (held.rejects, held.path.split("/")[0]) == (1, "parts")
    for path in (corpus / "en" / "e.jsonl", corpus / "mixed" / "c.jsonl"):
        path.unlink()  # no input is read
    done = remove_here(corpus, asked)
    assert (done.unknown, done.rejects, done.commit.dropped) == (0, 1, (held.path,))
    assert (done.commit.why, done.commit.removed) == (Reason("remove"), ())
    assert done.commit.totals == log.commits[-1].totals
    assert [one.path for one in verify_removed(output, asked).held] == [held.path]  # of earlier commits
    assert remove_here(corpus, asked).commit is None
    expire(output, keep=1)
    assert verify_removed(output, asked).problems == ()
    assert b"e-bad" not in b"".join(path.read_bytes() for path in (corpus / "out").rglob("*.jsonl"))
    assert verify(output).problems == ()


def test_a_rejected_record_and_a_document_are_taken_out_at_once(corpus):
    done = remove_here(corpus, {"a-3", "e-bad", "nothing"})
    assert (done.unknown, done.rejects, done.commit.why.removed) == (1, 1, 1)
    assert done.commit.dropped[0] == "."
    assert len(done.commit.dropped) == 2
    expire(str(corpus / "out"), keep=1)
    assert verify_removed(str(corpus / "out"), ["a-3", "e-bad"]).problems == ()
    require_sound(corpus)
    require_without(corpus, {"a-3"})


def test_verification_names_what_a_forged_log_brings_back(corpus):
    """The part that was dropped is there again, in a commit with all hashes as they should be."""
    remove_here(corpus, GONE)
    log = read_log(str(corpus / "out"))
    newest = json.loads(log.commits[-1].to_bytes())
    back = dataclasses.asdict(log.parts(0)[0])
    parts = (*log.parts()[:-1], log.parts(0)[0])
    forged = {
        **newest,
        "number": 3,
        "previous": log.hash_newest(),
        "why": {"command": "update", "new": 0, "changed": 4, "vanished": 0, "read_again": 0},
        "added": [back],
        "dropped": [log.parts()[-1].path],
        "parts": [*newest["parts"][:-1], back],
        "root": hash_parts(parts),
        "totals": json.loads(log.commits[0].to_bytes())["totals"],
    }
    del forged["removed"]
    (corpus / "out" / "log" / "3.json").write_bytes(write_canonical_json(forged))
    problems = verify(str(corpus / "out")).problems
    assert "shards: en/a.jsonl, ordinal 3: was removed, and is there" in problems
    assert verify(str(corpus / "out"), at=2).problems == ()
    assert verify_removed(str(corpus / "out"), sorted(GONE)).held[0].commits == (0, 1, 3)


def test_verification_names_tombstones_without_a_commit(corpus):
    remove_here(corpus, GONE)
    path = corpus / "out" / "log" / "2.json"
    commit = json.loads(path.read_bytes())
    commit["removed"] = commit["removed"][1:]
    path.write_bytes(write_canonical_json(commit))
    (problem,) = verify(str(corpus / "out")).problems
    assert "leaves out documents that no commit says were removed" in problem
    commit["removed"] = []
    commit["why"]["removed"] = 2
    path.write_bytes(write_canonical_json(commit))
    assert verify(str(corpus / "out")).problems != ()


def test_commands_say_what_was_removed(corpus):
    path = corpus / "gone.txt"
    path.write_text("\n".join([*sorted(GONE), "nothing", ""]))
    assert "nothing has the id 'nothing'. Correct" in tokcore("remove", corpus / "out", "--ids", path).stderr
    done = tokcore("remove", corpus / "out", "--ids", path, "--allow-missing")
    assert done.returncode == 0, done.stderr
    assert "1 of the names is of no document; later commits leave it out, too" in done.stdout
    assert "remove: 3 documents removed; files 2 read again" in done.stdout
    assert "renamed" not in done.stdout
    again = tokcore("remove", corpus / "out", "--ids", path).stdout
    assert "nothing to remove: all of it was removed before" in again
    proof = tokcore("verify", corpus / "out", "--removed", path, "--json")
    assert (proof.returncode, json.loads(proof.stdout)["names"]) == (1, 4)
    assert "3 documents in shards" in tokcore("verify", corpus / "out", "--removed", path).stdout
    assert tokcore("remove", corpus / "out").returncode == 2
    assert tokcore("verify", corpus / "out", "--removed", path, "--at", "1").returncode == 2
    assert tokcore("verify", corpus / "out").returncode == 0


def test_commands_say_what_became_of_names(corpus):
    path = corpus / "gone.txt"
    path.write_text("e-bad\n")
    assert (
        "1 reject quoted an id; its part holds no samples of rejects now"
        in tokcore("remove", corpus / "out", "--ids", path).stdout
    )
    report = tokcore("verify", corpus / "out", "--removed", path).stdout
    assert "commits 1 to 1" not in report
    assert "1 reject that should be gone: run `tokcore expire --keep 1`" in report
    path.write_text("a-3\n")
    assert "remove: 1 document removed" in tokcore("remove", corpus / "out", "--ids", path).stdout
    done = tokcore("remove", corpus / "out", "--source", "b.*", "--source", "nosuch*", "--allow-missing")
    assert "no input file that it has now matches 'nosuch*'" in done.stdout
    assert "matches 'b.*'" not in done.stdout
    assert "if a file is renamed, its documents come back: --ids keeps" in done.stdout


def test_a_glob_that_matches_no_file_removes_nothing(corpus):
    before = tree(corpus / "out")
    done = tokcore("remove", corpus / "out", "--source", "nosuch*", "--allow-missing")
    assert (done.returncode, tree(corpus / "out")) == (0, before)
    *_, said, last = done.stdout.splitlines()
    assert said.endswith("out: no input file that it has now matches 'nosuch*'")
    assert last.endswith("out: nothing to remove")
