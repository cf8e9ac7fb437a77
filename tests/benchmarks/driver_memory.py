"""Memory of the driver of a large build, on disks and on S3: PYTHONPATH=tests python tests/benchmarks/driver_memory.py

The driver is the process that runs the command. Its workers are not counted. Each stage is a command of its own, and so
a process of its own. S3 is moto's server, which holds everything in memory: twice the text, beside what is measured.

    [--files 2000] [--megabytes 2000] [--workers 2] [--where disk s3]
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from budgets import BUILD, make_files, run_and_watch, tokcore, upload
from measuring import Table
from stores.servers import start_s3

STAGES = ("count", "learn", "encode", "build")


def measure(url: str, workers: int, environment: dict[str, str]) -> list[list[object]]:
    """A row for each stage of the build file at a URL: seconds, and megabytes of the driver."""
    rows: list[list[object]] = []
    for stage in STAGES:
        given = [stage, url] + ([] if stage == "learn" else ["--workers", str(workers)])
        seconds, megabytes = run_and_watch(tokcore(*given, "--quiet"), env=environment)
        rows.append([stage, f"{seconds:,.0f}", f"{megabytes:,.0f}"])
    return rows


def main() -> None:
    """Print a table for each place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--megabytes", type=float, default=2000)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--where", nargs="+", choices=["disk", "s3"], default=["disk", "s3"])
    options = parser.parse_args()
    size_bytes = int(options.megabytes * 1e6 / options.files)
    head = ["stage", "seconds", "driver, MB"]
    if "disk" in options.where:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "in").mkdir()
            for number, data in enumerate(make_files(options.files, size_bytes)):
                (Path(folder) / f"in/{number:05d}.jsonl").write_bytes(data)
            (Path(folder) / "build.toml").write_text(BUILD)
            rows = measure(f"{folder}/build.toml", options.workers, dict(os.environ))
            print(Table(f"On a disk, {options.megabytes:,.0f} MB", head, rows).markdown(), flush=True)
    if "s3" in options.where:
        with start_s3() as store:
            folder = store.fresh()
            upload(store, folder, options.files, size_bytes)
            rows = measure(f"{folder}/build.toml", options.workers, store.variables())
            print(Table(f"On S3, {options.megabytes:,.0f} MB", head, rows).markdown())


if __name__ == "__main__":
    main()
