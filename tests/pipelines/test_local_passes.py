"""Passes without Beam: small builds on this machine. Their bytes are those of Beam's, and of the calling thread."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.builds import ON_BEAM, ROOT, build_file, jsonl, run, small_corpus, texts, tree, write

from pipelines.local.pool import WorkerDied, Workers
from pipelines.local.run_options import RunOptions, Slice
from pipelines.slices.share_work import Task
from pipelines.stages import stage_passes
from pipelines.stages.build import Build
from pipelines.stages.local_passes import PassesByWorkers
from pipelines.work import merge_tree
from schemas.config import load_config
from tokcore.errors import LedgerError, StageError

SETTINGS = """
[plan]
range_bytes = 3000
[learn]
vocab_size = 400
[shards]
target_tokens = 500
"""
EVERY_PASS = SETTINGS + '[shuffle]\nseed = 3\n[mixture]\nstrategy = "natural"\n[pack]\nlength = 64\n'


@pytest.mark.parametrize("settings", [SETTINGS, EVERY_PASS], ids=["in order", "shuffled, mixed and packed"])
def test_the_bytes_are_the_same(tmp_path, settings, monkeypatch):
    monkeypatch.setattr(merge_tree, "FAN_IN", 2)  # so that languages have merges of their own
    small_corpus(tmp_path)
    path = build_file(tmp_path, settings=settings)
    chosen = []
    choose = stage_passes.choose_passes

    def note(*arguments):
        chosen.append(type(passes := choose(*arguments)).__name__)
        return passes

    monkeypatch.setattr(stage_passes, "choose_passes", note)
    run(path, tmp_path / "beam", workers=2)
    assert {*chosen} == {"BeamPasses"}
    chosen.clear()
    Build(load_config(str(path)), RunOptions(2), str(tmp_path / "workers")).run()
    assert {*chosen} == {"PassesByWorkers"}
    run(path, tmp_path / "here")
    assert tree(tmp_path / "workers") == tree(tmp_path / "beam") == tree(tmp_path / "here")


def imports_beam(folder: Path, *options: str) -> bool:
    """Whether a process that builds imports Beam."""
    code = (
        "import os, sys\n"
        "from pipelines import cli\n"
        "end = os._exit\n"
        "os._exit = lambda code: end(code or 50 + ('apache_beam' in sys.modules))\n"
        "try:\n"
        "    cli.main()\n"
        "except SystemExit as ended:\n"
        "    os._exit(ended.code or 0)\n"
    )
    command = [sys.executable, "-c", code, "build", "build.toml", "--replace", "plan", *options]
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
    assert done.returncode in (50, 51)
    return done.returncode == 51


def test_a_small_build_does_not_import_beam(tmp_path):
    write(tmp_path / "en.jsonl", jsonl([{"text": text} for text in texts("en", 40)]))
    path = build_file(tmp_path, '[[source]]\nlang = "en"\nfiles = "en.jsonl"\n', SETTINGS.replace("400", "300"))
    assert not imports_beam(tmp_path, "--workers=1")
    assert imports_beam(tmp_path, "--workers=1", "--", *ON_BEAM), "an option of Beam's asks for Beam"
    path.write_text(path.read_text().replace("range_bytes = 3000", "range_bytes = 500"))
    assert imports_beam(tmp_path, "--workers=1"), "a build of many work items uses Beam"


def choose(options: RunOptions, num_pieces: int, size_bytes: int) -> str:
    workers = SimpleNamespace(start=lambda: None)
    return type(stage_passes.choose_passes(options, workers, num_pieces, size_bytes, print)).__name__


def test_what_is_small():
    assert choose(RunOptions(2), 16, 128 << 20) == "PassesByWorkers"
    assert choose(RunOptions(2), 17, 1) == "BeamPasses"
    assert choose(RunOptions(2), 1, (128 << 20) + 1) == "BeamPasses"
    assert choose(RunOptions(2, ON_BEAM), 1, 1) == "BeamPasses"
    assert choose(RunOptions(runner=("--runner=PrismRunner",)), 1, 1) == "BeamPasses"
    assert choose(RunOptions(here=True), 10**6, 1 << 40) == "PassesHere"


def test_slices_share_a_small_build_too():
    run = SimpleNamespace(options=RunOptions(2, share=Slice(1, 2)), session=object(), workers=None, metrics={})
    assert type(stage_passes.find_passes(run, None, 1, 1)).__name__ == "SlicedPasses"


def fail(how: str) -> None:
    """What a worker may come to."""
    if how == "killed":
        os.kill(os.getpid(), 9)
    raise {"corpus": LedgerError("a.jsonl: is damaged"), "bug": ZeroDivisionError("at s3://key:secret@bucket/a")}[how]


def wait_long(ended: Path) -> None:
    time.sleep(60)
    ended.touch()


@pytest.mark.parametrize(
    ("how", "error", "text"),
    [
        ("corpus", LedgerError, r"^a\.jsonl: is damaged"),
        ("bug", StageError, r"^stage count: ZeroDivisionError: at s3://\*\*\*@bucket/a$"),
        ("killed", WorkerDied, r"worker \d \(process \d+\) was killed by SIGKILL .* during fail"),
    ],
)
def test_the_first_failure_ends_a_pass(tmp_path, how, error, text):
    """Without waiting for work that goes on."""
    workers = Workers(RunOptions(2), ())
    ended = tmp_path / "ended"
    try:
        passes = PassesByWorkers(workers)
        with pytest.raises(error, match=text):
            passes._run("count", None, None, [Task("slow", wait_long, (ended,)), Task("bad", fail, (how,))])
        assert not ended.exists()
    finally:
        workers.close()
