"""`tokcore update`: an output follows its inputs in commits, each equal to a fresh build over the same documents."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support import eager
from support.builds import build_file, run, tokcore, tree
from support.updates import (
    SETTINGS,
    SOURCES,
    build_fresh,
    make_texts,
    require_equal,
    update_here,
    write_corpus,
    write_file,
)

import tokcore as package
from tokcore.errors import ConfigError, StageError
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.check.gc import gc
from tokcore_pipelines.check.prove_file import prove_file
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.history.update_output import Update
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store import crashpoints
from tokcore_schemas.commit_log import Reason
from tokcore_schemas.config import load_config
from tokcore_schemas.merkle import follow, hash_leaf

REASON = Reason("update", 0, 0, 0, 0)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with a corpus, and its finished build in out/."""
    folder = tmp_path_factory.mktemp("update")
    write_corpus(folder)
    run(build_file(folder, SOURCES, SETTINGS), folder / "out")
    return folder


@pytest.fixture
def corpus(built, tmp_path):
    """A copy of it, whose input files have the times that were pinned."""
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


def update(folder: Path, vanished="keep"):
    return update_here(folder / "build.toml", folder / "out", vanished)


def require_fresh(folder: Path) -> None:
    """Assert that the newest commit is sound, and equal to a build of all files as they are."""
    report = verify(str(folder / "out"), decode=None, base=str(folder))
    assert report.problems == ()
    totals = build_fresh(folder / "build.toml", folder / "fresh", folder / "out")
    require_equal(folder / "out", folder / "fresh", totals)
    assert report.num_read == report.num_decoded == totals.documents
    shutil.rmtree(folder / "fresh")


def test_nothing_changed_makes_no_commit(corpus):
    before = tree(corpus / "out")
    assert update(corpus) is None
    assert tree(corpus / "out") == before


def test_a_new_file_is_a_part_of_its_own(corpus):
    before = tree(corpus / "out")
    write_file(corpus, "en/e.jsonl", make_texts("e", 5))
    commit = update(corpus)
    assert (commit.number, commit.why) == (1, dataclasses.replace(REASON, new=1))
    after = tree(corpus / "out")
    card = {"README.md": after["README.md"]}  # which follows commits
    assert {path: after[path] for path in before} == before | card  # nothing of the build is touched
    (part,) = commit.added
    read = json.loads((corpus / "out" / part.path / "manifest.json").read_bytes())["totals"]["files"]
    assert read["stored_bytes_planned"] == (corpus / "en" / "e.jsonl").stat().st_size  # and no other file is read
    require_fresh(corpus)
    # In the next commit files of both sources are new, one of them in a language that nobody had.
    write_file(corpus, "mixed/f.jsonl", make_texts("f", 3), "it")
    write_file(corpus, "en/g.jsonl", make_texts("g", 2))
    assert update(corpus).number == 2
    require_fresh(corpus)
    assert update(corpus) is None


def test_earlier_commits_stay_readable(corpus):
    build = package.open_shards(corpus / "out", split="all")
    counts = package.open_counts(corpus / "out", "en")
    write_file(corpus, "en/e.jsonl", make_texts("e", 5))
    update(corpus)
    assert len(package.open_shards(corpus / "out", split="all")) == len(build) + 5
    assert package.open_counts(corpus / "out", "en", at=0).equals(counts)
    assert package.open_counts(corpus / "out", "en", at=1).equals(package.open_counts(corpus / "out", "en"))
    at_first = package.open_shards(corpus / "out", split="all", at=0)
    assert [ids.tolist() for ids in at_first] == [ids.tolist() for ids in build]
    assert verify(str(corpus / "out"), at=0).root == read_log(str(corpus / "out")).build.root
    for read in (package.open_shards, lambda path, at: package.open_counts(path, "en", at=at)):
        with pytest.raises(ConfigError, match="has the commits 0 to 1"):
            read(corpus / "out", at=2)
    with pytest.raises(ConfigError, match="has the commits 0 to 1"):
        verify(str(corpus / "out"), at=2)


