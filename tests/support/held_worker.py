"""A worker program for engines, whose steps wait while a test holds them: so that a fault hits them in the middle."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Step -> the module and the name by which a worker calls it.
STEPS = {
    "count": ("tokcore_pipelines.work.count_item", "find_or_count_item"),
    "merge": ("tokcore_pipelines.work.combining", "write_range"),
    "encode": ("tokcore_pipelines.work.encode_item", "find_or_encode_item"),
}


def write_worker(path: Path, code: str) -> Path:
    """A program that runs this code of Python, which may import what tests may."""
    tests = Path(__file__).parents[1]
    path.write_text(f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(tests)!r})\n{code}")
    path.chmod(0o755)
    return path


def main(folder: str) -> None:
    """The worker's side: tokcore-worker, with steps that wait."""
    from tokcore_pipelines.run.engines.boot_worker import main as serve

    for step, (module, name) in STEPS.items():
        place = importlib.import_module(module)
        setattr(place, name, _hold(getattr(place, name), step, Path(folder)))
    serve()


def _hold(function: Callable[..., Any], step: str, folder: Path) -> Callable[..., Any]:
    def held(*arguments: Any, **named: Any) -> Any:
        if not _may_pass(step, folder):
            (folder / f"at-{step}.{os.getpid()}.{uuid.uuid4().hex}").touch()
            while (folder / f"hold-{step}").exists():
                time.sleep(0.05)
        return function(*arguments, **named)

    held.__name__ = function.__name__
    return held


def _may_pass(step: str, folder: Path) -> bool:
    try:
        num = int((folder / f"hold-{step}").read_text())
    except FileNotFoundError:
        return True
    for number in range(num):
        with contextlib.suppress(FileExistsError):
            (folder / f"passed-{step}-{number}").touch(exist_ok=False)
            return True
    return False
