"""Processes that make slices of one build, each a group of processes that a test can kill as one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support.builds import ROOT
from support.command_server import Command, start_command

from tokcore_pipelines.run.slices.presence import SIGNS
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER


class SliceProcess:
    """One host."""

    def __init__(self, start: Callable[[int, int], subprocess.Popen[Any] | Command]) -> None:
        """start: gives the process that leads the group, with these files for what it says on stdout and stderr."""
        self._said = [tempfile.TemporaryFile() for _ in ("out", "err")]  # noqa: SIM115 - end() closes them
        self._process = start(*(file.fileno() for file in self._said))

    def send(self, number: int) -> None:
        """Send a signal to the host's processes, its workers included."""
        os.killpg(self._process.pid, number)

    def wait(self, seconds: float = 300) -> tuple[int, str, str]:
        """Its exit code, and what it said on stdout and on stderr."""
        code = self._process.wait(seconds)
        for file in self._said:
            file.seek(0)
        out, err = (file.read().decode() for file in self._said)
        return code, out, err

    def end(self) -> None:
        """Kill what is left of it."""
        with contextlib.suppress(ProcessLookupError):
            self.send(signal.SIGKILL)
        self._process.wait()
        for file in self._said:
            file.close()


class SliceProcesses:
    """The hosts of one build. Use it as a context: all processes end with the block."""

    def __init__(self, build: str | Path, output: str | Path, of: int, *options: str, lease: float = 2) -> None:
        self.output = str(output)  # of all that they say of each other
        self.command = ["build", str(build), "--output", self.output]
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
        arguments = [*self.command, f"--slice={number}/{self.of}", *self._options, *options]
        env = {**os.environ, **variables}
        return self._start(lambda out, err: start_command(arguments, ROOT, env, out, err))

    def run(self, command: Sequence[str | Path], env: dict[str, str]) -> SliceProcess:
        """Start a slice by this command."""
        words = [str(one) for one in command]
        return self._start(
            lambda out, err: subprocess.Popen(words, stdout=out, stderr=err, cwd=ROOT, env=env, start_new_session=True)
        )

    def _start(self, start: Callable[[int, int], subprocess.Popen[Any] | Command]) -> SliceProcess:
        self._started.append(SliceProcess(start))
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