def test_a_new_version_of_a_file_replaces_its_documents(corpus):
    for name in ("e", "f"):
        write_file(corpus, f"en/{name}.jsonl", make_texts(name, 4))
    first = update(corpus)
    write_file(corpus, "en/e.jsonl", make_texts("other", 6))
    commit = update(corpus)
    assert commit.why == dataclasses.replace(REASON, changed=1, read_again=1)
    assert commit.dropped == (first.added[0].path,)
    assert commit.parts == (first.parts[0], *commit.added)
    require_fresh(corpus)
    write_file(corpus, "en/a.jsonl", make_texts("a", 3))  # of the build itself
    commit = update(corpus)
    assert (commit.dropped, commit.why.changed, commit.why.read_again) == ((".",), 1, 0)
    require_fresh(corpus)


@pytest.mark.parametrize("vanished", ["keep", "remove", "fail"])
def test_what_becomes_of_a_file_that_vanished(corpus, vanished):
    write_file(corpus, "en/e.jsonl", make_texts("e", 4))
    update(corpus)
    (corpus / "en" / "e.jsonl").unlink()
    if vanished == "fail":
        with pytest.raises(
            StageError, match=r"en/e.jsonl: vanished since it was read. Choose what becomes of its documents"
        ):
            update(corpus, vanished)
    elif vanished == "keep":
        assert update(corpus, vanished) is None
        assert package.open_shards(corpus / "out", split="all").num_tokens > 0
    else:
        commit = update(corpus, vanished)
        assert (commit.added, commit.why) == ((), dataclasses.replace(REASON, vanished=1))
        assert commit.root == read_log(str(corpus / "out")).build.root
        require_fresh(corpus)
        write_file(corpus, "en/e.jsonl", make_texts("e", 4))  # and is there again
        assert update(corpus).why.new == 1
        require_fresh(corpus)


def test_what_was_kept_cannot_be_read_again(corpus):
    for name in ("e", "f"):
        write_file(corpus, f"en/{name}.jsonl", make_texts(name, 4))
    update(corpus)
    (corpus / "en" / "e.jsonl").unlink()
    write_file(corpus, "en/f.jsonl", make_texts("other", 2))
    with pytest.raises(StageError, match=r"en/e.jsonl: vanished, and is read with en/f.jsonl"):
        update(corpus)
    assert update(corpus, "remove").why == dataclasses.replace(REASON, changed=1, vanished=1)
    require_fresh(corpus)


def test_files_without_documents_are_part_of_it_too(corpus):
    (corpus / "en" / "e.jsonl").write_bytes(b"")
    assert update(corpus).totals.documents == read_log(str(corpus / "out")).build.totals.records.documents
    assert verify(str(corpus / "out"), decode=None, base=str(corpus)).problems == ()
    assert update(corpus) is None


def test_an_imported_tokenizer_needs_no_counts(tmp_path, built):
    write_corpus(tmp_path)
    settings = f'[tokenizer]\nfrom = "{built / "out"}"\n[shards]\ntarget_tokens = 300\n'
    run(build_file(tmp_path, SOURCES, settings), tmp_path / "out")
    write_file(tmp_path, "en/e.jsonl", make_texts("e", 5))
    commit = update(tmp_path)
    assert not (tmp_path / "out" / commit.added[0].path / "counts").exists()
    assert verify(str(tmp_path / "out"), decode=None, base=str(tmp_path)).problems == ()
    assert len(package.open_shards(tmp_path / "out")) == commit.totals.documents


# ------------------------------------------------------------------------------------------------------ kills and races


