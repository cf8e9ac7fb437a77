"""What goes on in a build, on stderr: one line with a bar that changes on a terminal, elsewhere a line now and then.

In a notebook there is a bar below the cell.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, Protocol

from tokcore.look.progress_bar import NotebookBar, is_notebook
from tokcore_pipelines.local.pool import Report
from tokcore_pipelines.local.say import redraw, say, say_json
from tokcore_pipelines.local.terminal import WIDTH, cut_text, format_number, format_size

Unit = Literal["bytes", "merges", "rows", "files", "documents", "tokenizers"]

TICK_SECONDS = 0.2
FIRST_LINE_SECONDS = 1.5  # so long a stage may be silent in a log, and a minor one end without a line
_LINE_SECONDS = 10.0
_LINES = 20  # of a stage whose total is known: one for each 5 %
_QUIET_SECONDS = 60.0  # so long a log may be silent, however little is done
# The time left follows from the pace of the last third of a stage, and of no less than so long: of merges, the first
# take the longest.
_PACE_SECONDS = 10.0

_BAR_WIDTH = 12


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage is, or a line about the build.

    >>> Progress("count", 5_000_000, 20_000_000, "bytes", " 25%  5.0 MB of 20.0 MB, 1.0 MB/s, 15 s left").done
    5000000
    """

    stage: str  # empty: text is a line, as the command prints it; a warning begins with "warning: "
    done: int
    total: int | None  # None or 0 if it is not known
    unit: Unit
    text: str  # done and total, rate and time left, in words


class Phase:
    """One named piece of work and how much of it is done. Thread-safe."""

    def __init__(self, name: str, total: int | None, unit: Unit, watch: Callable[[], int] | None = None) -> None:
        """total: in units; None or 0 if it is not known. watch: tells how much is done, where nothing reports it."""
        self.name = name
        self.total = total
        self.unit = unit
        self.started = time.monotonic()
        self._done = 0
        self._watch = watch
        self._lock = threading.Lock()
        self._merging: Phase | None = None
        # When how much was done, the oldest that the pace follows from first. What comes before the first is no pace.
        self._seen: collections.deque[tuple[float, int]] = collections.deque([(self.started, 0)])

    @property
    def done(self) -> int:
        return self._done if self._watch is None else self._watch()

    def advance(self, amount: int) -> None:
        """Count what was done."""
        with self._lock:
            self._done += amount

    def report(self, what: Report, amount: int) -> None:
        """Count what a worker did. What is to be merged becomes a phase of its own, which current() gives in time."""
        if what == "read":
            self.advance(amount)
            return
        with self._lock:
            if self._merging is None:
                self._merging = Phase("merge", 0, "bytes")
            if what == "runs":
                self._merging.total = (self._merging.total or 0) + amount
        if what == "merged":
            self._merging.advance(amount)

    def current(self, now: float) -> Phase:
        """The phase to show: that of merging once everything is read, else this one."""
        merging = self._merging
        if merging is None or not self.total or self.done < self.total:
            return self
        if (merging.total or 0) <= 0:
            return self
        if not merging.done:
            merging.started = now
        return merging

    def observe(self, now: float) -> None:
        """Remember how much is done now."""
        done = self.done
        if not done:
            self._seen.clear()
        self._seen.append((now, done))
        oldest = now - max(_PACE_SECONDS, (now - self.started) / 3)
        while len(self._seen) > 2 and self._seen[1][0] <= oldest:
            self._seen.popleft()

    def described(self, now: float) -> str:
        """Done and total, rate and time left, as far as they are known."""
        self.observe(now)
        done, total, seconds = self.done, self.total, now - self.started
        amount, unit = (format_size, "") if self.unit == "bytes" else (format_number, f" {self.unit}")
        if not done:
            return f"0 of {amount(total)}{unit}, {seconds:.0f} s" if total else f"{seconds:.0f} s"
        since, before = self._seen[0]
        pace = (done - before) / (now - since) if now > since else 0.0
        rate = f"{amount(round(pace))}/s"
        if not total or done > total:  # work done twice, or that of other hosts: the total says nothing
            return f"{amount(done)}{unit}, {rate}"
        left = f", {_format_duration(max(total - done, 0) / pace)} left" if pace > 0 else ""
        return f"{_compute_share(done, total):4.0%}  {amount(done)} of {amount(total)}{unit}, {rate}{left}"


