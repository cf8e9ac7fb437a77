"""The cores that this process may use: in a container these are often fewer than the machine has.

Kubernetes limits a container by a share of time, which no count of cores shows. With a worker for each core of the
machine, all of them would wait most of the time, and memory would be that of many workers.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath


def count_cores(root: Path = Path("/")) -> int:
    """The cores on which this process may run, or fewer if a limit of its control groups allows no more time.

    root: where /proc and /sys are.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *map(math.ceil, _list_limits(root))]))


def _list_limits(root: Path) -> Iterator[float]:
    """Cores' worth of time that each control group above this process may take, on Linux; of both versions."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
        # In a container the path may be that on the host, and lead nowhere: then the mount is the group itself.
        for folder in (PurePosixPath(path), *PurePosixPath(path).parents):
            group = mount / str(folder).lstrip("/")
            if controllers:
                told = [_read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")]
            else:
                told = _read(group / "cpu.max").split()
            with contextlib.suppress(ValueError):  # no limit: "max" or nothing
                quota, period = map(int, told)
                if quota > 0 and period > 0:
                    yield quota / period


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