OF_PARTS = ("plan.listed", "count.item", "encode.shard", "stage.published", "build.committed")
POINTS = (*crashpoints.UPDATING_POINTS, *OF_PARTS)


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_update_goes_on_to_the_same_commit(corpus, point):
    write_file(corpus, "en/e.jsonl", make_texts("e", 5))
    shutil.copytree(corpus / "out", corpus / "undisturbed")
    update_here(corpus / "build.toml", corpus / "undisturbed")
    killed = tokcore("update", corpus / "build.toml", env={**os.environ, "TOKCORE_CRASH": f"{point}:1"})
    assert killed.returncode != 0
    assert update(corpus) is None if point == "update.committed" else update(corpus).number == 1
    assert tree(corpus / "out") == tree(corpus / "undisturbed")


def test_of_two_updates_the_second_follows_the_first(corpus):
    write_file(corpus, "en/e.jsonl", make_texts("e", 5))
    others = []

    def overtake(point):
        if point == "update.built" and not others:
            others.append(point)
            write_file(corpus, "en/f.jsonl", make_texts("f", 3))
            others.append(update(corpus))

    crashpoints.watch(overtake)
    try:
        commit = update(corpus)
    finally:
        crashpoints.watch(None)
    # The other one had both files, so nothing is left to do.
    assert commit is None
    assert others[1].why.new == 2
    require_fresh(corpus)


def test_equal_updates_make_one_commit(corpus):
    write_file(corpus, "en/e.jsonl", make_texts("e", 5))
    others = []

    def overtake(point):
        if point == "update.built" and not others:
            others.append(point)
            others.append(update(corpus))

    crashpoints.watch(overtake)
    try:
        assert update(corpus) == others[1]
    finally:
        crashpoints.watch(None)
    assert read_log(str(corpus / "out")).newest == 1


def test_slices_share_an_update(corpus):
    for name in "efghij":
        write_file(corpus, f"en/{name}.jsonl", make_texts(name, 14))
    shutil.copytree(corpus / "out", corpus / "undisturbed")
    update_here(corpus / "build.toml", corpus / "undisturbed")
    with ThreadPoolExecutor() as threads:
        command = ("update", corpus / "build.toml", "--json", "--slice")
        hosts = [*threads.map(lambda number: tokcore(*command, f"{number}/2"), (1, 2))]
    assert [host.returncode for host in hosts] == [0, 0], [host.stderr for host in hosts]
    assert hosts[0].stdout == hosts[1].stdout
    assert tree(corpus / "out") == tree(corpus / "undisturbed")


# ---------------------------------------------------------------------------------------------------- what is refused


def test_other_settings_are_refused(corpus):
    path = build_file(corpus, SOURCES, SETTINGS.replace("target_tokens = 300", "target_tokens = 400"))
    with pytest.raises(ConfigError, match=r"holds a different build: .*target_tokens was 300, now 400"):
        update_here(path, corpus / "out")
    with pytest.raises(ConfigError, match=r"not there\. Run `tokcore build` first"):
        update_here(corpus / "build.toml", corpus / "none")


def test_an_imported_tokenizer_must_be_named_again(tmp_path, built):
    write_corpus(tmp_path)
    run(build_file(tmp_path, SOURCES, f'[tokenizer]\nfrom = "{built / "out"}"\n'), tmp_path / "out")
    build_file(tmp_path, SOURCES, "")
    with pytest.raises(ConfigError, match="began with an imported tokenizer, but none is named now"):
        update(tmp_path)


def test_a_build_leaves_commits_alone(corpus):
    write_file(corpus, "en/e.jsonl", make_texts("e", 5))
    before = tree(corpus / "out")
    refused = tokcore("build", corpus / "build.toml")
    assert (refused.returncode, "tokcore update" in refused.stderr) == (2, True), refused.stderr
    assert tree(corpus / "out") == before
    update(corpus)
    before = tree(corpus / "out")
    refused = tokcore("build", corpus / "build.toml", "--replace", "plan")
    assert (refused.returncode, "was updated since it was built" in refused.stderr) == (2, True), refused.stderr
    assert tree(corpus / "out") == before


