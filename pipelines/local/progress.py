"""Progress of long stages on stderr: rate and time left on a terminal, elsewhere one line per stage."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn


class StageProgress:
    """Counts the stored bytes that workers report. Thread-safe."""

    def __init__(self, level: int = 0) -> None:
        """level: -1 shows nothing, 0 progress, 1 also notes."""
        self.level = level
        self._lock = threading.Lock()
        self._done = 0
        self._bar: Progress | None = None

    def advance(self, num_bytes: int) -> None:
        with self._lock:
            self._done += num_bytes
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], completed=self._done)

    def note(self, text: str) -> None:
        """Say what a stage found or made, to those who asked for it."""
        if self.level > 0:
            print(text, file=sys.stderr)

    @contextmanager
    def stage(self, name: str, total_bytes: int | None = None) -> Iterator[StageProgress]:
        """Show one stage while the block runs. total_bytes: what workers will report in total; None if nothing."""
        started = time.monotonic()
        self._done = 0
        if sys.stderr.isatty() and self.level >= 0:
            columns = [TextColumn(f"{name:<10}"), BarColumn()]
            if total_bytes is not None:
                columns += [DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()]
            with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
                bar.add_task(name, total=total_bytes)
                self._bar = bar
                try:
                    yield self
                finally:
                    self._bar = None
        else:
            yield self
        seconds = time.monotonic() - started
        rate = f", {total_bytes / 1e6 / seconds:.1f} MB/s stored" if total_bytes and seconds > 0 else ""
        if self.level >= 0:
            print(f"{name:<10} {seconds:6.1f} s{rate}", file=sys.stderr)
