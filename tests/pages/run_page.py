"""Runs the examples of a page, from its top to its end, in one folder.

A block of `console` has commands after `$ `, each before what it prints; `...` stands for anything. A block with a
title is a file. A block of `python` runs. What is only to be read is a block of `text`, `sh` or `toml`.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from support.builds import ROOT, tokcore

_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_HOME = "/home/me/work"  # the folder of examples, as pages spell it
# What differs from run to run, or from machine to machine.
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?Z?|(?<![\w.])\d[\d,.]* (?=(s|h|ms|MB/s|MB/s stored)\b)")


class Ran(NamedTuple):
    """A command of a page."""

    command: str
    expected: str
    printed: str
    code: int

    @property
    def is_as_told(self) -> bool:
        told, printed = _TIME.sub("", self.expected), _TIME.sub("", self.printed)
        return doctest.OutputChecker().check_output(told, printed, _OPTIONS)


def list_blocks(page: Path) -> list[tuple[str, str, str]]:
    """The language, the title and the text of each block."""
    return _BLOCK.findall(page.read_text())


def run_page(page: Path, folder: Path) -> Iterator[Ran]:
    """Run all. A block of Python raises what it raises; a command that fails has its exit code."""
    (folder / "deploy").symlink_to(ROOT / "deploy")  # pages begin in a clone
    for language, title, text in list_blocks(page):
        if title:
            (folder / title).parent.mkdir(parents=True, exist_ok=True)
            (folder / title).write_text(text)
        elif language == "python":
            _run([sys.executable, "-c", text], folder, check=True)
        elif language == "console":
            for command, expected in re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                yield _run_command(command.replace("\\\n", " "), expected, folder)


def _run_command(command: str, expected: str, folder: Path) -> Ran:
    words = shlex.split(command, comments=True)
    if words[0] == "tokcore" and not set("|<>;&") & set(command):
        done = tokcore(*words[1:], cwd=folder, env={**os.environ, "COLUMNS": "80"})
    else:
        done = _run(["bash", "-c", command], folder)
    printed = done.stdout + (done.stderr if done.returncode or not done.stdout else "")
    return Ran(command, expected, printed.replace(str(folder.resolve()), _HOME), done.returncode)


def _run(command: list[str], folder: Path, check: bool = False) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "COLUMNS": "80", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done
