"""Memory of the workers that shuffle, mix and pack a corpus, as it grows.

    PYTHONPATH=tests python tests/benchmarks/shuffle_memory.py [--megabytes 150] [--times 4] [--workers 2]

Encodes, shuffles, mixes (four epochs of the small languages) and packs two corpora, one --times as large as the other,
with a byte tokenizer: a token for each byte, so a gigabyte of text is as much to sort as 4 GB of text usually are.
Fails if the larger one takes more than 1.25 times the memory in any stage.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import psutil
from budgets import make_files, tokcore
from measuring import ROOT, Table, read_peak_mb

BUILD = """
version = 1
[build]
output = "out"
[[source]]
lang_field = "lang"
files = "in/*.jsonl"
id = "id"
[learn]
model = "byte"
[shards]
formats = ["arrow", "megatron"]
[shuffle]
seed = 7
[mixture]
strategy = "unimax"
max_epochs = 4
[pack]
length = 4096
"""
STAGES = ("count", "learn", "encode", "mix", "pack")
MOST_GROWTH = 1.25


def run_and_watch_workers(command: list[str | Path]) -> tuple[float, float, float]:
    """(seconds, megabytes that the process took at most, megabytes that one of its workers took at most)."""
    began = time.monotonic()
    process = psutil.Popen(list(map(str, command)), cwd=ROOT)
    peaks = {"driver": 0.0, "worker": 0.0}

    def watch() -> None:
        while process.poll() is None:
            try:
                for who, one in [("driver", process), *(("worker", child) for child in process.children(True))]:
                    peaks[who] = max(peaks[who], read_peak_mb(one.pid))
            except (psutil.NoSuchProcess, OSError, IndexError):  # it has just ended
                continue
            time.sleep(0.1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, command)
    watcher.join()
    return time.monotonic() - began, peaks["driver"], peaks["worker"]


def measure(megabytes: float, workers: int) -> dict[str, tuple[float, float, float]]:
    """Of each stage its seconds, and megabytes of the driver and of the largest worker."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        num = max(8, int(megabytes) // 8)
        for number, data in enumerate(make_files(num, int(megabytes * 1e6 / num))):
            (folder / f"in/{number:05d}.jsonl").write_bytes(data)
        (folder / "build.toml").write_text(BUILD)
        found = {}
        for stage in STAGES:
            given = ["--workers", str(workers)] if stage != "learn" else []
            found[stage] = run_and_watch_workers(tokcore(stage, str(folder / "build.toml"), *given, "--quiet"))
        return found


def main() -> int:
    """Print a table; returns exit code 1 if memory grows with the corpus."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=150)
    parser.add_argument("--times", type=int, default=4)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    sizes = [options.megabytes, options.megabytes * options.times]
    small, large = (measure(size, options.workers) for size in sizes)
    head = ["stage", *(f"{what}, {size:,.0f} MB" for size in sizes for what in ("seconds", "driver MB", "worker MB"))]
    rows = [[stage, *(f"{value:,.0f}" for value in (*small[stage], *large[stage]))] for stage in STAGES]
    print(Table(f"Shuffle, mixture and rows with {options.workers} workers", head, rows).markdown(), flush=True)
    grown = [stage for stage in STAGES if large[stage][2] > MOST_GROWTH * small[stage][2]]
    for stage in grown:
        print(f"{stage}: the memory of a worker grew from {small[stage][2]:,.0f} to {large[stage][2]:,.0f} MB")
    return 1 if grown else 0


if __name__ == "__main__":
    raise SystemExit(main())
