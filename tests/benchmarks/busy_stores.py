"""How much longer a build takes where a store refuses requests: PYTHONPATH=tests python tests/benchmarks/busy_stores.py

Builds in S3, Google's and Azure's stores, on servers of the loopback device that `make servers` installs: first
undisturbed, then with a share of all requests answered "SlowDown". The outputs must be equal. Fails if a build took
more than three times as long.

    [--refused 0.3] [--files 8] [--rounds 1] [--stores s3 gcs azure]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from typing import Any

from measuring import Table
from stores.files import put, tree
from stores.proxy import Faults
from stores.servers import GCSFS_SWITCH, STARTS, Store
from support.builds import jsonl, texts, tokcore

MOST = 3  # times as long
BUILD = """
version = 1
[build]
output = "out"
[[source]]
lang = "en"
files = "*.jsonl"
id = "id"
[plan]
range_bytes = 20000
[learn]
vocab_size = 300
"""


def upload(store: Store, num_files: int) -> str:
    """The URL of a folder with a build file and its inputs, each of which is a work item."""
    folder = store.fresh()
    for number in range(num_files):
        documents = [{"id": f"{number}-{i}", "text": text} for i, text in enumerate(texts("en", 100, number))]
        put(store, f"{folder}/{number:03d}.jsonl", jsonl(documents))
    put(store, f"{folder}/build.toml", BUILD.encode())
    return folder


def build(store: Store, folder: str, output: str) -> tuple[dict[str, Any], float]:
    """What `build --json` prints, and the seconds that the build took."""
    began = time.monotonic()
    done = tokcore(
        *("build", f"{folder}/build.toml", "--output", f"{folder}/{output}", "--workers", "2", "--json"),
        env=store.variables(),
    )
    if done.returncode:
        raise SystemExit(f"{store.kind}: {done.stderr}")
    return json.loads(done.stdout), time.monotonic() - began


def compare(store: Store, options: argparse.Namespace) -> tuple[float, list[object]]:
    """(ratio of wall times, a row of the table)."""
    folder = upload(store, options.files)
    seconds: dict[float, list[float]] = {0.0: [], options.refused: []}
    asked: dict[float, int] = {}
    trees, retries = [], 0
    for number in range(options.rounds):
        for share, times in seconds.items():
            store.proxy.reset()
            store.proxy.faults = Faults({"slow_down": share}, seed=number)
            report, took = build(store, folder, f"out-{share}-{number}")
            asked[share] = len(store.proxy.requests)
            store.proxy.reset()
            times.append(took)
            retries = sum(report["retries"].values())
            trees.append(tree(store, f"{folder}/out-{share}-{number}"))
    if any(one != trees[0] for one in trees):
        raise SystemExit(f"{store.kind}: a disturbed build gave other files")
    alone, disturbed = (statistics.median(times) for times in seconds.values())
    ratio = disturbed / alone
    row = [store.kind, f"{alone:.1f}", f"{disturbed:.1f}", f"{ratio:.2f}", *asked.values(), retries]
    return ratio, row


def main() -> None:
    """Print a table. Exits with 1 if a build took too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--refused", type=float, default=0.3, help="share of the requests")
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--stores", nargs="+", choices=list(STARTS), default=list(STARTS))
    options = parser.parse_args()
    os.environ.setdefault(GCSFS_SWITCH, "false")  # read once, when gcsfs is imported
    ratios, rows = [], []
    for kind in options.stores:
        with STARTS[kind]() as store:
            ratio, row = compare(store, options)
        ratios.append(ratio)
        rows.append(row)
    head = ["store", "undisturbed, s", "disturbed, s", "times as long", "requests", "then", "tried again"]
    print(Table(f"Builds where {options.refused:.0%} of requests are refused", head, rows).markdown())
    sys.exit(max(ratios) > MOST)


if __name__ == "__main__":
    main()
