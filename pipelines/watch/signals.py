"""What signals ask of a watcher. SIGTERM and Ctrl-C: end, and finish the batch if it ends in time. SIGHUP: read the
build file again.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import NoReturn


class Wishes:
    """Ask is_over and take_reload() between pieces of work; wait() ends early when a signal comes."""

    def __init__(self, drain_s: float) -> None:
        """drain_s: from the wish to end to KeyboardInterrupt in the main thread, which cuts a batch short."""
        self._drain_s = drain_s
        self._over = threading.Event()
        self._woken = threading.Event()
        self._reload = False

    @property
    def is_over(self) -> bool:
        """Whether the watcher is to end."""
        return self._over.is_set()

    def end(self) -> None:
        """Wish that it ends."""
        self._over.set()
        self._woken.set()

    def take_reload(self) -> bool:
        """Whether the build file is to be read again; a wish is granted once."""
        wanted, self._reload = self._reload, False
        self._woken.clear()
        return wanted

    def wake(self) -> None:
        """Have wait() end, although nothing is wished."""
        self._woken.set()

    def wait(self, seconds: float) -> None:
        """Sleep, until a wish comes."""
        if not self.is_over and seconds > 0:
            self._woken.wait(seconds)

    def wait_for_end(self, seconds: float) -> None:
        """Sleep, until it is to end; nothing else ends this."""
        self._over.wait(max(0.0, seconds))

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Hear signals while the block runs; in the main thread alone, as Python has it."""
        handlers = {
            signal.SIGTERM: self._hear_end,
            signal.SIGINT: self._hear_end,
            signal.SIGHUP: self._hear_reload,
            signal.SIGALRM: self._cut_short,
        }
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear_end(self, *_: object) -> None:
        if self.is_over:
            self._cut_short()
        self.end()
        signal.setitimer(signal.ITIMER_REAL, max(self._drain_s, 0.001))

    def _hear_reload(self, *_: object) -> None:
        self._reload = True
        self._woken.set()

    @staticmethod
    def _cut_short(*_: object) -> NoReturn:
        raise KeyboardInterrupt
