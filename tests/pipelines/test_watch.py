"""`tokcore watch`: what lands is committed exactly once, whatever happens to files, watchers and stores."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import shutil
import signal
import time
import urllib.error
import urllib.request
import weakref
from decimal import Decimal
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from support.builds import ROOT, build_file, run, tokcore
from support.command_server import start_command
from support.drivers import Driver
from support.small_parts import fail_in_worker, kill_worker
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
from support.watchers import said, watching

import tokcore as package
from tokcore.errors import ConfigError, IdentityError, StageError
from tokcore.files.canonical_json import COMMIT_VERSION
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.check.gc import gc
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.history import small_parts, update_output
from tokcore_pipelines.history.make_commit import create_commit
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store import crashpoints
from tokcore_pipelines.watch import service, waiting_files
from tokcore_pipelines.watch.read_status import read_status
from tokcore_schemas.commit_log import Reason, describe_part
from tokcore_schemas.stage_table import WHOLE

REASON = Reason("update", 0, 0, 0, 0)
WATCH = """
[watch]
poll_seconds = 0.1
settle_seconds = 0.2
batch_seconds = 0
lease_seconds = 2
listen = ""
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with a corpus, and its finished build in out/."""
    folder = tmp_path_factory.mktemp("watch")
    write_corpus(folder)
    run(build_file(folder, SOURCES, SETTINGS + WATCH), folder / "out")
    return folder


@pytest.fixture
def corpus(built, tmp_path):
    """A copy of it, whose input files have the times that were pinned."""
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


def newest(folder: Path):
    log = read_log(str(folder / "out"))
    return log.commits[-1] if log.commits else log.build


def require_fresh(folder: Path) -> None:
    """Assert that the newest commit is sound, and equal to a build of all files as they are."""
    assert verify(str(folder / "out"), decode=None, base=str(folder)).problems == ()
    totals = build_fresh(folder / "build.toml", folder / "fresh", folder / "out")
    require_equal(folder / "out", folder / "fresh", totals)
    shutil.rmtree(folder / "fresh")


# ------------------------------------------------------------------------------------------------------- what is taken


def test_each_file_is_taken_once(corpus):
    with watching(corpus) as watcher:
        watcher.go_round()
        assert read_log(str(corpus / "out")).newest == 0  # nothing has changed
        write_file(corpus, "en/e.jsonl", make_texts("e", 5))
        watcher.go_round()
        watcher.go_round()
        assert newest(corpus).why == dataclasses.replace(REASON, new=1)
        write_file(corpus, "en/e.jsonl", make_texts("other", 6))  # its documents are replaced
        write_file(corpus, "mixed/f.jsonl", make_texts("f", 6), "de")
        watcher.go_round()
        assert newest(corpus).why == dataclasses.replace(REASON, new=1, changed=1)
    require_fresh(corpus)
    assert not (corpus / "out" / "_attempts").exists()
    with watching(corpus) as watcher:  # a second run finds nothing to do
        watcher.go_round()
    assert newest(corpus).number == 2


def test_a_look_that_finds_nothing_leaves_no_garbage(corpus, monkeypatch):
    """A watcher may find nothing for months."""
    left = []

    class Cycle:
        def __init__(self):
            self.itself = self

    def look(watcher):
        found = seen(watcher)
        left.append(weakref.ref(Cycle()))
        return found

    seen = service.Service._look
    monkeypatch.setattr(service.Service, "_look", look)
    with watching(corpus) as watcher:
        service.gc.disable()
        try:
            watcher.go_round()
            assert [one() for one in left] == [None]
        finally:
            service.gc.enable()


def test_an_output_begins_without_documents(corpus):
    shutil.move(corpus / "out", corpus / "tokenizer")
    shutil.move(corpus / "en", corpus / "later")
    shutil.rmtree(corpus / "mixed")
    with pytest.raises(ConfigError, match=r"holds no finished build.*--tokenizer"), watching(corpus):
        pass
    with watching(corpus, corpus / "tokenizer", count=True) as watcher:
        watcher.go_round()
        assert newest(corpus).totals.records.documents == 0
        shutil.move(corpus / "later", corpus / "en")
        watcher.go_round()
        write_file(corpus, "mixed/c.jsonl", make_texts("c", 9), "de")
        watcher.go_round()
    with watching(corpus, corpus / "tokenizer") as watcher:  # goes on counting, as it began
        write_file(corpus, "mixed/d.jsonl", make_texts("d", 9), "fr")
        watcher.go_round()
    assert newest(corpus).number == 3
    tables = [package.open_counts(corpus / "out", lang) for lang in ("en", "de", "fr")]
    assert len(package.learn_bpe(pa.concat_tables(tables), 270)) == 14  # counts are ready for learning
    done = tokcore("learn", corpus / "out", "--set=learn.vocab_size=270", "--json")
    assert done.returncode == 0, done.stderr
    (learned,) = json.loads(done.stdout)
    assert (learned["vocab_size"], learned["is_new"]) == (270, True)
    require_fresh(corpus)


def test_counts_cannot_begin_later(corpus):
    shutil.move(corpus / "out", corpus / "tokenizer")
    with watching(corpus, corpus / "tokenizer") as watcher:
        watcher.go_round()
    with pytest.raises(ConfigError, match="begun without it"), watching(corpus, corpus / "tokenizer", count=True):
        pass


def test_a_file_that_is_being_written_waits(corpus):
    with watching(corpus, settle_seconds=Decimal("0.3")) as watcher:
        for number in range(1, 4):
            write_file(corpus, "en/e.jsonl", make_texts("e", number))
            watcher.go_round()
            assert newest(corpus).root == read_log(str(corpus / "out")).build.root
        time.sleep(0.35)
        watcher.go_round()
    assert newest(corpus).why.new == 1
    require_fresh(corpus)


def test_markers_say_which_files_are_done(corpus):
    with watching(corpus, marker="*.done") as watcher:
        for name in ("e", "f"):
            write_file(corpus, f"en/{name}.jsonl", make_texts(name, 3))
        (corpus / "en" / "f.jsonl.done").touch()
        watcher.go_round()
        assert newest(corpus).totals.files == 5
        (corpus / "en" / "e.jsonl.done").touch()
        watcher.go_round()
    require_fresh(corpus)


@pytest.mark.parametrize("vanished", ["keep", "remove", "fail"])
def test_files_that_vanish(corpus, vanished):
    text = (corpus / "build.toml").read_text()
    (corpus / "build.toml").write_text(f'{text}\n[update]\nvanished = "{vanished}"\n')
    with watching(corpus) as watcher:
        (corpus / "en" / "a.jsonl").unlink()
        watcher.go_round()
        assert read_log(str(corpus / "out")).newest == (vanished == "remove")
        for path in [*corpus.glob("en/*"), *corpus.glob("mixed/*")]:  # as if a disk were not mounted
            path.unlink()
        watcher.go_round()
        assert read_log(str(corpus / "out")).newest == (vanished == "remove")
        assert ("the sources are empty" in said(watcher)) == (vanished == "remove")


def test_a_file_that_fails_is_left_alone_and_stops_no_other(corpus):
    with watching(corpus, tries=2) as watcher:
        for number in range(4):
            write_file(corpus, f"en/good{number}.jsonl", make_texts("e", 3))
        (corpus / "en" / "bad.jsonl").write_text('{"text": "bro\n')
        (corpus / "en" / "huh.jsonl.unknown").touch()
        (corpus / "mixed" / "what.xyz").touch()
        deadline = time.monotonic() + 60
        while not (notes := read_status(str(corpus / "out"))["quarantine"]) and time.monotonic() < deadline:
            watcher.go_round()
        assert [note["uri"] for note in notes] == ["en/bad.jsonl"]
        assert "not JSON" in notes[0]["error"]
        assert newest(corpus).totals.files == 8
        assert "mixed/what.xyz: is not taken: its name does not tell the format" in said(watcher)
        watcher.go_round()
    assert not [path for path in (corpus / "out" / "parts").iterdir() if not (path / "manifest.json").exists()]
    assert gc(str(corpus / "out"), "0").removed == ()  # the note is a person's to remove
    with watching(corpus, tries=2) as watcher:  # a restart remembers
        watcher.go_round()
        assert "bad.jsonl" not in said(watcher)
        write_file(corpus, "en/bad.jsonl", make_texts("bad", 2))
        watcher.go_round()
        assert newest(corpus).totals.files == 9
        assert read_status(str(corpus / "out"))["quarantine"] == []
    (corpus / "mixed" / "what.xyz").unlink()
    require_fresh(corpus)


def test_a_bad_version_of_a_file_does_not_hold_up_its_part(corpus):
    with watching(corpus, tries=1) as watcher:
        (corpus / "en" / "a.jsonl").write_text('{"text": "bro\n')
        watcher.go_round()
        assert [note["uri"] for note in read_status(str(corpus / "out"))["quarantine"]] == ["en/a.jsonl"]
        write_file(corpus, "en/b.jsonl", make_texts("new", 3))  # of the same part, so what was in a.jsonl goes
        watcher.go_round()
        assert newest(corpus).why == dataclasses.replace(REASON, changed=1, vanished=1, read_again=2)
    assert verify(str(corpus / "out"), decode=None, base=str(corpus)).problems == ()


def test_a_change_that_cannot_be_followed_waits_and_stops_no_other(corpus):
    with watching(corpus) as watcher:
        for name in ("x", "y"):
            write_file(corpus, f"en/{name}.jsonl", make_texts(name, 1))  # in one run
        watcher.go_round()
        watcher.go_round()
        assert newest(corpus).why == dataclasses.replace(REASON, new=2)
        kept = (corpus / "en" / "x.jsonl").read_bytes(), (corpus / "en" / "x.jsonl").stat().st_mtime_ns
        (corpus / "en" / "x.jsonl").unlink()  # its documents are kept, in a run with y.jsonl
        write_file(corpus, "en/y.jsonl", make_texts("other", 4))
        write_file(corpus, "en/z.jsonl", make_texts("z", 3))
        watcher.go_round()
        watcher.go_round()
        assert newest(corpus).why == dataclasses.replace(REASON, new=1)
        assert said(watcher).count("en/x.jsonl: vanished, and is read with en/y.jsonl") == 1
        (corpus / "en" / "x.jsonl").write_bytes(kept[0])
        os.utime(corpus / "en" / "x.jsonl", ns=(kept[1], kept[1]))
        watcher.go_round()
        assert newest(corpus).number == 3
    require_fresh(corpus)


def test_what_vanished_and_is_kept_stops_no_change_elsewhere_in_its_part(corpus):
    with watching(corpus) as watcher:
        (corpus / "en" / "a.jsonl").unlink()
        write_file(corpus, "en/b.jsonl", make_texts("new", 3))
        watcher.go_round()
        watcher.go_round()
        assert newest(corpus).why == dataclasses.replace(REASON, changed=1)
        assert newest(corpus).totals.files == 4


# ------------------------------------------------------------------------------------------------------------- trouble


def test_a_store_in_trouble_is_waited_for(corpus, monkeypatch):
    with watching(corpus) as watcher:
        watcher.go_round()
        write_file(corpus, "en/e.jsonl", make_texts("e", 5))

        def fail(*_, **__):
            raise StageError("s3://bucket: the listing failed")

        with monkeypatch.context() as patch:
            patch.setattr(update_output, "plan_build", fail)
            pauses = [watcher.go_round() for _ in range(4)]
            assert not watcher.show_ready().is_well
        assert pauses == [pytest.approx(0.01 * 2**i) for i in range(4)]
        assert said(watcher).count("the listing failed") == 1  # once for all of them
        watcher.go_round()
        assert watcher.show_ready().is_well
    require_fresh(corpus)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_full_disk_is_no_fault_of_files(corpus, monkeypatch, number):
    with watching(corpus, tries=1) as watcher:
        write_file(corpus, "en/e.jsonl", make_texts("e", 5))

        def fail(self, changes):
            try:
                raise OSError(number, os.strerror(number))
            except OSError as error:
                raise StageError("stage encode: failed") from error

        with monkeypatch.context() as patch:
            patch.setattr(update_output.Update, "make", fail)
            watcher.go_round()
            watcher.go_round()
        assert read_status(str(corpus / "out"))["quarantine"] == []
        watcher.go_round()
        assert newest(corpus).why.new == 1
    require_fresh(corpus)


def test_a_file_that_changes_while_it_is_read_is_nobodys_fault(corpus, monkeypatch):
    """It waits anew; the others of its batch are tried again at once, and none is nearer to quarantine."""
    make = update_output.Update.make
    calls = []

    def overwrite(self, changes):
        if not calls:
            write_file(corpus, "en/e.jsonl", make_texts("changed", 7))
        calls.append(sorted(changes.new))
        return make(self, changes)

    monkeypatch.setattr(update_output.Update, "make", overwrite)
    with watching(corpus, tries=1) as watcher:
        for name in "efg":
            write_file(corpus, f"en/{name}.jsonl", make_texts(name, 5))
        while read_status(str(corpus / "out"))["totals"]["files"] < 6:
            watcher.go_round()
        assert said(watcher).count("1 of the 3 files of a batch changed while they were read") == 1
    assert calls[0] == ["en/e.jsonl", "en/f.jsonl", "en/g.jsonl"]
    assert read_status(str(corpus / "out"))["quarantine"] == []
    require_fresh(corpus)


def test_a_file_that_changes_while_it_is_read_again_is_nobodys_fault(corpus, monkeypatch):
    """It is none of the batch, but is read again with a file of its part."""
    make = update_output.Update.make
    calls = []

    def overwrite(self, changes):
        if not calls:
            write_file(corpus, "en/f.jsonl", make_texts("changed while it is read", 7))
        calls.append((changes.changed, changes.kept))
        return make(self, changes)

    with watching(corpus, tries=1) as watcher:
        for name in "ef":
            write_file(corpus, f"en/{name}.jsonl", make_texts(name, 5))
        watcher.go_round()
        monkeypatch.setattr(update_output.Update, "make", overwrite)
        watcher._update.takes_over = False  # as if both were of one work item
        write_file(corpus, "en/e.jsonl", make_texts("changed", 6))
        while newest(corpus).number < 2:
            watcher.go_round()
        assert said(watcher).count("1 of the 2 files of a batch changed while they were read") == 1
        assert "failed" not in said(watcher)
    assert calls[0] == (["en/e.jsonl"], ["en/f.jsonl"])
    assert read_status(str(corpus / "out"))["quarantine"] == []
    require_fresh(corpus)


def make_batch(watcher, corpus, name):
    """Let a watcher read a new file; the processes that work for it then."""
    write_file(corpus, f"en/{name}.jsonl", make_texts(name, 5))
    watcher.go_round()
    return watcher._workers.start().process_ids


def test_workers_stay_from_batch_to_batch_unless_one_dies(corpus, monkeypatch):
    """Each start costs as much as a small batch."""
    with watching(corpus, options=RunOptions(1), poll_seconds=Decimal(1), tries=100) as watcher:
        first = make_batch(watcher, corpus, "e")
        assert make_batch(watcher, corpus, "f") == first
        with monkeypatch.context() as patch:
            patch.setattr(small_parts, "make_small_part", fail_in_worker)
            assert make_batch(watcher, corpus, "g") == first
            patch.setattr(small_parts, "make_small_part", kill_worker)
            second = make_batch(watcher, corpus, "h")
        assert second != first
        assert not any(psutil.pid_exists(pid) for pid in first)
        while watcher._waiting.count()[0]:
            watcher.go_round()
        assert make_batch(watcher, corpus, "i") == second
    assert not any(psutil.pid_exists(pid) for pid in second)
    require_fresh(corpus)


def test_workers_end_if_a_part_fails_that_pipelines_make(corpus, monkeypatch):
    """Some may still work for that part."""
    monkeypatch.setattr(small_parts, "MOST_ITEMS", 0)

    def fail(self):
        raise StageError("stage build: failed")

    with watching(corpus, options=RunOptions(1), poll_seconds=Decimal(1), tries=100) as watcher:
        first = make_batch(watcher, corpus, "e")
        assert make_batch(watcher, corpus, "f") == first
        with monkeypatch.context() as patch:
            patch.setattr(Build, "finish", fail)
            second = make_batch(watcher, corpus, "g")
        assert second != first
        assert not any(psutil.pid_exists(pid) for pid in first)
        while newest(corpus).number < 3:
            watcher.go_round()
    assert not any(psutil.pid_exists(pid) for pid in second)
    require_fresh(corpus)


def test_what_a_burst_brings_is_counted_and_waits_in_the_store(corpus, monkeypatch):
    monkeypatch.setattr(service, "MOST_NEW", 3)
    monkeypatch.setattr(waiting_files, "MOST_NEW", 3)
    for number in range(8):
        write_file(corpus, f"en/burst-{number}.jsonl", make_texts(f"burst {number}", 2))
    with watching(corpus, batch_files=2) as watcher:
        watcher._look()
        assert len(watcher._changes) == 3
        assert watcher._describe()["waiting_files"] == 8
        size = sum(path.stat().st_size for path in (corpus / "en").glob("burst-*"))
        assert watcher._describe()["waiting_bytes"] == size
        while read_status(str(corpus / "out"))["totals"]["files"] < 11:
            watcher.go_round()
        assert watcher._describe()["waiting_files"] == 0
    require_fresh(corpus)


def test_another_tokenizer_in_the_output_is_refused(corpus):
    shutil.copytree(corpus / "out", corpus / "other")
    text = (corpus / "build.toml").read_text()
    (corpus / "build.toml").write_text(text.replace("vocab_size = 280", "vocab_size = 281"))
    with pytest.raises(ConfigError, match=r"learn.vocab_size was 280, now 281"), watching(corpus) as watcher:
        watcher.go_round()


def test_a_tokenizer_that_was_exchanged_ends_the_watcher(corpus):
    """Nothing is committed that was encoded with it, and no file is blamed; once it is put back, all goes on."""
    text = (corpus / "build.toml").read_text()
    (corpus / "other.toml").write_text(text.replace("vocab_size = 280", "vocab_size = 270"))
    run(corpus / "other.toml", corpus / "other")
    place = corpus / "out" / "tokenizer" / "tokcore.json"
    kept = place.read_bytes()
    with watching(corpus, tries=1) as watcher:
        write_file(corpus, "en/e.jsonl", make_texts("e", 5))
        place.write_bytes(b"{")
        watcher.go_round()  # damage may be mended: it waits
        assert "tokcore.json" in watcher.show_ready().content.decode()
        shutil.copy(corpus / "other" / "tokenizer" / "tokcore.json", place)
        with pytest.raises(IdentityError, match="is another tokenizer"):
            watcher.go_round()
        with pytest.raises(IdentityError, match="is another tokenizer"):
            update_here(corpus / "build.toml", corpus / "out")
        assert read_status(str(corpus / "out"))["quarantine"] == []
        assert read_log(str(corpus / "out")).newest == 0
        place.write_bytes(kept)
        watcher.go_round()
    require_fresh(corpus)


def test_a_part_of_another_tokenizer_is_never_committed(corpus):
    """Although all that comes before lets it pass."""
    text = (corpus / "build.toml").read_text()
    (corpus / "other.toml").write_text(text.replace("vocab_size = 280", "vocab_size = 270"))
    run(corpus / "other.toml", corpus / "other")
    shutil.copytree(corpus / "other", corpus / "out" / "parts" / "0a1b2c3d4e5f")
    build = find_manifest(str(corpus / "other"), WHOLE)
    log = read_log(str(corpus / "out"))
    with pytest.raises(IdentityError, match="was encoded with another tokenizer"):
        create_commit(log, REASON, [describe_part("parts/0a1b2c3d4e5f", build)], [])
    assert read_log(str(corpus / "out")).newest == 0


def test_an_output_that_was_built_anew_ends_the_watcher(corpus):
    with watching(corpus) as watcher:
        watcher.go_round()
        shutil.move(corpus / "out", corpus / "gone")
        write_file(corpus, "en/e.jsonl", make_texts("e", 5))
        watcher.go_round()  # none is there: one may come back, from a backup
        assert "not there" in watcher.show_ready().content.decode()
        run(corpus / "build.toml", corpus / "out")
        with pytest.raises(IdentityError, match="another build took the place"):
            watcher.go_round()
    assert verify(str(corpus / "out"), decode=None, base=str(corpus)).problems == ()


def test_a_watcher_that_waits_says_what_it_sees(corpus, capsys):
    """Once, and again when it changes."""
    with watching(corpus, batch_files=2, batch_seconds=Decimal(3600)) as watcher:
        watcher.progress = StageProgress()
        for _ in range(2):
            watcher.go_round()
        write_file(corpus, "en/e.jsonl", make_texts("e", 5))
        for _ in range(2):
            watcher.go_round()
        write_file(corpus, "en/f.jsonl", make_texts("f", 5))
        watcher.go_round()
    said = [line for line in capsys.readouterr().err.splitlines() if " held" in line]
    (held,) = re.fullmatch(r"watch: nothing waits, (\d) files held; looks every [\d.]+ s", said[0]).groups()
    assert re.fullmatch(
        rf"watch: 1 change with \d+ bytes wait, {held} files held; a batch is due at 2 files or after 60 min", said[1]
    )
    assert said[2:] == [said[0].replace(f"{held} files", f"{int(held) + 2} files")]


def test_an_output_of_a_later_release_ends_the_watcher(corpus, command):
    """As one that is opened by an older release: said in a line, with an exit code, and nothing is touched."""
    with watching(corpus) as watcher:
        write_file(corpus, "en/e.jsonl", make_texts("e", 5))
        watcher.go_round()
    path = corpus / "out" / "log" / "1.json"
    kept = path.read_bytes()
    process = command()
    wait_for(lambda: "watch: this watcher commits" in lines(corpus))
    path.write_bytes(kept)  # what is known is not read again
    later = kept.replace(b'"format_version":%d' % COMMIT_VERSION, b'"format_version":9')
    assert later != kept
    (corpus / "out" / "log" / "2.json").write_bytes(later)
    assert process.wait(60) == 3
    assert "format_version 9, this release reads" in (corpus / "log").read_text()
    (corpus / "out" / "log" / "2.json").unlink()
    with watching(corpus) as watcher:
        watcher.go_round()
    require_fresh(corpus)


def test_a_clock_that_jumps_changes_nothing(corpus, monkeypatch):
    """No decision is taken by the time of day, of this host, another one or a file."""
    really, jump = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: really() + jump[0])
    with watching(corpus, lease_seconds=Decimal(30)) as second, watching(corpus, settle_seconds=Decimal(1)) as first:
        first.go_round()
        for number, jump[0] in enumerate((86400.0, -86400.0, 10 * 365 * 86400.0)):
            path = write_file(corpus, f"en/e{number}.jsonl", make_texts("e", 3 + number))
            os.utime(path, (really() + jump[0], really() + jump[0]))
            first.go_round()
            second.go_round()
            assert read_log(str(corpus / "out")).newest == number  # not settled yet, and the first has the turn
            time.sleep(1.05)
            first.go_round()
            assert read_log(str(corpus / "out")).newest == number + 1
            assert read_status(str(corpus / "out"))["watchers"][0]["role"] == "commits"
            assert "last sign" in tokcore("status", corpus / "out").stdout
    require_fresh(corpus)


def test_commits_that_are_gone(corpus):
    with watching(corpus) as watcher:
        for name in ("e", "f"):
            write_file(corpus, f"en/{name}.jsonl", make_texts(name, 3))
            watcher.go_round()
        kept = (corpus / "out/log/1.json").read_bytes()
        (corpus / "out/log/2.json").unlink()  # the newest: its part is found, and committed again
        watcher.go_round()
        assert read_log(str(corpus / "out")).newest == 2
        (corpus / "out/log/1.json").unlink()
        write_file(corpus, "en/g.jsonl", make_texts("g", 3))
        watcher.go_round()
        assert "log/1.json is missing, and later commits are there" in said(watcher)
        assert read_status(str(corpus / "out"))["gap"] == 1
        (corpus / "out/log/1.json").write_bytes(kept)
        watcher.go_round()
    require_fresh(corpus)


# ------------------------------------------------------------------------------------------------------------ watchers


def test_one_watcher_commits_and_another_one_takes_over(corpus):
    with watching(corpus) as second:
        with watching(corpus) as first:
            first.go_round()
            write_file(corpus, "en/e.jsonl", make_texts("e", 5))
            second.go_round()
            assert "stands by" in said(second)
            assert newest(corpus) == read_log(str(corpus / "out")).build
            assert [one["role"] for one in read_status(str(corpus / "out"))["watchers"]] == ["commits", "stands by"]
            first.go_round()
            assert newest(corpus).number == 1
        write_file(corpus, "en/f.jsonl", make_texts("f", 5))
        second.go_round()  # at once: the first has said goodbye
        assert newest(corpus).number == 2
    require_fresh(corpus)
    assert not (corpus / "out" / "_attempts").exists()


def test_a_lost_watcher_is_waited_for_a_lease_long(corpus):
    with Driver(corpus / "log", "watch", corpus / "build.toml"):  # killed at the end
        wait_for(lambda: [one for one in read_status(str(corpus / "out"))["watchers"] if one["role"] == "commits"])
    with watching(corpus, lease_seconds=Decimal(1)) as watcher:
        write_file(corpus, "en/e.jsonl", make_texts("e", 5))
        watcher.go_round()
        assert newest(corpus) == read_log(str(corpus / "out")).build
        time.sleep(1.1)
        watcher.go_round()
        assert newest(corpus).number == 1
        watcher.go_round()
        assert [one["role"] for one in read_status(str(corpus / "out"))["watchers"]] == ["commits"]
    assert not (corpus / "out" / "_attempts").exists()
    require_fresh(corpus)


@pytest.mark.parametrize("point", [*crashpoints.WATCHING_POINTS, *crashpoints.UPDATING_POINTS])
def test_a_killed_watcher_loses_and_doubles_nothing(corpus, point):
    write_file(corpus, "en/e.jsonl", make_texts("e", 5))
    killed = tokcore("watch", corpus / "build.toml", env={**os.environ, "TOKCORE_CRASH": f"{point}:1"})
    assert killed.returncode != 0
    with watching(corpus, lease_seconds=Decimal(1)) as watcher:
        watcher.go_round()
        time.sleep(1.1)
        watcher.go_round()
    assert newest(corpus).why == dataclasses.replace(REASON, new=1)
    assert newest(corpus).number == 1
    require_fresh(corpus)


@pytest.mark.parametrize("point", ["count.item", "encode.shard", "stage.published", "build.committed"])
def test_a_killed_worker_loses_and_doubles_nothing(corpus, point, monkeypatch):
    close = Workers.close

    def close_and_mend(workers):
        monkeypatch.delenv("TOKCORE_CRASH", raising=False)  # those that start then are not killed
        close(workers)

    monkeypatch.setattr(Workers, "close", close_and_mend)
    monkeypatch.setenv("TOKCORE_CRASH", f"{point}:1")
    write_file(corpus, "en/e.jsonl", make_texts("e", 5))
    with watching(corpus, options=RunOptions(1), poll_seconds=Decimal(1), tries=100) as watcher:
        while not read_log(str(corpus / "out")).commits:
            watcher.go_round()
    assert "TOKCORE_CRASH" not in os.environ
    assert newest(corpus).why == dataclasses.replace(REASON, new=1)
    require_fresh(corpus)


def test_a_sign_that_is_being_written_is_no_watcher_yet(corpus):
    with watching(corpus) as watcher:
        watcher.go_round()
        sign, *_ = (corpus / "out/_attempts/watch").glob("sign.*")  # two while a new one replaces the last
        (sign.parent / f"{sign.name[:-1]}9").touch()
        assert [one["role"] for one in read_status(str(corpus / "out"))["watchers"]] == ["commits"]


# ---------------------------------------------------------------------------------------------------- command and pages


def wait_for(find, seconds=60):
    deadline = time.monotonic() + seconds
    while not (found := find()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def get(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture
def command(corpus):
    """Starts `tokcore watch` with JSON lines; they are in corpus/log."""
    started = []

    def start(*arguments):
        with (corpus / "log").open("wb") as log, Path(os.devnull).open("wb") as nowhere:
            command = ["watch", str(corpus / "build.toml"), "--log-format", "json", *arguments]
            process = start_command(command, ROOT, os.environ, nowhere.fileno(), log.fileno())
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def lines(corpus) -> list[str]:
    return [json.loads(line)["message"] for line in (corpus / "log").read_text().splitlines()]


def test_it_serves_pages_and_ends_when_told_to(corpus, command):
    process = command("--listen", "127.0.0.1:0")
    (line,) = wait_for(lambda: [line for line in lines(corpus) if "/metrics" in line])
    address = line.split("http://")[1].split()[0]
    wait_for(lambda: get(address, "/readyz") == (200, "commits\n"))
    assert get(address, "/healthz") == (200, "ok\n")
    assert get(address, "/nothing")[0] == 404
    write_file(corpus, "mixed/e.jsonl", make_texts("e", 5), "de")
    expected = {
        "tokcore_commits_total 1.0",
        'tokcore_documents_total{language="de"} 5.0',
        'tokcore_files_total{change="new"} 1.0',
        "tokcore_lag_seconds_count 1.0",
        "tokcore_waiting_files 0.0",
        "tokcore_newest_commit 1.0",
        "tokcore_has_turn 1.0",
    }
    # What waits is counted again by the look after the commit.
    wait_for(lambda: expected <= set(get(address, "/metrics")[1].splitlines()))
    wait_for(lambda: "commits; 0 files with 0 bytes wait" in tokcore("status", corpus / "out").stdout)
    shown = tokcore("status", corpus / "out")
    assert "commit 1, 5 files, 47 documents" in shown.stdout
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert lines(corpus)[-1] == "watch: ended, as it was told to; nothing is half done"
    assert tokcore("status", corpus / "out", "--json").returncode == 0
    assert "no watcher" in tokcore("status", corpus / "out").stdout


def test_it_reads_its_build_file_again(corpus, command):
    process = command()
    wait_for(lambda: "watch: this watcher commits" in lines(corpus))
    path = corpus / "build.toml"
    text = path.read_text()
    path.write_text(text.replace("vocab_size = 280", "vocab_size = 290"))
    process.send_signal(signal.SIGHUP)
    (line,) = wait_for(lambda: [line for line in lines(corpus) if "reload refused" in line])
    assert "learn.vocab_size was 280, now 290" in line
    path.write_text(text.replace('files = "en/*.jsonl"', 'files = ["en/*.jsonl", "more/*.jsonl"]'))
    process.send_signal(signal.SIGHUP)
    wait_for(lambda: [line for line in lines(corpus) if "is read again" in line])
    write_file(corpus, "more/e.jsonl", make_texts("e", 5))
    wait_for(lambda: [line for line in lines(corpus) if line.startswith("commit 1: files 1 new")])
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    require_fresh(corpus)


def test_wrong_arguments_are_refused(corpus):
    for arguments, words in (
        (["--slice", "1/2"], "Error: No such option '--slice'."),
        (["--count"], "--count: is for an output that begins with --tokenizer"),
        (["--listen", "nowhere"], "watch.listen = nowhere"),
        (["--set", "watch.poll_seconds=0"], "watch.poll_seconds"),
    ):
        done = tokcore("watch", corpus / "build.toml", *arguments)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr


def test_a_batch_that_does_not_end_in_time_is_cut_short(corpus, command):
    process = command("--set", "watch.drain_seconds=0")
    wait_for(lambda: "watch: this watcher commits" in lines(corpus))
    for number in range(40):
        write_file(corpus, f"en/e{number}.jsonl", make_texts("e", 10))
    wait_for(lambda: (corpus / "out" / "parts").exists())
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) in (0, 130)
    with watching(corpus) as watcher:
        watcher.go_round()
    require_fresh(corpus)


def test_readers_see_what_was_committed(corpus):
    before = len(package.open_shards(corpus / "out", split="all"))
    with watching(corpus) as watcher:
        write_file(corpus, "en/e.jsonl", make_texts("e", 5))
        watcher.go_round()
        assert len(package.open_shards(corpus / "out", split="all")) == before + 5
