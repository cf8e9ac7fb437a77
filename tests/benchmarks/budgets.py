"""Requests and bytes of a large build on S3, against the budget: PYTHONPATH=tests python tests/benchmarks/budgets.py

Builds a corpus of many files in moto's S3 server behind a proxy that counts, and fails if a line of the budget is
broken. The tests keep the same budget with a small corpus (tests/stores/test_budgets.py). Then `tokcore gc` removes
what many killed work items would have left. Prints the peak memory of the driver, too.

    [--files 2000] [--megabytes 1000] [--leftovers 30000] [--workers 2]
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import zstandard
from large_corpus import permutation
from measuring import ROOT, Table, read_peak_mb
from stores.budgets import Line, list_lines
from stores.files import open_system
from stores.servers import Store, start_s3

BUILD = """
version = 1
[build]
output = "out"
[[source]]
lang_field = "lang"
files = "in/*.jsonl"
id = "id"
[plan]
range_bytes = 4_000_000
[learn]
vocab_size = 32768
"""
_COPIES = 40  # whose letters are permuted


@functools.cache
def _make_copy(number: int) -> list[bytes]:
    """JSON lines of the demo's texts without their first bytes, an id's. Each copy has words of its own."""
    table = permutation(number)
    lines = []
    for path in sorted((ROOT / "deploy/demo/data").rglob("*.jsonl.zst")):
        for line in zstandard.open(path).read().splitlines():
            document = {"lang": path.parent.name, **json.loads(line)}
            told = {"lang": document["lang"], "text": document["text"].translate(table)}
            lines.append(f'{document["id"]}", '.encode() + json.dumps(told, ensure_ascii=False).encode()[1:] + b"\n")
    return lines


def make_files(num: int, size_bytes: int) -> Iterator[bytes]:
    """JSON lines, as many files of about this size."""
    lines: list[bytes] = []
    held = made = 0
    for copy in itertools.count():
        for rest in _make_copy(copy % _COPIES):
            lines.append(f'{{"id": "{copy}-'.encode() + rest)
            held += len(lines[-1])
            if held >= size_bytes:
                yield b"".join(lines)
                lines, held, made = [], 0, made + 1
                if made == num:
                    return


def run_and_watch(command: list[str | Path], **options: object) -> tuple[float, float]:
    """(seconds, megabytes of memory that the process itself took at most) of a command; those it starts not counted."""
    began, peak_mb = time.monotonic(), 0.0
    process = subprocess.Popen(list(map(str, command)), cwd=ROOT, **options)  # type: ignore[call-overload]
    while process.poll() is None:
        with contextlib.suppress(OSError, IndexError):  # it has just ended
            peak_mb = max(peak_mb, read_peak_mb(process.pid))
        time.sleep(0.2)
    if process.returncode:
        raise SystemExit(process.returncode)
    return time.monotonic() - began, peak_mb


def tokcore(*arguments: str) -> list[str | Path]:
    """A command line."""
    return [sys.executable, "-m", "tokcore_pipelines.cli", *arguments]


def upload(store: Store, folder: str, num: int, size_bytes: int) -> int:
    """Put a build file and its inputs into a folder of the store; how many bytes of inputs."""
    system, path = open_system(store), folder.partition("://")[2]
    total = 0
    with ThreadPoolExecutor(8) as threads:
        made = enumerate(make_files(num, size_bytes))
        while some := list(itertools.islice(made, 64)):
            list(threads.map(lambda one: system.pipe_file(f"{path}/in/{one[0]:05d}.jsonl", one[1]), some))
            total += sum(len(data) for _, data in some)
    system.pipe_file(f"{path}/build.toml", BUILD.encode())
    return total


def collect(store: Store, num: int) -> list[Line]:
    """Measure gc where a killed build left num files."""
    output, system = f"{store.fresh()}/out", open_system(store)
    names = [f"_attempts/shards-0123/{'done' if i % 3 else 'files'}/{i:05d}.json" for i in range(num)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: system.pipe_file(f"{output.removeprefix('s3://')}/{name}", b"{}"), names))
    store.proxy.reset()
    run_and_watch(tokcore("gc", output, "--older-than", "0"), env=store.variables(), stdout=subprocess.DEVNULL)
    pages = math.ceil(num / 1000)
    asked = store.proxy.count()
    return [
        Line(f"pages of listings, to collect {num:,} leftovers: two listings", asked["ListObjects"], 2 * pages + 4),
        Line(f"requests that remove, for {num:,} leftovers", asked["DeleteObjects"], pages + 2),
        Line("files left", len(system.find(output.removeprefix("s3://"))), 0),
    ]


def main() -> None:
    """Print a table. Exits with 1 if a line of the budget is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--megabytes", type=float, default=1000)
    parser.add_argument("--leftovers", type=int, default=30_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    with start_s3() as store:
        folder = store.fresh()
        size_bytes = upload(store, folder, options.files, int(options.megabytes * 1e6 / options.files))
        store.proxy.reset()
        build = tokcore("build", f"{folder}/build.toml", "--workers", str(options.workers), "--quiet")
        seconds, megabytes = run_and_watch(build, env=store.variables())
        asked = list(store.proxy.requests)
        there = open_system(store).find(f"{folder.partition('://')[2]}/out", detail=True)
        lines = list_lines(asked, {name: int(one["size"]) for name, one in there.items()})
        lines += collect(store, options.leftovers)
    rows = [[line.what, f"{line.found:,.4g}", f"{line.allowed:,.4g}"] for line in lines]
    note = (
        f"{size_bytes / 1e6:,.0f} MB in {options.files:,} files; {len(asked):,} requests; "
        f"{seconds:,.0f} s; the driver took {megabytes:,.0f} MB"
    )
    print(Table("Budget of a build on S3", ["", "found", "allowed"], rows, note).markdown())
    sys.exit(any(line.is_broken for line in lines))


if __name__ == "__main__":
    main()
