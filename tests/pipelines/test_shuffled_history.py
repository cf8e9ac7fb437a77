"""Shuffled, mixed and packed outputs are updated, and documents go: each commit is, file by file, a fresh build."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support import eager
from support.builds import build_file, run, tokcore, tree
from support.removals import SETTINGS, SOURCES, compact_here, list_ids, remove_here, write_corpus, write_documents
from support.updates import update_here
from support.whole_outputs import read_shards, require_fresh

import tokcore as package
from tokcore.errors import StageError
from tokcore_pipelines.build.read_log import locate_part, read_log
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.check.verify_removed import verify_removed
from tokcore_pipelines.history import remove_documents
from tokcore_pipelines.history.expire_commits import expire
from tokcore_pipelines.history.restore_documents import Restore
from tokcore_pipelines.store import crashpoints

GONE = {"a-3", "a-4", "d-0"}


SHUFFLE = "[shuffle]\nseed = 7\n"
MIXTURE = '[mixture]\nstrategy = "weights"\nweights = { en = 2.5, de = 0.5 }\nformats = ["arrow"]\n'
PACK = "[pack]\nlength = 64\n"
KINDS = {
    "shuffled": SHUFFLE,
    "mixed": SHUFFLE + MIXTURE,
    "packed": PACK + 'strategy = "concatenate"\nlast = "keep"\n',
    "all": SHUFFLE + MIXTURE + PACK,
}


@pytest.fixture(scope="module", params=KINDS)
def built(request, tmp_path_factory):
    """A folder with a corpus, and its finished build in out/."""
    folder = tmp_path_factory.mktemp(request.param)
    write_corpus(folder)
    path = build_file(folder, SOURCES, SETTINGS.replace("[build]\nmax_rejected = 1\n", "") + KINDS[request.param])
    path.write_text(path.read_text().replace("[build]\n", "[build]\nmax_rejected = 1\n"))
    run(path, folder / "out")
    return folder


@pytest.fixture
def corpus(built, tmp_path):
    """A copy of it, whose input files have the times that were pinned."""
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


def update(folder: Path, vanished="keep"):
    return update_here(folder / "build.toml", folder / "out", vanished)


def test_more_and_fewer_documents(corpus):
    assert update(corpus) is None
    write_documents(corpus, "en/e.jsonl", 6)
    commit = update(corpus)
    assert (commit.why.new, commit.why.read_again, commit.dropped) == (1, 0, (".",))
    require_fresh(corpus)
    write_documents(corpus, "en/a.jsonl", 9, word="other")
    (corpus / "mixed" / "d.jsonl").unlink()
    commit = update(corpus, "remove")
    assert (commit.why.changed, commit.why.vanished) == (1, 1)
    require_fresh(corpus)


def test_a_kept_file_that_vanished_need_not_be_read(corpus):
    (corpus / "mixed" / "d.jsonl").rename(corpus / "d.jsonl")
    write_documents(corpus, "en/e.jsonl", 6)
    assert update(corpus).why.read_again == 0
    (corpus / "d.jsonl").rename(corpus / "mixed" / "d.jsonl")
    require_fresh(corpus)


def test_tokens_stand_for_sources_that_are_gone(corpus, monkeypatch):
    shutil.copytree(corpus, corpus.parent / "undisturbed")
    remove_here(corpus.parent / "undisturbed", GONE)
    away = {path: corpus / path.name for path in (corpus / "en" / "a.jsonl", corpus / "mixed" / "c.jsonl")}
    for path, other in away.items():
        path.rename(other)
    before = tree(corpus / "out")
    if (corpus / "out" / "shards" / "provenance").is_dir():
        monkeypatch.setattr(remove_documents, "MOST_DECODED", 0)
        with pytest.raises(StageError, match=r"en/a\.jsonl: gone.*at most 0 can be"):
            remove_here(corpus, GONE)
        assert tree(corpus / "out") == before
        monkeypatch.undo()
    assert remove_here(corpus, GONE).documents == 3
    assert verify(str(corpus / "out"), decode=0, base=str(corpus)).problems == ()
    mine, theirs = (
        read_shards(Path(locate_part(log.output, log.parts()[-1])))
        for log in (read_log(str(place / "out")) for place in (corpus, corpus.parent / "undisturbed"))
    )
    assert mine == theirs  # where each document came from, too
    for path, other in away.items():
        other.rename(path)
    require_fresh(corpus, GONE)


def test_documents_go_and_come_back(corpus):
    done = remove_here(corpus, GONE)
    assert (done.documents, done.parts, done.commit.why.removed) == (3, 1, 3)
    assert not GONE & list_ids(corpus / "out")
    require_fresh(corpus, GONE)
    write_documents(corpus, "en/e.jsonl", 6)
    update(corpus)
    require_fresh(corpus, GONE)
    assert verify_removed(str(corpus / "out"), ()).problems  # commits 0 to 2 can be read
    expire(str(corpus / "out"), keep=1)
    assert verify_removed(str(corpus / "out"), ()).problems == ()
    Restore(str(corpus / "out"), tuple(GONE)).run()
    assert update(corpus) is not None
    assert list_ids(corpus / "out") >= GONE
    require_fresh(corpus)


def test_files_go_and_their_documents_are_found_by_provenance(corpus):
    done = remove_here(corpus, sources=["d.jsonl"])
    assert (done.documents, done.commit.why.vanished) == (9, 1)
    held = verify_removed(str(corpus / "out"), ()).held
    assert sum(one.documents for one in held) == 9  # in commit 0
    require_fresh(corpus, {f"d-{i}" for i in range(9)} | {"d-bad"})


def test_there_is_one_part_and_nothing_to_compact(corpus):
    remove_here(corpus, GONE)
    before = tree(corpus / "out")
    assert compact_here(corpus).commit is None
    assert tree(corpus / "out") == before


@pytest.mark.parametrize("built", ["all"], indirect=True)
def test_the_mixture_and_the_rows_open_at_relative_places(corpus, monkeypatch):
    remove_here(corpus, GONE)
    for stage in ("mixed", "packed"):
        [part] = read_log(str(corpus / "out")).parts()
        expected = [ids.tolist() for ids in package.open_shards(corpus / "out" / part.path / stage)]
        assert expected != [ids.tolist() for ids in package.open_shards(corpus / "out")]
        monkeypatch.chdir(corpus)
        for place in (corpus / "out" / stage, f"out/{stage}", f"./out/{stage}/"):
            assert [ids.tolist() for ids in package.open_shards(place)] == expected
        monkeypatch.chdir(corpus / "out")
        assert [ids.tolist() for ids in package.open_shards(stage)] == expected


@pytest.mark.parametrize("built", ["all"], indirect=True)
def test_expired_commits_leave_nothing(corpus):
    remove_here(corpus, GONE)
    before = {path.parent.name for path in (corpus / "out").rglob("*.arrow")}
    expire(str(corpus / "out"), keep=1)
    (part,) = read_log(str(corpus / "out")).parts()
    for path in (corpus / "out").rglob("*"):
        if path.is_file() and not path.is_relative_to(locate_part(str(corpus / "out"), part)):
            assert path.suffix not in (".arrow", ".bin", ".idx", ".pieces", ".provenance", ".parquet"), path
    assert before
    assert verify(str(corpus / "out")).problems == ()
    assert len(package.open_shards(corpus / "out" / "packed"))
    with pytest.raises(package.ConfigError, match="that commit is expired"):
        package.open_shards(corpus / "out" / "packed", at=0)


@pytest.mark.parametrize("built", ["shuffled", "all"], indirect=True)
@pytest.mark.parametrize(
    "point", [*crashpoints.REMOVING_POINTS, *crashpoints.INHERITING_POINTS, "encode.shard", "build.committed"]
)
def test_a_killed_removal_goes_on_to_the_same_commit(corpus, point):
    (corpus / "gone.txt").write_text("\n".join(sorted(GONE)))
    shutil.copytree(corpus, corpus.parent / "undisturbed")
    remove_here(corpus.parent / "undisturbed", GONE)
    command = ("remove", corpus / "out", "--ids", corpus / "gone.txt", "--base", corpus)
    killed = tokcore(*command, env={**os.environ, "TOKCORE_CRASH": f"{point}:1"})
    assert killed.returncode != 0
    eager.seed(0, 0)
    assert tokcore(*command).returncode == 0
    assert tree(corpus / "out") == tree(corpus.parent / "undisturbed" / "out")
