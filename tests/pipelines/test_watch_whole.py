"""Watchers of outputs of which each batch makes all again: shuffled, mixed, packed, deduplicated, partitioned."""

from __future__ import annotations

import shutil

import pytest
from support.builds import build_file, run
from support.removals import SETTINGS, SOURCES, list_ids, remove_here, write_corpus, write_documents
from support.updates import build_fresh
from support.watchers import WITHOUT_PROCESSES, said, watching

import tokcore as package
from tokcore.errors import ConfigError
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.history.compact_output import Compact
from tokcore_pipelines.history.update_output import Update
from tokcore_pipelines.watch.stream_steps import StreamSteps
from tokcore_schemas.config import load_config

SHUFFLE = "[shuffle]\nseed = 3\n"
FIXED = SHUFFLE + '[mixture]\nstrategy = "weights"\nweights = { de = 2.5 }\n[pack]\nlength = 64\n'
UNIMAX = SHUFFLE + '[mixture]\nstrategy = "unimax"\nmax_epochs = 4\n'


def build_here(folder, more):
    write_corpus(folder)
    path = build_file(folder, SOURCES, SETTINGS.replace("[build]\nmax_rejected = 1\n", "") + more)
    path.write_text(path.read_text().replace("[build]\n", "[build]\nmax_rejected = 1\n"))
    run(path, folder / "out")
    return folder


def require_fresh(folder, stages=("", "mixed", "packed")):
    """Assert that the newest commit has the shards, the mixture and the rows of a fresh build, in its order."""
    assert verify(str(folder / "out"), decode=None, base=str(folder)).problems == ()
    assert len(read_log(str(folder / "out")).parts()) == 1
    build_fresh(folder / "build.toml", folder / "fresh", folder / "out")
    for stage in stages:
        mine, theirs = (package.open_shards(folder / place / stage, "all") for place in ("out", "fresh"))
        assert [ids.tolist() for ids in mine] == [ids.tolist() for ids in theirs]
    shutil.rmtree(folder / "fresh")


def test_each_batch_is_a_fresh_build(tmp_path):
    build_here(tmp_path, FIXED)
    with watching(tmp_path) as service:
        service.go_round()
        assert read_log(str(tmp_path / "out")).newest == 0
        write_documents(tmp_path, "en/e.jsonl", 6)
        service.go_round()
        assert "files 1 new, 48 documents" in said(service)
        require_fresh(tmp_path)
        write_documents(tmp_path, "en/a.jsonl", 9, word="other")
        write_documents(tmp_path, "mixed/c.jsonl", 4, "de", word="other")
        service.go_round()
        assert "files 2 changed, 40 documents" in said(service)
        require_fresh(tmp_path)
        assert remove_here(tmp_path, {"e-1"}).documents == 1
        write_documents(tmp_path, "en/f.jsonl", 3)
        service.go_round()
        assert {"f-0", "f-1"} <= list_ids(tmp_path / "out")
        assert "e-1" not in list_ids(tmp_path / "out")


@pytest.mark.parametrize("by", ["text", "line"])
def test_duplicates_of_what_lands_are_dropped(tmp_path, by):
    build_here(tmp_path, f'partition_by = ["lang"]\n[dedup]\nby = "{by}"\nprefer = ["source_order"]\n')
    before = list_ids(tmp_path / "out")
    with watching(tmp_path) as service:
        shutil.copy(tmp_path / "en/a.jsonl", tmp_path / "en/e.jsonl")  # its documents are equal, and their keys
        write_documents(tmp_path, "en/f.jsonl", 3)
        service.go_round()
        assert "files 2 new, 4 read again" in said(service)
        require_fresh(tmp_path, stages=("",))
    assert list_ids(tmp_path / "out") - before == {"f-0", "f-1", "f-2"}
    compacted = Compact(str(tmp_path / "out"), base=str(tmp_path), options=WITHOUT_PROCESSES).run()
    assert compacted.commit is None


def test_a_changed_file_that_must_wait_holds_up_all(tmp_path):
    build_here(tmp_path, FIXED)
    write_documents(tmp_path, "en/a.jsonl", 9, word="other")
    write_documents(tmp_path, "en/e.jsonl", 6)
    update = Update(load_config(str(tmp_path / "build.toml")), WITHOUT_PROCESSES, str(tmp_path / "out"), grows=True)
    changes = update.look()
    assert not update.choose(changes, ["en/e.jsonl"])
    both = update.choose(changes, ["en/a.jsonl", "en/e.jsonl"])
    assert (both.new, both.changed, both.dropped) == (["en/e.jsonl"], ["en/a.jsonl"], ["."])
    assert sorted(both.kept) == ["en/b.jsonl", "mixed/c.jsonl", "mixed/d.jsonl"]
    left_out = update.choose(changes, ["en/e.jsonl"], ["en/a.jsonl"])
    assert (left_out.changed, left_out.vanished) == ([], ["en/a.jsonl"])


def test_what_vanished_stays_in_the_output(tmp_path):
    build_here(tmp_path, FIXED)
    (tmp_path / "mixed" / "d.jsonl").rename(tmp_path / "d.jsonl")
    with watching(tmp_path) as service:
        service.go_round()
        write_documents(tmp_path, "en/e.jsonl", 6)
        service.go_round()
    assert {f"{name}-{i}" for name in "de" for i in range(6)} <= list_ids(tmp_path / "out")
    (tmp_path / "d.jsonl").rename(tmp_path / "mixed" / "d.jsonl")
    require_fresh(tmp_path)


def test_what_no_watcher_can_decide_is_refused(tmp_path):
    build_here(tmp_path / "mixed", UNIMAX)
    with (
        pytest.raises(ConfigError, match="its weights follow from sizes, and what that moves is asked for"),
        watching(tmp_path / "mixed") as service,
    ):
        service.go_round()
    build_here(tmp_path / "shuffled", SHUFFLE)
    config = load_config(str(tmp_path / "shuffled" / "build.toml"))
    with pytest.raises(ConfigError, match=r"was built with \[shuffle\].*Watch it without an engine"):
        StreamSteps(config, str(tmp_path / "shuffled" / "out")).check()
