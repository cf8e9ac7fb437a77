"""Measures what each file of tests costs: wall seconds, and CPU seconds with all processes that its tests started.

A plugin of pytest, which tests/conftest.py loads. Writes JSON to the file that TOKCORE_TEST_COSTS names, and nothing
without that variable: {path of a file of tests: {"tests": ..., "wall_s": ..., "cpu_s": ...}}.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.command_server import read_cpu_seconds

VARIABLE = "TOKCORE_TEST_COSTS"
_costs: dict[str, dict[str, float]] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """The fixtures of a file belong to the test that asks first, and are torn down with its last one."""
    wall, cpu = time.perf_counter(), _read_cpu_seconds()
    try:
        return (yield)
    finally:
        _add(item.nodeid.partition("::")[0], 1, time.perf_counter() - wall, _read_cpu_seconds() - cpu)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process of pytest-xdist gives its costs to the one that started it."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["costs"] = _costs
    elif path := os.environ.get(VARIABLE):
        rounded = {
            file: {name: round(value, 2) for name, value in cost.items()} for file, cost in sorted(_costs.items())
        }
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(rounded, indent=1) + "\n")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process of pytest-xdist has ended."""
    for file, cost in getattr(node, "workeroutput", {}).get("costs", {}).items():
        _add(file, **cost)


def _add(file: str, tests: int, wall_s: float, cpu_s: float) -> None:
    sums = _costs.setdefault(file, {"tests": 0, "wall_s": 0.0, "cpu_s": 0.0})
    sums["tests"] += tests
    sums["wall_s"] += wall_s
    sums["cpu_s"] += cpu_s


def _read_cpu_seconds() -> float:
    """Of this process, of its children that have ended, and of the server that runs commands for it."""
    return sum(os.times()[:4]) + read_cpu_seconds()