class StageProgress:
    """Shows the innermost of the stages that are at work, from a thread of its own."""

    def __init__(self, level: int = 0, tell: Callable[[Progress], None] | None = None) -> None:
        """level: -1 shows nothing, 0 progress, 1 also notes. tell: hears of it, and nothing is printed."""
        self.level = level
        self._tell = tell
        self.as_json = False  # whether each line is a JSON object
        self._lock = threading.RLock()
        self._phases: list[Phase] = []
        self._display = self._choose_display()

    def _choose_display(self) -> _Display:
        if self._tell is not None:
            return _Telling(self._tell)
        if is_notebook():
            return _InNotebook()
        return TerminalLine() if sys.stderr.isatty() else LogLines(self._print)

    def note(self, text: str) -> None:
        """Say what a stage found or made, to those who asked for it."""
        if self.level > 0:
            self._say(text)

    def say(self, text: str) -> None:
        """Print a line about the build, unless its user wants none."""
        if self.level >= 0:
            self._say(text)

    @contextmanager
    def stage(
        self,
        name: str,
        total: int | None = None,
        unit: Unit = "bytes",
        *,
        watch: Callable[[], int] | None = None,
        minor: bool = False,
    ) -> Iterator[Phase]:
        """Show a stage while the block runs, and at its end a line with its time. For the rest see Phase.

        minor: without the line, unless it took long.
        """
        phase = Phase(name, total, unit, watch)
        if self.level < 0:
            yield phase
            return
        with self._shown(phase):
            yield phase
        self._display.end(phase, time.monotonic())
        seconds = time.monotonic() - phase.started
        if not minor or seconds >= FIRST_LINE_SECONDS:
            rate = f", {total / 1e6 / seconds:.1f} MB/s stored" if total and unit == "bytes" and seconds > 0 else ""
            self._say(f"{name:<10} {seconds:6.1f} s{rate}")

    @contextmanager
    def _shown(self, phase: Phase) -> Iterator[None]:
        self._phases.append(phase)
        ended = threading.Event()
        ticker = None
        if len(self._phases) == 1:
            ticker = threading.Thread(target=self._tick, args=(ended,), daemon=True)
            ticker.start()
        try:
            yield
        finally:
            with self._lock:
                self._phases.pop()
                self._display.clear()
            if ticker is not None:
                ended.set()
                ticker.join()

    def _tick(self, ended: threading.Event) -> None:
        while not ended.wait(TICK_SECONDS):
            with self._lock:
                if self._phases:
                    now = time.monotonic()
                    phase = self._phases[-1].current(now)
                    phase.observe(now)
                    self._display.show(phase, now)

    def _say(self, text: str) -> None:
        with self._lock:
            self._display.clear()
            self._print(text)

    def _print(self, text: str) -> None:
        if self._tell is not None:
            self._tell(Progress("", 0, None, "bytes", text))
        elif self.as_json:
            now = datetime.datetime.now(datetime.UTC).isoformat("T", "milliseconds")
            say_json({"time": now, "message": text}, indent=None, err=True)
        else:
            say(text, err=True)


class _Display(Protocol):
    def show(self, phase: Phase, now: float) -> None:
        """Say how far a phase is, if it is time to."""

    def clear(self) -> None:
        """Take back what would be in the way of other output."""

    def end(self, phase: Phase, now: float) -> None:
        """Say that a phase is done, where what was said last stays."""


class _Telling:
    """Calls a function."""

    def __init__(self, tell: Callable[[Progress], None]) -> None:
        self._tell = tell

    def show(self, phase: Phase, now: float) -> None:
        self._tell(Progress(phase.name, phase.done, phase.total, phase.unit, phase.described(now)))

    def clear(self) -> None:
        """There is nothing to take back."""

    def end(self, phase: Phase, now: float) -> None:
        """Who hears of it is told by a line."""


class _InNotebook:
    """A bar below the cell, which stays."""

    def __init__(self) -> None:
        self._bar = NotebookBar()

    def show(self, phase: Phase, now: float) -> None:
        share = _compute_share(phase.done, phase.total) if phase.total else None
        self._bar.show(phase.name, share, phase.described(now))

    def clear(self) -> None:
        """Other output goes to another place."""

    def end(self, phase: Phase, now: float) -> None:
        self.show(phase, now)


class TerminalLine:
    """One line with a bar, written again and again."""

    def __init__(self) -> None:
        self._is_shown = False

    def show(self, phase: Phase, now: float) -> None:
        full = round(_compute_share(phase.done, phase.total) * _BAR_WIDTH)
        bar = "━" * full + "─" * (_BAR_WIDTH - full)
        columns = shutil.get_terminal_size((WIDTH, 24)).columns
        redraw(cut_text(f"{phase.name:<8} {bar}  {phase.described(now)}", columns - 1))
        self._is_shown = True

    def clear(self) -> None:
        if self._is_shown:
            redraw("")
            self._is_shown = False

    def end(self, phase: Phase, now: float) -> None:
        """The line that follows says so."""


class LogLines:
    """A line after FIRST_LINE_SECONDS of silence, and then every ten seconds or 5 %, whichever comes later.

    The silence may be that of several phases, one after the other. After a minute without 5 %, there is a line, too.
    """

    def __init__(self, print: Callable[[str], None]) -> None:
        self._print = print
        self._phase: Phase | None = None
        self._line_at = 0.0
        self._line_done: int | None = None  # None before the first line

    def show(self, phase: Phase, now: float) -> None:
        if phase is not self._phase:
            if self._phase is None:
                self._line_at = phase.started
            self._phase, self._line_done = phase, None
        done = phase.done
        if self._line_done is None:
            is_due = now - self._line_at >= FIRST_LINE_SECONDS
        else:
            has_moved = not phase.total or (done - self._line_done) * _LINES >= phase.total
            silent = now - self._line_at
            is_due = silent >= _QUIET_SECONDS or (silent >= _LINE_SECONDS and has_moved)
        if is_due:
            self._line_at, self._line_done = now, done
            self._print(f"{phase.name:<10} {phase.described(now)}")

    def clear(self) -> None:
        """Lines of a log stay."""

    def end(self, phase: Phase, now: float) -> None:
        """The line that follows says so."""


def _compute_share(done: int, total: int | None) -> float:
    return min(done / total, 1.0) if total else 0.0


def _format_duration(seconds: float) -> str:
    minutes = round(seconds) // 60
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {round(seconds) % 60} s" if minutes else f"{seconds:.0f} s"
