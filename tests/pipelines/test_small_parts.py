"""Small parts: one worker makes all of a part, and several workers make parts at a time."""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from types import SimpleNamespace

import pytest
from support.builds import build_file, run, tree
from support.small_parts import kill_worker
from support.updates import SETTINGS, SOURCES, build_fresh, make_texts, require_equal, write_corpus, write_file

from tokcore.errors import StageError
from tokcore_pipelines.history import small_parts
from tokcore_pipelines.history.make_commit import NewPart, PartBuilder
from tokcore_pipelines.history.update_output import Update
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.run_options import RunOptions, parse_slice
from tokcore_pipelines.store import read_ahead
from tokcore_pipelines.store.storage import FileId
from tokcore_schemas.config import load_config


@pytest.fixture
def corpus(tmp_path):
    """A folder with a corpus whose build in out/ is finished, and inputs that have changed since in several parts."""
    write_corpus(tmp_path)
    path = build_file(tmp_path, SOURCES, SETTINGS)
    run(path, tmp_path / "out")
    write_file(tmp_path, "en/e.jsonl", make_texts("e", 5))
    write_file(tmp_path, "en/a.jsonl", make_texts("other", 6))
    return tmp_path


@pytest.fixture
def workers():
    made = Workers(RunOptions(2), small_parts.MODULES)
    yield made
    made.close()


def update(folder, workers=None):
    changed = Update(load_config(str(folder / "build.toml")), RunOptions(2), str(folder / "out"), workers=workers)
    return changed.run(), changed.measured


def test_they_are_the_parts_that_pipelines_make(corpus, workers, monkeypatch):
    other = corpus.parent / "other"
    shutil.copytree(corpus, other)
    commit, measured = update(corpus, workers)
    totals = build_fresh(corpus / "build.toml", corpus / "fresh", corpus / "out")
    require_equal(corpus / "out", corpus / "fresh", totals)
    monkeypatch.setattr(small_parts, "MOST_ITEMS", 0)
    assert update(other, workers) == (commit, measured)
    assert tree(other / "out") == tree(corpus / "out")
    assert update(other, workers) == (None, Counter())
    shutil.rmtree(other)


def test_which_are_small():
    part = NewPart(SimpleNamespace(items=range(16), size_bytes=8 << 20), None)
    assert small_parts.is_small(RunOptions(), part)
    assert not small_parts.is_small(RunOptions(runner=("--runner=FlinkRunner",)), part)
    assert not small_parts.is_small(RunOptions(share=parse_slice("1/2")), part)
    assert not small_parts.is_small(RunOptions(), NewPart(SimpleNamespace(items=range(17), size_bytes=1), None))
    assert not small_parts.is_small(RunOptions(), NewPart(SimpleNamespace(items=range(1), size_bytes=9 << 20), None))


@pytest.mark.parametrize("failure", [None, StageError("it failed")])
def test_a_worker_keeps_no_files_of_a_part(failure, monkeypatch):
    """The next part reads other files, so a worker would grow with each."""
    kept = read_ahead.KeptContents(100)
    monkeypatch.setattr(read_ahead, "kept", kept)
    file = FileId("s3://bucket/file", 4, "etag:1")

    def build(*_arguments):
        kept.add(file, b"four")
        if failure is not None:
            raise failure

    monkeypatch.setattr(PartBuilder, "build", build)
    with pytest.raises(StageError, match="it failed") if failure else contextlib.nullcontext():
        small_parts.make_small_part(None, "out", NewPart(None, None))
    assert kept.find(file) is None


def make_parts(make, sizes, monkeypatch):
    """Call build_parts with parts of these sizes in work items. make(number) stands for the building of a part."""

    def make_one(_config, _output, part):
        return make(part.plan.number), {"made": 1}

    def build_one(_builder, part, _measured):
        return make(part.plan.number)

    monkeypatch.setattr(small_parts, "make_small_part", make_one)
    monkeypatch.setattr(PartBuilder, "build", build_one)
    plans = [SimpleNamespace(number=number, items=range(size), size_bytes=1) for number, size in enumerate(sizes)]
    measured = Counter()
    workers = SimpleNamespace(start=lambda: Started(3))
    parts = [NewPart(plan, None) for plan in plans]
    made = small_parts.build_parts(PartBuilder(None, "out", RunOptions(3), None, workers), parts, measured)
    assert measured == {"made": sum(size <= 16 for size in sizes)}
    return made


class Started:
    """A pool that does what has begun when it is waited for, the newest call first."""

    def __init__(self, workers):
        self._workers, self._begun = workers, []

    @property
    def has_room(self):
        return len(self._begun) < self._workers

    def begin(self, function, arguments, tag):
        self._begun.append((function, arguments, tag))

    def wait(self):
        if not self._begun:
            return None
        function, arguments, tag = self._begun.pop()
        return tag, function(*arguments)


def test_they_are_made_in_workers_before_the_large_ones(monkeypatch):
    order = []

    def make(number):
        order.append(number)
        return f"part {number}"

    assert make_parts(make, [1, 1000, 2, 16], monkeypatch) == [f"part {number}" for number in range(4)]
    assert order == [3, 2, 0, 1], "three have begun at a time"


def test_the_first_failure_is_raised_when_no_other_part_is_being_made(monkeypatch):
    ended = []

    def make(number):
        ended.append(number)
        raise StageError("the first failure" if number == 2 else "another one")

    with pytest.raises(StageError, match="the first failure"):
        make_parts(make, [1, 1, 1, 1], monkeypatch)
    assert ended == [2, 1, 0]  # and the fourth was not begun


def test_after_a_worker_died_others_start(corpus, workers, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(small_parts, "make_small_part", kill_worker)
        with pytest.raises(StageError, match="was killed by SIGKILL"):
            update(corpus, workers)
    commit, _ = update(corpus, workers)
    assert commit.number == 1


def fail_oddly(*_arguments):
    raise LookupError("s3://bucket/x?token=secret1 is odd")


def test_a_defect_is_an_error_of_a_stage(monkeypatch):
    monkeypatch.setattr(PartBuilder, "build", fail_oddly)
    with pytest.raises(StageError, match=r"LookupError: .* is odd") as raised:
        small_parts.make_small_part(None, "out", NewPart(SimpleNamespace(), None))
    assert "secret1" not in str(raised.value)


def test_nothing_unfinished_is_left(corpus, workers):
    update(corpus, workers)
    assert not list((corpus / "out").rglob("_attempts"))
