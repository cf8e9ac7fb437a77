"""How much more memory this process may take: what takes more is killed by the system, which says nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tokcore_pipelines.local.control_groups import ControlGroup, list_groups, read_text


class Available(NamedTuple):
    """limit: what sets the bound, for messages."""

    size_bytes: int
    limit: str


def find_available(root: Path = Path("/")) -> Available | None:
    """The least of what the machine, the control groups and this process's own limit leave; None if nothing is known.

    Pages of files count as free, as the system gives them up. root: where /proc and /sys are.
    """
    return min(_list_available(root), default=None)


def _list_available(root: Path) -> Iterator[Available]:
    with contextlib.suppress(KeyError, ValueError, IndexError):
        yield Available(_read_table(read_text(root / "proc/meminfo"))["MemAvailable"] * 1024, "this machine")
    for group in list_groups("memory", root):
        with contextlib.suppress(KeyError, ValueError, IndexError):
            yield Available(max(0, _measure(group)), "the control group of this process")
    with contextlib.suppress(ImportError, KeyError, ValueError, IndexError):
        import resource  # not on Windows

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            held = _read_table(read_text(root / "proc/self/status"))["VmSize"] * 1024
            yield Available(max(0, limit - held), "the limit of this process's address space (ulimit -v)")


def _measure(group: ControlGroup) -> int:
    """What the group may still take. Raises ValueError if it has no limit."""
    limit, held = (
        ("memory.limit_in_bytes", "memory.usage_in_bytes") if group.is_first else ("memory.max", "memory.current")
    )
    told = _read_table(group.read("memory.stat"))
    prefix = "total_" if group.is_first else ""
    files = told[f"{prefix}inactive_file"] + told[f"{prefix}active_file"]
    return int(group.read(limit)) - int(group.read(held)) + files


def _read_table(text: str) -> dict[str, int]:
    """Lines of a name and a number: VmSize:  1234 kB."""
    rows = (line.replace(":", " ").split() for line in text.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}