def test_gc_removes_only_parts_that_no_commit_names(corpus):
    write_file(corpus, "en/e.jsonl", make_texts("e", 5))
    update(corpus)
    before = tree(corpus / "out")
    write_file(corpus, "en/f.jsonl", make_texts("f", 5))
    crash = {**os.environ, "TOKCORE_CRASH": "update.built:1"}
    assert tokcore("update", corpus / "build.toml", env=crash).returncode != 0
    assert len(tree(corpus / "out")) > len(before)
    report = verify(str(corpus / "out"))
    assert (report.problems, report.num_leftovers > 10) == ((), True)
    found = gc(str(corpus / "out"), "0")
    assert found.left == ()
    assert tree(corpus / "out") == before


# ------------------------------------------------------------------------------------------------------------- commands


def test_an_update_without_changes_names_files_that_no_pattern_takes(corpus):
    path = corpus / "build.toml"
    path.write_text(path.read_text().replace('"en/*.jsonl"', '["en/*.jsonl", "other/b*.jsonl"]'))
    for name in ("b.jsonl", "f.jsonl", "README.md", "notes.txt", ".hidden.jsonl"):
        write_file(corpus, f"other/{name}", make_texts("f", 1))
    assert "not taken" not in tokcore("update", path).stdout
    said = tokcore("update", path).stdout
    assert "nothing changed since commit 1" in said
    assert said.endswith(f"\nnot taken: {corpus}/other/f.jsonl (no pattern matches it)\n")


def test_commands_say_what_happened(corpus):
    path = corpus / "build.toml"
    root = read_log(str(corpus / "out")).build.root
    assert tokcore("update", path, "--quiet").stdout == f"{root}\n"
    assert "nothing changed since commit 0" in tokcore("update", path).stdout
    write_file(corpus, "en/e.jsonl", make_texts("e", 5))
    done = tokcore("update", path)
    assert done.returncode == 0, done.stderr
    assert "commit 1" in done.stdout
    assert "update: files 1 new" in done.stdout
    printed = tokcore("log", corpus / "out").stdout
    assert printed.index("commit 1") < printed.index("commit 0")
    (build, commit) = json.loads(tokcore("log", corpus / "out", "--json").stdout)
    assert (build["root"], commit["totals"]["documents"]) == (root, build["totals"]["documents"] + 5)
    assert commit["root"] in printed
    (corpus / "en" / "e.jsonl").unlink()
    failed = tokcore("update", path, "--vanished", "fail")
    assert (failed.returncode, "--vanished keep or --vanished remove" in failed.stderr) == (3, True)
    path.write_text(path.read_text() + '\n[update]\nvanished = "remove"\n')
    assert json.loads(tokcore("update", path, "--json").stdout)["why"]["vanished"] == 1
    assert f"root {root}" in tokcore("verify", corpus / "out").stdout


def test_a_commit_proves_files_of_its_parts(corpus):
    write_file(corpus, "en/e.jsonl", make_texts("e", 5))
    commit = update(corpus)
    for file in (f"{commit.added[0].path}/tokenizer/tokcore.json", "tokenizer/tokcore.json"):
        proof = prove_file(read_output(str(corpus / "out")), file)
        steps = [(side, bytes.fromhex(other)) for side, other in proof.path]
        assert (proof.file, proof.root) == (file, commit.root)
        assert follow(hash_leaf(proof.leaf.encode()), steps).hex() == commit.root
    assert prove_file(read_output(str(corpus / "out"), 0), "tokenizer/tokcore.json").root == commit.parts[0].root


def test_worker_processes_make_the_same_commit(corpus):
    write_file(corpus, "en/e.jsonl", make_texts("e", 5))
    shutil.copytree(corpus / "out", corpus / "other")
    eager.seed(0, 0)
    mine = update(corpus)
    theirs = Update(load_config(str(corpus / "build.toml")), RunOptions(2), str(corpus / "other")).run()
    assert mine == theirs
