"""Processes that make slices of one build, each a group of processes that a test can kill as one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from support.builds import ROOT

from pipelines.slices.presence import SIGNS
from pipelines.store import storage, urls
from pipelines.store.attempts import FOLDER


class SliceProcess:
    """One host."""

    def __init__(self, command: Sequence[str | Path], env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [str(one) for one in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=env,
            start_new_session=True,
        )

    def send(self, number: int) -> None:
        """Send a signal to the host's processes, its workers included."""
        os.killpg(self._process.pid, number)

    def wait(self, seconds: float = 300) -> tuple[int, str, str]:
        """Its exit code, and what it said on stdout and on stderr."""
        out, err = self._process.communicate(timeout=seconds)
        return self._process.returncode, out, err

    def end(self) -> None:
        """Kill what is left of it."""
        with contextlib.suppress(ProcessLookupError):
            self.send(signal.SIGKILL)
        self._process.communicate()


class SliceProcesses:
    """The hosts of one build. Use it as a context: all processes end with the block."""

    def __init__(self, build: str | Path, output: str | Path, of: int, *options: str, lease: float = 2) -> None:
        self.build = build
        self.output = str(output)
        self.of = of
        self._options = [f"--lease={lease}", "--workers=1", *options]
        self._started: list[SliceProcess] = []

    def __enter__(self) -> SliceProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._started:
            one.end()

    def start(self, number: int, *options: str, **variables: str) -> SliceProcess:
        """Start a slice as a user would."""
        command = [sys.executable, "-m", "pipelines.cli", "build", self.build, "--output", self.output]
        return self.run(
            [*command, f"--slice={number}/{self.of}", *self._options, *options], {**os.environ, **variables}
        )

    def run(self, command: Sequence[str | Path], env: dict[str, str]) -> SliceProcess:
        """Start a slice by this command."""
        self._started.append(SliceProcess(command, env))
        return self._started[-1]

    def wait_for_sign(self, number: int) -> None:
        """Return when that slice has shown itself in the output."""
        self.wait_until(lambda: any(name.startswith(f"{number}-of-") for name in self.list_working(SIGNS)))

    def list_working(self, folder: str = "") -> list[str]:
        """What is in the folder of unfinished work, or in one below it."""
        return storage.list_tree(urls.join(self.output, FOLDER, folder) if folder else urls.join(self.output, FOLDER))

    @staticmethod
    def wait_until(is_so: Callable[[], bool], seconds: float = 180) -> None:
        end = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < end, "it did not come to that"
            time.sleep(0.02)
