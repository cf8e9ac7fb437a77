"""What many removed ids cost: PYTHONPATH=tests python tests/benchmarks/tombstones.py

    [--ids 20000000] [--held 100000000] [--megabytes 40] [--rounds 3] [--workers 2]

Builds a corpus, and takes that many ids out of a copy of its output that no document has. Another copy gets a file of
--held tombstones at once; one of them is given back, and another id is taken out. Then that copy and the output follow
the same new files, in turns: their CPU seconds say what looking up costs. Memory is that of the largest process.
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

import numpy as np
from budgets import BUILD, make_files, tokcore
from measuring import Table
from support.builds import ROOT

from tokcore.shards.tombstone_files import Hashes, iterate_blocks, unite
from tokcore.shards.tombstones import hash_names
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.history.make_commit import FileChange, create_commit
from tokcore_pipelines.history.tombstone_changes import write_file
from tokcore_schemas.commit_log import Reason

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
    parser.add_argument("--ids", type=int, default=20_000_000)
    parser.add_argument("--held", type=int, default=100_000_000)
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
    few, many, ids = work / "few", work / "many", work / "ids.txt"
    (few / "in").mkdir(parents=True)
    (few / "build.toml").write_text(BUILD)
    add_files(few / "in", files, 0)
    workers = ("--workers", options.workers)
    measure("build", few / "build.toml", *workers)
    shutil.copytree(few, many)
    with ids.open("w") as file:
        for first in range(0, options.ids, 1_000_000):
            last = min(options.ids, first + 1_000_000)
            file.write("".join(f"removed-{number:09}\n" for number in range(first, last)))
    say = ("--allow-missing", "--base", many, *workers)
    rows = [(f"remove {options.ids:,} ids", *measure("remove", many / "out", "--ids", ids, *say))]
    shutil.rmtree(many)
    shutil.copytree(few, many)
    hold(str(many / "out"), options.held)
    ids.write_text("held\n")
    rows.append(("restore one", *measure("restore", many / "out", "--ids", ids)))
    ids.write_text("removed\n")
    rows.append(("remove one", *measure("remove", many / "out", "--ids", ids, *say)))
    print(Table(f"An output with {options.held:,} tombstones, and one with none", HEAD, rows).markdown(), flush=True)
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


def hold(output: str, num: int) -> None:
    """Commit that this many names were removed, which nobody has; `held` is one of them."""
    draw = np.random.default_rng(1)
    each, log = num // 256, read_log(output)
    (held,) = hash_names(log.tombstone_key, "id", ["held"])

    def make(first: int) -> Hashes:
        block = draw.integers(0, 1 << 64, (each, 2), np.uint64)
        block[:, 0] = (block[:, 0] >> np.uint64(8)) | np.uint64(first << 56)
        return block[np.argsort(block[:, 0])]

    blocks = unite(map(make, range(256)), iterate_blocks([held]))
    file = write_file(output, blocks)
    assert file is not None
    create_commit(log, Reason("remove"), (), (), files=FileChange((file,)))


def add_files(folder: Path, files: Iterator[bytes], number: int) -> None:
    """Add the files of a round."""
    for place, data in enumerate(itertools.islice(files, _FILES)):
        (folder / f"{number}-{place:03}.jsonl").write_bytes(data)


if __name__ == "__main__":
    main()
