"""How a command answers: progress while it works, then a report, for people or as JSON, and its exit code."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Any

from tokcore_pipelines.commands.fail import EXIT_PROBLEM
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.say import say_json


def show_progress(name: str) -> AbstractContextManager[object]:
    """Show progress on stderr while the block runs."""
    return StageProgress().stage(name, minor=True)


def answer(report: Any, as_json: bool, tell: Callable[[Any], None], problems: Collection[Any] = ()) -> None:
    """Print a report, a dataclass as JSON or as tell does for people. problems: if there are any, ends with code 1."""
    if as_json:
        say_json(report if isinstance(report, dict | list) else dataclasses.asdict(report))
    else:
        tell(report)
    if problems:
        sys.exit(EXIT_PROBLEM)
