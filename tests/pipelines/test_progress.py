"""What a build says while it works: names, rates and time left, on a terminal and in a log; the parts add up."""

from __future__ import annotations

import functools
import io
import itertools
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.builds import build_file, small_corpus

from tokcore import kernel
from tokcore.text.texts import make_texts_from_strings
from tokcore_pipelines.build import count_corpus
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.progress import LogLines, Phase, StageProgress, TerminalLine
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.config import load_config


class Recorded(StageProgress):
    """Shows nothing and keeps every phase."""

    def __init__(self) -> None:
        super().__init__(-1)
        self.phases: list[Phase] = []

    @contextmanager
    def stage(self, *arguments: Any, **settings: Any) -> Iterator[Phase]:
        with super().stage(*arguments, **settings) as phase:
            self.phases.append(phase)
            yield phase


def build_of(folder: Path, output: str) -> Build:
    if not (folder / "en.jsonl.zst").exists():
        small_corpus(folder)
    return Build(load_config(str(build_file(folder))), RunOptions(2), str(folder / output), Recorded())


def check_complete(phases: list[Phase]) -> None:
    """Check that each phase with a total reached exactly that total, and so did the merging that belongs to it."""
    for phase in phases:
        if phase.total:
            assert (phase.name, phase.done) == (phase.name, phase.total)
        if phase.name == "count":
            merging = phase.current(0.0)
            assert merging.name == "merge"
            assert merging.done == merging.total > 0


def test_every_part_of_a_build_has_a_name_and_adds_up(tmp_path):
    build = build_of(tmp_path, "out")
    build.run()
    phases = build.progress.phases
    main = [phase.name for phase in phases if phase.name not in ("commit", "check", "clean")]
    assert main == ["plan", "count", "learn", "weigh", "tokenizer", "encode"]
    assert sum(phase.name == "commit" for phase in phases) == 6  # plan, rejected, counts, tokenizer, shards, build
    check_complete(phases)


def test_a_resumed_stage_counts_what_was_done_before(tmp_path, monkeypatch):
    def fail(place: str) -> None:
        if place == "stage.worked":
            raise KeyboardInterrupt

    monkeypatch.setattr(count_corpus, "reach", fail)
    with pytest.raises(KeyboardInterrupt):
        build_of(tmp_path, "out").count()
    monkeypatch.undo()
    build = build_of(tmp_path, "out")
    build.run()
    check_complete(build.progress.phases)
    assert not any(phase.total is None and phase.name == "count" for phase in build.progress.phases)

    progress = Recorded()
    assert not verify(str(tmp_path / "out"), decode=None, progress=progress).problems
    assert [phase.name for phase in progress.phases] == ["look", "hash", "compare", "read", "tables", "decode"]
    check_complete(progress.phases)


def lines_of(phase: Phase, times: list[tuple[float, int]], capsys: pytest.CaptureFixture[str]) -> list[float]:
    """The times at which a log gets a line, for (seconds since the start, done)."""
    log, found = LogLines(functools.partial(print, file=sys.stderr)), []
    for seconds, done in times:
        phase.advance(done - phase.done)
        log.show(phase, phase.started + seconds)
        log.clear()
        if capsys.readouterr().err:
            found.append(seconds)
    return found


def test_a_log_gets_a_line_every_ten_seconds_or_five_percent_whichever_is_later(capsys):
    fast = [(i / 10, i * 10) for i in range(101)]  # 1,000 in 10 s
    assert lines_of(Phase("count", 1000, "bytes"), fast, capsys) == [1.5]
    slow = [(float(i), i) for i in range(101)]  # 1 % in 10 s: a line for each 5 %
    assert lines_of(Phase("count", 1000, "bytes"), slow, capsys) == [2.0, 52.0]
    slowest = [(float(i), 1) for i in range(130)]  # a line for each minute
    assert lines_of(Phase("learn", 1000, "merges"), slowest, capsys) == [2.0, 62.0, 122.0]
    steady = [(float(i), i * 10) for i in range(40)]  # 1 % per second: a line for each 10 s
    assert lines_of(Phase("count", 1000, "bytes"), steady, capsys) == [2.0, 12.0, 22.0, 32.0]
    unknown = [(float(i), 0) for i in range(25)]
    assert lines_of(Phase("plan", None, "bytes"), unknown, capsys) == [2.0, 12.0, 22.0]
    files = [(i / 10_000, i) for i in range(10_000)]  # not a line for each file
    assert lines_of(Phase("commit", 10_000, "files"), files, capsys) == []


