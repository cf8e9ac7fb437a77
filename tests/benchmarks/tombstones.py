"""What many removed ids cost: PYTHONPATH=tests python tests/benchmarks/tombstones.py

    [--ids 100000000] [--megabytes 40] [--rounds 3] [--workers 2]

Builds a corpus, takes that many ids out of a copy of its output that no document has, and gives one of them back. Then
the output and the copy follow the same new files, in turns: their CPU seconds say what looking up costs. Memory is that
of the largest process, pages of files that it maps included.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from budgets import BUILD, make_files, tokcore
from measuring import Table
from support.builds import ROOT

_FILES = 20  # of a round


class Cost(NamedTuple):
    """What a command cost, with its workers."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


def measure(*arguments: object) -> Cost:
    """Run a command."""
    began = time.monotonic()
    process = subprocess.Popen(list(map(str, tokcore(*map(str, arguments)))), cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(process.returncode)
    return Cost(time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", type=int, default=100_000_000)
    parser.add_argument("--megabytes", type=float, default=40, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", default="2")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tokcore-tombstones-") as work:
        run(Path(work), options)


def run(work: Path, options: argparse.Namespace) -> None:
    """As main. work: a folder."""
    size_bytes = int(options.megabytes * 1e6 / _FILES)
    files = make_files(_FILES * (options.rounds + 1), size_bytes)
    few, many = work / "few", work / "many"
    (few / "in").mkdir(parents=True)
    (few / "build.toml").write_text(BUILD)
    add_files(few / "in", files, 0)
    workers = ("--workers", options.workers)
    measure("build", few / "build.toml", *workers)
    shutil.copytree(few, many)
    ids = work / "ids.txt"
    with ids.open("w") as file:
        for first in range(0, options.ids, 1_000_000):
            last = min(options.ids, first + 1_000_000)
            file.write("".join(f"removed-{number:09}\n" for number in range(first, last)))
    say = "--base", many, *workers
    removed = measure("remove", many / "out", "--ids", ids, "--allow-missing", *say)
    (work / "back.txt").write_text("removed-000000007\n")
    restored = measure("restore", many / "out", "--ids", work / "back.txt")
    stored = max(path.stat().st_size for path in (many / "out" / "removed").iterdir())
    rows = [("remove", *removed), ("restore one", *restored)]
    print(Table(f"{options.ids:,} ids, {stored / 1e6:,.0f} MB", HEAD, rows).markdown(), flush=True)
    ratios, rows = [], []
    for number in range(1, options.rounds + 1):
        new = [*itertools.islice(files, _FILES)]
        costs = {}
        for folder in (few, many) if number % 2 else (many, few):
            add_files(folder / "in", iter(new), number)
            costs[folder] = measure("update", folder / "build.toml", *workers)
            rows.append((f"update {number}, {'none' if folder is few else 'all'} removed", *costs[folder]))
        ratios.append(costs[few].cpu_seconds / costs[many].cpu_seconds)
    shown = ", ".join(f"{ratio:.3f}" for ratio in ratios)
    note = f"Speed with them, over that without: {statistics.median(ratios):.3f} ({shown})."
    print(Table(f"{options.megabytes:g} MB of new documents", HEAD, rows, note).markdown())


HEAD = ("", "s", "CPU s", "MB at the peak")


def add_files(folder: Path, files: Iterator[bytes], number: int) -> None:
    """Add the files of a round."""
    for place, data in enumerate(itertools.islice(files, _FILES)):
        (folder / f"{number}-{place:03}.jsonl").write_bytes(data)


if __name__ == "__main__":
    main()
