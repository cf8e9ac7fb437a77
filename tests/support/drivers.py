"""`tokcore` as a process that runs while a test goes on. It ends with its block, whatever the test does."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from support.builds import ROOT
from support.command_server import start_command

T = TypeVar("T")

# A wait ends when what it waits for is there; a machine with much other work may take minutes.
LIMIT_S = 600.0


class Driver:
    """Use it as a context: the process is killed, if it still runs, when the block ends."""

    def __init__(self, log: Path, *arguments: str | Path) -> None:
        self._log = log
        with log.open("wb") as file, Path(os.devnull).open("wb") as nowhere:  # a pipe that is full would stop it
            self.process = start_command([*map(str, arguments)], ROOT, os.environ, nowhere.fileno(), file.fileno())

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def told(self) -> str:
        """What it has said on stderr so far."""
        return self._log.read_text()

    def describe(self) -> str:
        """For messages: whether it runs, and what it has said."""
        code = self.process.poll()
        return f"the driver {'runs' if code is None else f'ended with exit code {code}'}, and said:\n{self.told}"

    def require_running(self) -> None:
        """Raise AssertionError, with what it said, if it has ended."""
        assert self.process.poll() is None, self.describe()

    def wait_for_line(self, begins: str) -> str:
        """The first whole line of its stderr that begins so."""

        def find() -> str | None:
            has_ended = self.process.poll() is not None
            for line in self.told.splitlines(keepends=True):
                if line.startswith(begins) and line.endswith("\n"):
                    return line
            assert not has_ended, f"no line {begins!r}: {self.describe()}"
            return None

        return wait_for(find, f"line {begins!r}", self.describe)

    def finish(self) -> int:
        """Wait until it ends; its exit code."""
        try:
            return self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end after {LIMIT_S:.0f} s: {self.describe()}") from None


def wait_for(find: Callable[[], T | None], what: str, describe: Callable[[], str], limit_s: float = LIMIT_S) -> T:
    """What find() gives, once it is neither None nor False. find: may raise what should end the wait early."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if found := find():
            return found
        time.sleep(0.1)
    raise AssertionError(f"waited {limit_s:.0f} s for {what}: {describe()}")


@contextlib.contextmanager
def telling(*describe: Callable[[], str]) -> Iterator[None]:
    """Add these descriptions to whatever the block raises, so that a log alone shows the cause."""
    try:
        yield
    except BaseException as error:
        for one in describe:
            error.add_note(one())
        raise