def test_done_rate_and_time_left():
    phase = Phase("learn", 65_000, "merges")
    # What comes before the first merge says nothing about their pace.
    assert phase.described(phase.started + 7) == "0 of 65,000 merges, 7 s"
    phase.advance(13_000)
    assert phase.described(phase.started + 27) == " 20%  13,000 of 65,000 merges, 650/s, 1 min 20 s left"
    # Later ones take less time: the pace is that of the last third.
    phase.advance(30_000)
    assert phase.described(phase.started + 42) == " 66%  43,000 of 65,000 merges, 2,000/s, 11 s left"
    phase = Phase("count", 4_000_000, "bytes")
    phase.advance(1_000_000)
    assert phase.described(phase.started + 1800) == " 25%  1.0 MB of 4.0 MB, 556 bytes/s, 1 h 30 min left"
    phase = Phase("list", None, "files")
    phase.advance(30)
    assert phase.described(phase.started + 3) == "30 files, 10/s"
    phase = Phase("merge", 100, "bytes")
    phase.advance(300)
    assert phase.described(phase.started + 3) == "300 bytes, 100 bytes/s"  # not "100%  300 bytes of 100 bytes"


def test_phases_that_follow_each_other_are_not_silent_together(capsys):
    """None of them takes long enough for a line of its own."""
    log, said = LogLines(functools.partial(print, file=sys.stderr)), []
    start = 0.0
    for number in range(10):
        phase = Phase(f"step {number}", None, "bytes")
        if number == 0:
            start = phase.started
        phase.started = start + number
        for tenth in range(10):
            log.show(phase, phase.started + tenth / 10)
            if capsys.readouterr().err:
                said.append(number + tenth / 10)
    assert said[0] == 1.5
    assert all(later - earlier < 2 for earlier, later in itertools.pairwise([*said, 10.0]))


def test_a_terminal_has_one_line_that_is_taken_back(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setenv("COLUMNS", "60")
    phase = Phase("encode", 1000, "bytes")
    phase.advance(500)
    line = TerminalLine()
    line.clear()
    assert sys.stderr.getvalue() == ""
    line.show(phase, phase.started + 1)
    line.clear()
    shown, taken_back = sys.stderr.getvalue().split("\x1b[K")[:2]
    assert shown.startswith("\rencode   ━━━━━━──────   50%  500 bytes of")
    assert len(shown) <= 60
    assert taken_back == "\r"


def test_the_innermost_stage_is_shown_and_notes_stay_readable(monkeypatch):
    """On a terminal, the progress line of a stage ends before the stage prints its last line."""
    stderr = io.StringIO()
    stderr.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr("tokcore_pipelines.local.progress.TICK_SECONDS", 0.001)
    progress = StageProgress(1)
    with progress.stage("outer"):
        with progress.stage("inner", minor=True):
            while "\rinner" not in stderr.getvalue():
                pass
            progress.note("a note")
        stderr.truncate(0)
        while "\router" not in stderr.getvalue():
            pass
    printed = stderr.getvalue().split("\x1b[K")
    assert printed[-1].startswith("outer  ")
    assert printed[-1].endswith(" s\n")
    assert not any(thread.daemon and "_tick" in thread.name for thread in threading.enumerate())


def test_quiet_is_quiet(capsys):
    progress = StageProgress(-1)
    with progress.stage("count", 10) as phase:
        phase.advance(10)
        progress.note("a note")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("implementation", [kernel.list_available()[0], "reference"])
def test_merges_are_counted_while_they_are_learned(implementation):
    """Another thread sees the number rise from none to all; here the kernel runs without the GIL."""
    chance = np.random.default_rng(1)
    size, most = (60, 40) if implementation == "reference" else (30_000, 4000)
    words = ["".join(map(chr, word)) for word in chance.integers(97, 117, (size, 9)).tolist()]
    rows, counts = make_texts_from_strings(words), np.ones(size, np.uint64)
    for _ in range(5):  # a busy machine may not let this thread run in between
        done, seen = np.zeros(1, np.int64), []
        thread = threading.Thread(target=kernel.learn_merges, args=(rows, counts, most, 1, 0, 1, done))
        with kernel.force(implementation):
            thread.start()
            while thread.is_alive():
                seen.append(int(done[0]))
            thread.join()
        assert seen == sorted(seen)
        assert done[0] == most
        if any(0 < number < most for number in seen):
            return
    pytest.fail(json.dumps(sorted(set(seen))))
