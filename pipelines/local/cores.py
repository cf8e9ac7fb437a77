"""The cores that this process may use: in a container these are often fewer than the machine has.

Kubernetes limits a container by a share of time, which no count of cores shows. With a worker for each core of the
machine, all of them would wait most of the time, and memory would be that of many workers.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path

from tokcore_pipelines.local.control_groups import list_groups


def count_cores(root: Path = Path("/")) -> int:
    """The cores on which this process may run, or fewer if a limit of its control groups allows no more time.

    root: where /proc and /sys are.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *map(math.ceil, _list_limits(root))]))


def _list_limits(root: Path) -> Iterator[float]:
    """Cores' worth of time that each control group above this process may take."""
    for group in list_groups("cpu", root):
        if group.is_first:
            told = [group.read("cpu.cfs_quota_us"), group.read("cpu.cfs_period_us")]
        else:
            told = group.read("cpu.max").split()
        with contextlib.suppress(ValueError):  # no limit: "max" or nothing
            quota, period = map(int, told)
            if quota > 0 and period > 0:
                yield quota / period
