"""How many cores a process may use: a limit of its control groups counts, whichever version and wherever it is set."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tokcore_pipelines.local.cores import count_cores
from tokcore_pipelines.local.run_options import RunOptions


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


def make_root(folder: Path, told: str, files: dict[str, str]) -> Path:
    """A folder with what the kernel tells in /proc and /sys. files: below /sys/fs/cgroup."""
    for name, text in {
        "proc/self/cgroup": told,
        **{f"sys/fs/cgroup/{name}": text for name, text in files.items()},
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("told", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n"}, 8),
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "10000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "6400000 100000\n"}, 8),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n"}, 3),
        ("0::/kubepods/pod1/c1\n", {"cpu.max": "400000 100000\n"}, 4),
        ("0::/../../pod1\n", {"cpu.max": "400000 100000\n"}, 4),
        (
            "4:memory:/a\n1:cpu,cpuacct:/a\n",
            {"cpu/a/cpu.cfs_quota_us": "250000\n", "cpu/a/cpu.cfs_period_us": "100000\n"},
            3,
        ),
        ("1:cpu:/a\n0::/\n", {"cpu/a/cpu.cfs_quota_us": "-1\n", "cpu/a/cpu.cfs_period_us": "100000\n"}, 8),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "nonsense\n"}, 8),
        ("0::/\n", {"cpu.max": "0 0\n"}, 8),
    ],
)
def test_a_limit_of_time_counts(tmp_path: Path, told: str, files: dict[str, str], cores: int) -> None:
    assert count_cores(make_root(tmp_path, told, files)) == cores


def test_where_the_kernel_tells_nothing_cores_count(tmp_path: Path) -> None:
    assert count_cores(tmp_path) == 8


def test_it_is_the_default_number_of_workers() -> None:
    assert RunOptions().num_workers == count_cores()
    assert RunOptions(workers=3).num_workers == 3
