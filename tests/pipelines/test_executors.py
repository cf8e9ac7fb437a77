"""Who does the tasks of a build: processes, the calling thread, Beam's own runner. The bytes are the same."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path
from types import FrameType, SimpleNamespace

import pytest
from support.builds import ROOT, build_file, jsonl, run, small_corpus, texts, tree, write

from tokcore.errors import ConfigError, LedgerError, StageError
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.local import pool as pools
from tokcore_pipelines.local.pool import Pool, WorkerDied, Workers
from tokcore_pipelines.local.run_options import DIRECT, RunOptions, Slice
from tokcore_pipelines.run.choose import choose_executor
from tokcore_pipelines.run.task import Items, Step, do_steps, name_by_number
from tokcore_pipelines.run.workers import ByWorkers
from tokcore_pipelines.work import merge_tree
from tokcore_schemas.config import load_config
from tokcore_schemas.plan import Plan

SETTINGS = """
[plan]
range_bytes = 3000
[learn]
vocab_size = 400
[shards]
target_tokens = 500
"""
EVERY_STEP = SETTINGS + '[shuffle]\nseed = 3\n[mixture]\nstrategy = "natural"\n[pack]\nlength = 64\n'


@pytest.mark.parametrize("settings", [SETTINGS, EVERY_STEP], ids=["in order", "shuffled, mixed and packed"])
def test_the_bytes_are_the_same(tmp_path, settings, monkeypatch):
    monkeypatch.setattr(merge_tree, "FAN_IN", 2)  # so that languages have merges of their own
    small_corpus(tmp_path)
    path = build_file(tmp_path, settings=settings)
    config = load_config(str(path), (f"engine.name={DIRECT}",))
    direct = Build(config, RunOptions(2), str(tmp_path / "direct"))
    direct.run()
    workers = Build(load_config(str(path)), RunOptions(2), str(tmp_path / "workers"))
    workers.run()
    run(path, tmp_path / "here")
    assert tree(tmp_path / "workers") == tree(tmp_path / "direct") == tree(tmp_path / "here")
    assert direct.metrics == {name: {one: n for one, n in of.items() if n} for name, of in workers.metrics.items()}


def test_builds_of_any_size_do_without_beam(tmp_path, monkeypatch):
    """A plan of many work items, too. Only Beam's own options, or an engine, import it."""
    write(tmp_path / "en.jsonl", jsonl([{"text": text} for text in texts("en", 40)]))
    settings = SETTINGS.replace("400", "300").replace("range_bytes = 3000", "range_bytes = 250")
    path = build_file(tmp_path, '[[source]]\nlang = "en"\nfiles = "en.jsonl"\n', settings)
    for name in [
        name
        for name in sys.modules
        if name.startswith(("tokcore_pipelines.run.beam", "tokcore_pipelines.run.engines."))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    assert run(path, tmp_path / "out", workers=2)
    with pytest.raises(ImportError):
        Build(load_config(str(path)), RunOptions(1, ("--direct_running_mode=in_memory",)), str(tmp_path / "other"))


def choose(options: RunOptions, session: object = None) -> str:
    return type(choose_executor(options, SimpleNamespace(), print, session)).__name__


def test_which_executor():
    assert choose(RunOptions(2)) == "ByWorkers"
    assert choose(RunOptions(here=True)) == "Here"
    assert choose(RunOptions(2, share=Slice(1, 2)), object()) == "BySlices"
    assert choose(RunOptions(2, ("--direct_num_workers=3",))) == "OnBeam", "an option of Beam's asks for Beam"
    assert choose(RunOptions(runner=("--runner=PrismRunner",))) == "OnBeam"
    assert choose(RunOptions(3).with_engine(DIRECT, "", ("--runner=FnApiRunner",))) == "OnBeam"
    assert choose(RunOptions(runner=("--direct_num_workers=3",)).with_engine(DIRECT, "", ("--runner=FnApiRunner",)))
    with pytest.raises(ConfigError, match="--detach: the direct engine ends with this command"):
        RunOptions(detach=True).with_engine(DIRECT, "", ("--runner=FnApiRunner",))


def test_tasks_are_made_when_they_are_asked_for():
    """Ten million take no memory before."""
    plan = Plan((), (), range(10**7), ())
    plan_items = SimpleNamespace(items=plan.items, list_largest_first=lambda: iter(plan.items), assignment=str)
    step = Step("count", print, ("job",), Items(plan_items), lambda piece: f"item-{piece}")
    first, second, *_ = (task for task, _ in zip(step.list_tasks(2), range(3), strict=False))
    assert (first.key, first.arguments, first.owner) == ("item-0", ("job", "0"), 1)
    assert (second.key, second.owner) == ("item-1", 2)
    assert len(step.pieces) == 10**7


def test_the_next_step_is_made_from_the_records_of_the_last():
    done: list[str] = []
    told = iter([True, False])

    class Noting:
        def do(self, step, _attempts, _on_progress, _measured):
            done.append(step.name)
            return next(told)

    def steps():
        one = SimpleNamespace(number=1)
        goes_on = yield Step("first", print, (), [one], name_by_number(str))
        assert done == ["first"]
        assert goes_on
        goes_on = yield Step("nothing", print, (), [], str)
        assert not goes_on
        goes_on = yield Step("last", print, (), [one], str)
        return goes_on

    assert do_steps(Noting(), steps(), None) is False
    assert done == ["first", "last"]


def fail(how: str) -> None:
    """What a worker may come to."""
    if how == "killed":
        os.kill(os.getpid(), 9)
    raise {"corpus": LedgerError("a.jsonl: is damaged"), "bug": ZeroDivisionError("at s3://key:secret@bucket/a")}[how]


def wait_or_fail(ended: Path, how: str) -> None:
    if how != "slow":
        fail(how)
    time.sleep(60)
    ended.touch()


@pytest.mark.parametrize(
    ("how", "error", "text"),
    [
        ("corpus", LedgerError, r"^a\.jsonl: is damaged"),
        ("bug", StageError, r"^stage count: ZeroDivisionError: at s3://\*\*\*@bucket/a$"),
        ("killed", WorkerDied, r"worker \d \(process \d+\) was killed by SIGKILL .* during wait_or_fail"),
    ],
)
def test_the_first_failure_ends_a_step(tmp_path, how, error, text):
    """Without waiting for work that goes on."""
    workers = Workers(RunOptions(2), ())
    ended = tmp_path / "ended"
    try:
        step = Step("count", wait_or_fail, (ended,), ["slow", how], str)
        with pytest.raises(error, match=text):
            ByWorkers(workers).do(step, None, None, Counter())
        assert not ended.exists()
    finally:
        workers.close()


def list_frames(frame: FrameType | None) -> list[str]:
    """The functions of the product on a stack, the innermost last."""
    found: list[str] = []
    while frame is not None:
        if os.path.realpath(frame.f_code.co_filename).startswith(str(ROOT / "pipelines")):
            found.insert(0, frame.f_code.co_qualname)
        frame = frame.f_back
    return found


def test_few_frames_lie_between_a_command_and_a_work_item(tmp_path, monkeypatch):
    """From `tokcore build` to the function that tokenizes: what somebody has to read who follows an item."""
    write(tmp_path / "en.jsonl", jsonl([{"text": text} for text in texts("en", 40)]))
    build_file(tmp_path, '[[source]]\nlang = "en"\nfiles = "en.jsonl"\n', SETTINGS.replace("400", "300"))
    seen: list[list[str]] = []

    class Pipe:
        """Notes who writes into a pipe."""

        def __init__(self, pipe, worker) -> None:
            self._pipe, self._worker = pipe, worker

        def write(self, data):
            if self._worker.function.__name__ == "find_or_encode_item":
                seen.append(list_frames(sys._getframe(1)))
            return self._pipe.write(data)

        def close(self) -> None:
            self._pipe.close()

    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # the command sets it, for its workers
    grow = Pool.grow

    def note(pool, workers):
        grow(pool, workers)
        for worker in pool._workers:
            if not isinstance(worker.requests, Pipe):
                worker.requests = Pipe(worker.requests, worker)

    monkeypatch.setattr(pools.Pool, "grow", note)
    from click.testing import CliRunner

    from tokcore_pipelines.cli import commands

    done = CliRunner().invoke(commands, ["build", str(tmp_path / "build.toml"), "--workers=1"])
    assert done.exit_code == 0, done.output
    walk = [*seen[0][seen[0].index("make_run_command.<locals>.command") :], "main", "find_or_encode_item"]
    assert len(walk) <= 10, "\n".join(walk)
