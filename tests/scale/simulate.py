"""What a build of 1 TB, 100 TB or 10 PB asks for, and what breaks first.

    PYTHONPATH=tests python tests/scale/simulate.py [--files 1000000] [--price-per-core-hour 0.05]

The planner and the order of merges are the product's own code, run on files and runs that do not exist. The planner
runs on as many files as --files says, in a process of its own, whose time and memory are measured; larger plans are in
proportion. Everything else is arithmetic with the figures at the top of this file.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from s3fs import S3FileSystem

from tokcore_pipelines.build.plan_corpus import commit_plan, plan_build
from tokcore_pipelines.build.stage import BuildRun
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.merge_tree import FAN_IN, choose_max_runs, merge_down
from tokcore_pipelines.work.plan_parts import count_parts, write_plan_parts
from tokcore_pipelines.work.runs import choose_num_sections
from tokcore_schemas.config import parse_config
from tokcore_schemas.plan import BYTES_PER_PARTITION, MAX_PARTITIONS, InputFile
from tokcore_schemas.refs import RunRef

SIZES = {"1 TB": 10**12, "100 TB": 10**14, "10 PB": 10**16}

_BUILD = """
version = 1
[build]
output = "{output}"
[[source]]
lang_field = "lang"
files = "s3://a-bucket-of-crawls/segments/**/*.jsonl.zst"
[learn]
vocab_size = 65536
"""

# Measured; tests/benchmarks/README.md says how.
LEARNER_BYTES = 106  # of memory for each unique pre-token, by BPE
RUN_BYTES = 15  # stored, for each unique pre-token of a work item
REF_BYTES = 450  # of memory for a RunRef, which the driver holds for each section of each work item
SECTION_S = 1.9e-3  # of a core, to write a section of counts and to read it once, however few rows it has
COUNT_MB_S, ENCODE_MB_S = 30.0, 25.0  # of text on one core

# Assumed.
FILE_BYTES = 10**7  # of text
UNIQUE_IN_64_MB, HEAPS = 420_000, 0.7  # unique pre-tokens, and how they grow with text
LARGEST_SHARE = 0.45  # of the text, that of the largest language; a file has one language, or as many as MIXED
MIXED = 161  # languages of equal size in each file, as crawls have them
REQUESTS_PER_ITEM = 12  # of a store: the input, runs, rejects, records, shards

MEMORY = {"driver": 64 * 10**9, "learner": 256 * 10**9}  # of hosts that are easy to get


class Planned(NamedTuple):
    """What planning some files took."""

    files: int
    items: int
    seconds: float  # of a processor
    peak_bytes: int  # beside what the process had
    table_bytes: int


def make_files(number: int) -> Iterator[InputFile]:
    """Pins as S3 gives them, in the order of names."""
    for i in range(number):
        uri = f"s3://a-bucket-of-crawls/segments/{i // 10_000:06d}/part-{i % 10_000:05d}.jsonl.zst"
        yield InputFile(uri, FILE_BYTES // 4 + i % 1000, f"etag:{i:032x}", 0)


@contextlib.contextmanager
def list_synthetic(number: int) -> Iterator[None]:
    """While the block runs, every bucket of S3 holds these files, and says so in pages of 1,000, as S3 does."""
    files = make_files(number)

    def answer(_: S3FileSystem, method: str, **asked: object) -> dict[str, Any]:
        assert method == "list_objects_v2", method
        page = [
            {
                "Key": file.uri.removeprefix("s3://").partition("/")[2],
                "Size": file.size_bytes,
                "ETag": f'"{file.version.removeprefix("etag:")}"',
                "StorageClass": "STANDARD",
            }
            for file in itertools.islice(files, 1000)
        ]
        return {"Contents": page, "IsTruncated": len(page) == 1000, "NextContinuationToken": "more"}

    missing = mock.Mock(side_effect=FileNotFoundError)
    with mock.patch.object(S3FileSystem, "call_s3", answer), mock.patch.object(S3FileSystem, "info", missing):
        yield


def measure_plan(number: int) -> Planned:
    """List that many files, plan them, and write the plan and the files that engines read, as a build does."""
    before = _read_peak()
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder, list_synthetic(number):
        config = parse_config(_BUILD.format(output=f"{folder}/out"), f"{folder}/build.toml")
        plan = plan_build(config)
        run = BuildRun(config, f"{folder}/out", RunOptions(), StageProgress(-1), Workers(RunOptions(), ()))
        manifest = commit_plan(run, plan)
        write_plan_parts(Attempts(f"{folder}/out", "counts", "0" * 64), plan)
    seconds = time.process_time() - began
    return Planned(number, len(plan.items), seconds, _read_peak() - before, manifest.files[0].size_bytes)


def _read_peak() -> int:
    """The most memory that this process has had; getrusage would begin with that of its parent."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def measure_elsewhere(number: int) -> Planned:
    """As measure_plan, in a process of its own."""
    command = [sys.executable, __file__, "--plan-here", str(number)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Planned(*json.loads(done.stdout))


class Merged(NamedTuple):
    """What the merges of one table and partition took."""

    merges: int
    read_bytes: int
    left: int  # runs


def merge_synthetic(num_runs: int, run_bytes: int, num_partitions: int) -> Merged:
    """Merge that many runs of that size as a build does; what is merged has as many rows as Heaps' law says."""
    merges = read = 0

    def merge(runs: list[RunRef]) -> RunRef:
        nonlocal merges, read
        merges += 1
        read += sum(run.size_bytes for run in runs)
        size = int(sum(run.size_bytes ** (1 / HEAPS) for run in runs) ** HEAPS)
        return RunRef("", 0, f"merge-{merges:09d}", 0, size, "")

    runs = [RunRef("", 0, f"run-{i:09d}", 0, run_bytes, "") for i in range(num_runs)]
    few = merge_down(runs, choose_max_runs(num_partitions), merge)
    return Merged(merges, read, len(few))


def count_unique(text_bytes: float) -> float:
    """Unique pre-tokens in that much text of a language."""
    return UNIQUE_IN_64_MB * (text_bytes / (64 << 20)) ** HEAPS


class Need(NamedTuple):
    """What a build asks for."""

    items: int
    partitions: int
    merges: int
    shuffle_bytes: int  # read by merges
    requests: int
    plan_s: float
    plan_bytes: int
    refs_bytes: int  # memory for the references to runs in one process
    mixed_refs_bytes: int  # the same, with files of MIXED languages
    learner_bytes: int
    core_hours: float
    mixed_core_hours: float  # with files of MIXED languages

    def find_breaks(self) -> list[str]:
        """What does not fit, by name."""
        held = {"planning": self.plan_bytes, "references to runs": max(self.refs_bytes, self.mixed_refs_bytes)}
        breaks = [name for name, size in held.items() if size > MEMORY["driver"]]
        return breaks + (["learning"] if self.learner_bytes > MEMORY["learner"] else [])


def estimate(text_bytes: int, planned: Planned) -> Need:
    """What a build of that much text asks for. planned: a plan that was measured."""
    files = text_bytes // FILE_BYTES
    items = files * planned.items // planned.files
    wanted = -(-text_bytes // 4 // BYTES_PER_PARTITION)
    partitions = min(MAX_PARTITIONS, 1 << (max(1, wanted) - 1).bit_length())
    item_bytes = text_bytes / items
    runs = max(1, int(items * LARGEST_SHARE))
    shown = min(runs, FAN_IN**3)  # merges grow in proportion beyond
    sections = choose_num_sections(int(count_unique(item_bytes)), partitions)
    mixed_sections = MIXED * choose_num_sections(int(count_unique(item_bytes / MIXED)), partitions)
    core_hours = text_bytes / 1e6 * (1 / COUNT_MB_S + 1 / ENCODE_MB_S) / 3600
    merged = merge_synthetic(shown, int(count_unique(item_bytes) * RUN_BYTES / sections), partitions)
    tiers = 1 + max(0.0, math.log(runs / shown, FAN_IN))
    scale = items / shown * sections
    return Need(
        items,
        partitions,
        int(merged.merges * scale),
        int(merged.read_bytes * scale * tiers),
        items * REQUESTS_PER_ITEM + 3 * int(merged.merges * scale),
        planned.seconds * files / planned.files,
        planned.peak_bytes * files // planned.files,
        items * sections * REF_BYTES,
        items * mixed_sections * REF_BYTES,
        int(count_unique(text_bytes * LARGEST_SHARE) / LARGEST_SHARE**HEAPS * LEARNER_BYTES),
        core_hours + items * sections * SECTION_S / 3600,
        core_hours + items * mixed_sections * SECTION_S / 3600,
    )


def find_first_break(planned: Planned) -> tuple[int, list[str]]:
    """(the smallest size of text for which something does not fit, what that is)."""
    size = 10**11
    while not (breaks := estimate(size, planned).find_breaks()):
        size = size * 3 // 2
    return size, breaks


def main() -> None:
    """Print a table, and what breaks first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000_000, help="that are planned and measured")
    parser.add_argument("--price-per-core-hour", type=float, default=0.05, help="in any currency")
    parser.add_argument("--plan-here", type=int, metavar="FILES", help="plan this many files, and print what it took")
    given = parser.parse_args()
    if given.plan_here is not None:
        print(json.dumps(measure_plan(given.plan_here)))
        return
    planned = measure_elsewhere(given.files)
    print(
        f"{planned.files:,} files planned into {planned.items:,} work items in {planned.seconds:.0f} s of a processor "
        f"with {planned.peak_bytes / 1e9:.2f} GB: {2e9 / planned.peak_bytes * planned.files:,.0f} files fit into 2 GB"
    )
    print_table(planned, given.price_per_core_hour)


def print_table(planned: Planned, price_per_core_hour: float) -> None:
    """Print what each size asks for, and what breaks first."""
    print("| | " + " | ".join(SIZES) + " |\n|---|" + "--:|" * len(SIZES))
    needs = [estimate(size, planned) for size in SIZES.values()]
    rows = {
        "work items": [f"{need.items:,}" for need in needs],
        "files that hold the plan for engines": [f"{count_parts(need.items):,}" for need in needs],
        "merges": [f"{need.merges:,}" for need in needs],
        "read by merges, TB": [f"{need.shuffle_bytes / 1e12:,.1f}" for need in needs],
        "requests to a store, millions": [f"{need.requests / 1e6:,.1f}" for need in needs],
        "planning, minutes": [f"{need.plan_s / 60:,.1f}" for need in needs],
        "driver: planning, GB": [f"{need.plan_bytes / 1e9:,.1f}" for need in needs],
        "driver: references to runs, GB": [f"{need.refs_bytes / 1e9:,.1f}" for need in needs],
        f"the same, {MIXED} languages in a file": [f"{need.mixed_refs_bytes / 1e9:,.1f}" for need in needs],
        "learner, GB": [f"{need.learner_bytes / 1e9:,.0f}" for need in needs],
        "core hours": [f"{need.core_hours:,.0f}" for need in needs],
        f"core hours, {MIXED} languages in a file": [f"{need.mixed_core_hours:,.0f}" for need in needs],
        "hours on 1,000 cores": [f"{need.core_hours / 1000:,.2f}" for need in needs],
        "cost of the cores": [f"{need.core_hours * price_per_core_hour:,.0f}" for need in needs],
        "does not fit": [", ".join(need.find_breaks()) or "-" for need in needs],
    }
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(cells) + " |")
    size, breaks = find_first_break(planned)
    print(f"first to break: {', '.join(breaks)}, at {size / 1e12:.2g} TB")


if __name__ == "__main__":
    main()
