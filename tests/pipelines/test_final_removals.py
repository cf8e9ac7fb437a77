"""What a removal says before and after: what it would cost, why it was, that it is final, and what nobody can reach."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.builds import build_file, run, tokcore, tree
from support.removals import SETTINGS, SOURCES, list_ids, remove_here, write_corpus, write_documents
from support.updates import update_here

import tokcore as package
from tokcore.errors import ConfigError, FormatError
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.history.expire_commits import expire
from tokcore_pipelines.history.remove_documents import Remove
from tokcore_pipelines.history.restore_documents import Restore
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store.out_of_reach import describe_out_of_reach

GONE = ("a-3", "a-4", "c-0", "d-0")
MIXED = '[shuffle]\nseed = 3\n[mixture]\nstrategy = "temperature"\nalpha = 0.3\n[pack]\nlength = 64\n'


def build_here(folder, more):
    write_corpus(folder)
    path = build_file(folder, SOURCES, SETTINGS.replace("[build]\nmax_rejected = 1\n", "") + more)
    path.write_text(path.read_text().replace("[build]\n", "[build]\nmax_rejected = 1\n"))
    run(path, folder / "out")
    return folder


@pytest.fixture(scope="module", params=["", MIXED], ids=["parts", "mixed"])
def built(request, tmp_path_factory):
    return build_here(tmp_path_factory.mktemp("final"), request.param)


@pytest.fixture
def corpus(built, tmp_path):
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


def remove(folder, ids=GONE, **how):
    return Remove(str(folder / "out"), tuple(ids), base=str(folder), options=RunOptions(here=True), **how).run()


def count_by_hand(place: Path) -> tuple[int, int, int]:
    """(documents, tokens, shards) of those that go, at a folder of shards, slow and obvious."""
    shards = package.open_shards(place, "all")
    found = [i for i in range(len(shards)) if shards.document(i).id in GONE]
    ends = np.cumsum([one.num_documents for one in shards.list_files()])
    return len(found), sum(len(shards[i]) for i in found), len({int(np.searchsorted(ends, i, "right")) for i in found})


def test_a_dry_run_tells_what_would_change(corpus):
    before = tree(corpus / "out")
    done = remove(corpus, dry_run=True)
    cost = done.cost
    assert (done.documents, cost.tokens, cost.shards) == count_by_hand(corpus / "out" / "shards")
    files = [corpus / "en/a.jsonl", *(corpus / "mixed").iterdir()]
    is_mixed = (corpus / "out" / "mixed").is_dir()
    if is_mixed:
        documents, _, shards = count_by_hand(corpus / "out" / "mixed")
        assert (cost.mixed_documents, cost.mixed_shards, cost.moves_weights) == (documents, shards, True)
        rows = 0
        for shard in package.open_shards(corpus / "out" / "packed", "all").list_files():
            pieces = shard.find_pieces().read()
            rows += len({int(row) for row, one in zip(pieces.rows, pieces.ids, strict=True) if one in GONE})
        assert cost.rows == rows > 0
        assert cost.read_bytes < sum(path.stat().st_size for path in (*files, corpus / "en/b.jsonl"))
        assert not remove(corpus, dry_run=True, keep_weights=True).cost.moves_weights
    else:
        assert (cost.mixed_documents, cost.mixed_shards, cost.rows, cost.moves_weights) == (0, 0, 0, False)
        assert 0 < cost.read_bytes <= sum(path.stat().st_size for path in files)
    assert cost.cpu_seconds > 0
    assert tree(corpus / "out") == before
    for path in (corpus / "out").glob("*/run.json"):
        path.unlink()
    assert remove(corpus, dry_run=True).cost.cpu_seconds is None
    (corpus / "gone.txt").write_text("\n".join(GONE))
    said = tokcore("remove", corpus / "out", "--ids", corpus / "gone.txt", "--base", corpus, "--dry-run").stdout
    assert f"would make again at most {cost.shards_again} of {cost.shards_in_all} shards" in said
    assert f"they have {cost.tokens:,} tokens, in {cost.shards} shard" in said
    assert ("in packed form they are in" in said) == is_mixed
    told = tokcore("remove", corpus / "out", "--ids", corpus / "gone.txt", "--base", corpus, "--dry-run", "--json")
    assert json.loads(told.stdout)["cost"] == dataclasses.asdict(cost) | {"cpu_seconds": None}


def test_what_is_final_cannot_be_taken_back(corpus):
    remove(corpus, ["a-3"])
    done = remove(corpus, ["a-3", "d-0"], final=True, reason="a court's order", by="Ann")
    assert (done.documents, len(done.commit.removed), len(done.commit.final)) == (1, 1, 2)
    before = tree(corpus / "out")
    why = r"the id 'a-3' was removed with --final in commit 2, for \"a court's order\", so it cannot be taken back"
    with pytest.raises(ConfigError, match=why):
        Restore(str(corpus / "out"), ("a-3",)).run()
    assert tree(corpus / "out") == before
    remove(corpus, ["b-1"])
    assert Restore(str(corpus / "out"), ("b-1",)).run().commit is not None  # what is not final can be
    assert remove(corpus, ["a-3"], final=True).commit is None  # it is already
    update_here(corpus / "build.toml", corpus / "out") if not (corpus / "out/mixed").is_dir() else None
    assert not {"a-3", "d-0"} & list_ids(corpus / "out")
    assert verify(str(corpus / "out"), decode=None, base=str(corpus)).problems == ()
    said = tokcore("log", corpus / "out").stdout
    assert """for "a court's order" by Ann""" in said
    assert "2 tombstones cannot be taken back" in said


def test_a_log_that_takes_back_what_is_final_is_broken(corpus, monkeypatch):
    from tokcore_pipelines.history import restore_documents

    remove(corpus, ["a-3"], final=True)
    monkeypatch.setattr(restore_documents, "refuse_final", lambda *names: None)
    with pytest.raises(FormatError, match="takes tombstones back that an earlier commit says are final"):
        Restore(str(corpus / "out"), ("a-3",)).run()
    assert "says are final" in "".join(verify(str(corpus / "out")).problems)


def test_a_restoration_says_when_why_and_by_whom(corpus):
    remove_here(corpus, ["a-3"])
    command = ("restore", corpus / "out", "--ids", write_ids(corpus), "--reason", "a mistake\n", "--by", "Ben")
    assert tokcore(*command).returncode == 0
    commit = read_log(str(corpus / "out")).commits[-1]
    assert (commit.why.reason, commit.why.by) == ("a mistake\n", "Ben")
    first = tokcore("log", corpus / "out").stdout.splitlines()[0]
    assert "restore: 1 tombstone taken back; for 'a mistake\\n' by Ben" in first
    (told, *_) = reversed(json.loads(tokcore("log", corpus / "out", "--json").stdout))
    assert told["date"].endswith(" UTC")  # though it has added no part
    assert told["date"] in first


@pytest.mark.parametrize("built", [""], indirect=True)
def test_a_commit_has_its_own_date_though_its_part_is_older_or_expired(corpus):
    remove(corpus, ["a-3"])
    for _ in range(2):
        remove_here(corpus, sources=["d.jsonl"])
        Restore(str(corpus / "out"), sources=("d.jsonl",)).run()
        update_here(corpus / "build.toml", corpus / "out")
    log = read_log(str(corpus / "out"))
    assert log.commits[6].added
    assert {*log.commits[6].added} <= {*log.commits[3].added}  # the same part once more
    for number in range(1, log.newest + 1):  # each was written in a year of its own
        then = datetime.datetime(2030 + number, 1, 1, tzinfo=datetime.UTC).timestamp()
        os.utime(corpus / "out" / "log" / f"{number}.json", (then, then))
    dates = read_dates(corpus)
    assert not dates[1].startswith("2031")  # when its parts were built
    assert not dates[4].startswith("2034")
    assert [dates[number][:4] for number in (3, 5, 6, 7)] == ["2033", "2035", "2036", "2037"]
    expire(str(corpus / "out"), keep=1)
    assert read_dates(corpus)[1][:4] == "2031"  # its part is gone


def read_dates(folder: Path) -> list[str]:
    return [one["date"] for one in json.loads(tokcore("log", folder / "out", "--json").stdout)]


def write_ids(folder: Path) -> Path:
    path = folder / "ids.txt"
    path.write_text("a-3\n")
    return path


def test_an_expiry_says_what_it_takes_and_what_it_cannot_reach(corpus):
    remove_here(corpus, ["a-3"])
    tried = tokcore("expire", corpus / "out", "--keep", "1", "--dry-run")
    done = tokcore("expire", corpus / "out", "--keep", "1")
    for one in (tried, done):
        assert "warning: commit 0 cannot be read then" in one.stderr
        assert 'as Loader(at=N, removed="mask") does' in one.stderr
        assert "Out of reach: snapshots and backups of this disk" in one.stdout.splitlines()[-1]
    again = tokcore("expire", corpus / "out", "--keep", "1")
    assert "warning" not in again.stderr
    assert "Out of reach" not in again.stdout


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://bucket/out", "NoncurrentVersionExpiration"),
        ("gs://bucket/out", "soft deletion keeps them for seven days"),
        ("gcs://bucket/out", "soft_delete_policy"),
        ("az://bucket/out", "soft deletion of blobs and containers"),
        ("abfs://bucket/out", "snapshots keep them"),
        ("/folder/out", "snapshots and backups of this disk"),
        ("other://bucket/out", "versions, soft deletion and replicas of this store may keep them"),
    ],
)
def test_each_store_keeps_other_things(url, said):
    told = describe_out_of_reach(url)
    assert said in told
    assert "copies that readers have made" in told


def test_files_that_were_removed_for_good_stay_away(corpus):
    remove(corpus, (), sources=("a.jsonl",), final=True)
    with pytest.raises(ConfigError, match=r"the input file 'en/a\.jsonl' was removed with --final in commit 1, so"):
        Restore(str(corpus / "out"), sources=("*a.jsonl",)).run()
    write_documents(corpus, "en/e.jsonl", 2)
