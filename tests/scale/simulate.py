"""What builds of 1 TB to 10 PB ask for, and what breaks first, by how many files and languages there are.

    PYTHONPATH=tests python tests/scale/simulate.py [--files 1000000] [--price-per-core-hour 0.05]

The planner, the levels of merges and the number of ranges are the product's own code, run on files and runs that do not
exist. The planner runs on as many files as --files says, in a process of its own, whose time and memory are measured;
larger plans are in proportion. Everything else is arithmetic with the figures at the top of this file.
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

from tokcore.learn.rounds import divide_memory
from tokcore_pipelines.build.learn_together import MAX_BOUND_BITS
from tokcore_pipelines.build.plan_corpus import commit_plan, plan_build
from tokcore_pipelines.build.stage import BuildRun
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.key_ranges import choose_num_ranges
from tokcore_pipelines.work.learn_from_disk import READ_BYTES
from tokcore_pipelines.work.merge_tree import FAN_IN, MergesOfLevel
from tokcore_pipelines.work.plan_parts import count_parts, write_plan_parts
from tokcore_pipelines.work.work_items import MAX_RUN_FILES
from tokcore_schemas.config import parse_config
from tokcore_schemas.plan import InputFile

SIZES = {"1 TB": 10**12, "10 TB": 10**13, "100 TB": 10**14, "10 PB": 10**16}  # of text
LANGUAGES = (1, 161, 2000)  # in each file

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

# Measured on one core; README.md says how.
SECTION_S = 0.3e-3, 0.4e-3  # to write a run of a range, and to read it, however few rows it has
KEY_S = 15e-6, 15e-6  # the same, of each table that an item has rows of
ROW_S = 0.1e-6  # to read a row of a run and write it to another one
TABLE_ROW_S = 0.6e-6  # to read a row of a run and write it to a table
PART_ROW_S = 0.09e-6  # to read a row of a part of a table for the table's hash
TABLE_S = 1.1e-3  # to write a table, however few rows it has
FILE_S = 0.56e-3  # to open an input and count what is in it, beside its text
RECORD_S = 0.06e-3, 8e-6  # in the driver, to read a record of an item, and what it says of each language
COUNT_MB_S, ENCODE_MB_S = 30.0, 25.0  # of text
RUN_BYTES = 15  # stored, for each unique pre-token of a work item
ITEM_BYTES, RANGE_BYTES = (
    130,
    90,
)  # of the driver's memory, for an item and for an input range, while it adds up records
SHARD_BYTES = 200  # of it for a shard, from its record to the manifest, beside what waits in a file
LEARNER_BYTES = 100  # of memory for each unique pre-token, by BPE, if all are in memory

# Learning in rounds: README.md says how these were measured.
ROUND_ROW_S = 1.7e-6  # of a core, for a row in a round: it is encoded twice
ROUND_BYTE_S = 1 / 100e6  # of a host, to write or read what hosts exchange
ROUND_ROW_BYTES = 20  # of a host's disk, for a row that it reads in each round
ROUNDS = 4, 2.0  # with 50 bytes of memory or more for each row; and more for each halving
HOST_CORES = 16

# Unique pre-tokens of real documents (cl100k): megabytes of text, rows in it, and how they grow at its end (Heaps).
CURVES = {
    "en": (33.0, 164_000, 0.52),
    "ru": (7.5, 72_000, 0.59),
    "de": (6.0, 70_000, 0.62),
    "fi": (0.9, 31_000, 0.72),
    "ko": (4.5, 121_000, 0.78),
    "ja": (6.7, 136_000, 0.82),
    "zh": (5.8, 181_000, 0.87),
    "zh-Hant": (2.0, 81_000, 0.95),
    "hi": (1.0, 5_000, 0.50),
}
# Shares of the text. What is not named is of languages like Finnish.
MIXES = {
    "European": {"en": 0.45, "de": 0.25, "ru": 0.2, "fi": 0.1},
    "world": {"en": 0.45, "de": 0.18, "ru": 0.12, "zh": 0.08, "ja": 0.05, "ko": 0.02, "hi": 0.05, "fi": 0.05},
    "a third Chinese": {"en": 0.4, "zh": 0.3, "zh-Hant": 0.03, "de": 0.2, "hi": 0.07},
}
MIX = "world"  # where the table needs one

# Assumed.
FILE_BYTES = 10**7  # of text
TARGET_TOKENS, TEXT_PER_TOKEN = 10**7, 4  # of a shard; bytes
REQUESTS_PER_ITEM = 12  # of a store: the input, runs, rejects, records, shards
PRICE_PER_MILLION_REQUESTS = 2.5  # between that of reading and that of writing

MEMORY = {"driver": 8 * 10**9, "learner": 64 * 10**9}  # of hosts
MAX_DRIVER_S = MAX_TASK_S = 4 * 3600  # in which all other workers may be idle
MAX_LEARN_HOURS = 24
MAX_HOSTS = 64


class Planned(NamedTuple):
    """What planning some files took."""

    files: int
    items: int
    seconds: float  # of a processor
    peak_bytes: int  # beside what the process had
    table_bytes: int

    @property
    def text_bytes(self) -> int:
        """Of all files."""
        return self.files * FILE_BYTES


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


def count_unique(lang: str, text_bytes: float) -> float:
    """Unique pre-tokens in that much text of a language."""
    megabytes, rows, power = CURVES[lang]
    grown = rows * (text_bytes / 1e6 / megabytes) ** power
    return float(min(grown, text_bytes / 8))  # small texts repeat less than the curve says


def count_rows(mix: str, text_bytes: float, num_languages: int = 1) -> float:
    """Unique pre-tokens in that much text. num_languages: as which each share comes, of equal size."""
    parts = max(1, num_languages // len(MIXES[mix]))
    return sum(parts * count_unique(lang, share * text_bytes / parts) for lang, share in MIXES[mix].items())


def list_levels(items: int) -> list[tuple[int, int]]:
    """(run files, merges that read them) of each level of merges, as count_steps makes them."""
    levels, num = [], items
    while num > FAN_IN:
        merges = MergesOfLevel(len(levels), num)
        levels.append((num, len(merges)))
        num = len(merges)
    return levels


class Need(NamedTuple):
    """What a build asks for."""

    items: int
    ranges: int
    merges: int
    references: int  # to runs, in all records together; no process holds them
    run_bytes: int  # stored until tables are there
    merged_rows: float  # read by merges, and once more for tables
    requests: int
    plan_s: float
    plan_bytes: int
    driver_s: float  # to read what workers recorded of counts
    driver_bytes: int  # beside the plan
    shards: int
    shard_bytes: int  # beside the plan, to add up what was encoded, and to write the manifest of the shards
    learner_bytes: int
    rows: float  # that are learned from
    text_hours: float  # of cores, to count and to encode the text
    merge_hours: float  # of cores, for runs, merges and tables
    longest_s: float  # the longest single merge or table

    @property
    def core_hours(self) -> float:
        return self.text_hours + self.merge_hours

    def find_breaks(self, in_rounds: bool = True) -> list[str]:
        """What does not fit, by name. in_rounds: whether rows may be learned from in rounds."""
        held = {"planning": self.plan_bytes, "records of items": self.driver_bytes + self.plan_bytes}
        held["shards"] = self.shard_bytes + self.plan_bytes
        breaks = [name for name, size in held.items() if size > MEMORY["driver"]]
        if self.driver_s > MAX_DRIVER_S:
            breaks.append("time for records")
        if self.longest_s > MAX_TASK_S:
            breaks.append("the largest table")
        if not in_rounds and self.learner_bytes > MEMORY["learner"]:
            breaks.append("learning in memory")
        if in_rounds and choose_hosts(self.rows).hours > MAX_LEARN_HOURS:
            breaks.append("learning in rounds")
        return breaks


def estimate(
    text_bytes: int, planned: Planned, num_languages: int = 161, mix: str = MIX, file_bytes: int = FILE_BYTES
) -> Need:
    """What a build of that much text asks for. planned: a plan that was measured."""
    files = max(1, text_bytes // file_bytes)
    items = max(1, text_bytes // (planned.text_bytes // planned.items), 2 * files // MAX_RUN_FILES)
    ranges = choose_num_ranges(text_bytes // 4)
    item_bytes = text_bytes / items
    # An item ends its shards, one of each split.
    shards = items * (1 + max(1, int(item_bytes / TEXT_PER_TOKEN / TARGET_TOKENS)))
    in_item = count_rows(mix, item_bytes, num_languages)
    run_bytes = int(items * in_item * RUN_BYTES)
    levels = list_levels(items)
    per_file = sum(SECTION_S) * ranges + sum(KEY_S) * num_languages
    seconds = items * (SECTION_S[0] * ranges + KEY_S[0] * num_languages)
    merged_rows, merges = 0.0, 0
    longest_s = 0.0
    for level, (num, number) in enumerate(levels):
        rows = count_rows(mix, item_bytes * FAN_IN**level, num_languages)
        merged_rows += rows * num
        merges += number
        seconds += num * per_file + rows * num * ROW_S
        longest_s = max(longest_s, rows * FAN_IN * ROW_S)
    left = levels[-1][1] if levels else items
    last = count_rows(mix, text_bytes / left, num_languages) * left
    tables = max(num_languages, len(MIXES[mix]))
    total = count_rows(mix, text_bytes, num_languages)
    seconds += left * per_file + last * TABLE_ROW_S + tables * TABLE_S + total * PART_ROW_S
    # A range writes the tables in it, and its parts of those that others share, which one worker reads once.
    largest = max(count_unique(lang, share * text_bytes) for lang, share in MIXES[mix].items())
    longest_s = max(longest_s, last / ranges * TABLE_ROW_S, largest * PART_ROW_S)
    return Need(
        items,
        ranges,
        merges + ranges,
        items * ranges,
        run_bytes,
        merged_rows + last,
        items * REQUESTS_PER_ITEM + 3 * (merges + ranges + tables),
        planned.seconds * files / planned.files,
        planned.peak_bytes * files // planned.files,
        items * (RECORD_S[0] + RECORD_S[1] * num_languages),
        items * ITEM_BYTES + files * RANGE_BYTES,
        shards,
        files * RANGE_BYTES + shards * SHARD_BYTES,
        int(total * LEARNER_BYTES),
        total,
        (text_bytes / 1e6 * (1 / COUNT_MB_S + 1 / ENCODE_MB_S) + 2 * files * FILE_S) / 3600,
        seconds / 3600,
        longest_s,
    )


def find_first_break(
    planned: Planned, num_languages: int = 161, mix: str = MIX, in_rounds: bool = True
) -> tuple[int, list[str]]:
    """(the smallest size of text for which something does not fit, what that is)."""
    size = 10**10
    while not (breaks := estimate(size, planned, num_languages, mix).find_breaks(in_rounds)):
        size = size * 5 // 4
    return size, breaks


class Rounds(NamedTuple):
    """What learning from rows in rounds asks for, by some hosts together."""

    hosts: int
    rounds: int
    disk_bytes: float  # of each host, for its rows
    exchanged_bytes: float  # written in each round, by all hosts: bounds and pieces
    pieces: int  # that the one host has room for that learns from them
    hours: float  # by the clock


def count_rounds(rows: float, memory_bytes: float) -> int:
    """How often all rows are read, as observed: the rows of all hosts, the memory of the one that learns."""
    first, each = ROUNDS
    return math.ceil(first + each * max(0.0, math.log2(50 * rows / memory_bytes)))


def simulate_rounds(rows: float, hosts: int, memory_bytes: int = MEMORY["learner"]) -> Rounds:
    """rows: distinct pre-tokens, dealt to the hosts. Parts, bounds and room are those of a build with slices."""
    room = divide_memory(memory_bytes - READ_BYTES)
    rounds = count_rounds(rows, memory_bytes)
    if hosts == 1:  # from a temporary file; as if all of it were left to one core
        return Rounds(1, rounds, rows * ROUND_ROW_BYTES, 0.0, room.max_pieces, rounds * rows * ROUND_ROW_S / 3600)
    parts = hosts * HOST_CORES
    of_part = divide_memory(memory_bytes // HOST_CORES - READ_BYTES)
    bits = min(MAX_BOUND_BITS, of_part.bound_bits)
    # A part gives at most what it has room for; all parts together, no more than what is left of the rows.
    pieces = min(rows, float(parts * of_part.max_pieces))
    exchanged = (parts + 1) * (8 << bits) + 40 * pieces
    # One host adds the bounds up and learns from the pieces, while the others wait.
    of_one = ((parts + 1) * (8 << bits) + 40 * pieces) * ROUND_BYTE_S + room.max_pieces * ROUND_ROW_S
    seconds = rounds * (rows / parts * ROUND_ROW_S + 2 * HOST_CORES * (8 << bits) * ROUND_BYTE_S + of_one)
    return Rounds(hosts, rounds, rows / hosts * ROUND_ROW_BYTES, exchanged, room.max_pieces, seconds / 3600)


def choose_hosts(rows: float) -> Rounds:
    """Of up to MAX_HOSTS hosts, as many as learn soonest: what all of them give is read by one."""
    return min((simulate_rounds(rows, 1 << i) for i in range(MAX_HOSTS.bit_length())), key=lambda told: told.hours)


def print_rounds() -> None:
    """What learning in rounds asks for, by rows and hosts of 64 GB."""
    table = {}
    for rows in (1e8, 1e9, 1e10, 1e11):
        for hosts in (1, 4, 16, 64):
            told = simulate_rounds(rows, hosts)
            table[f"{rows:.0e} on {hosts}".replace("e+0", "e").replace("e+", "e")] = [
                f"{told.rounds}",
                f"{told.disk_bytes / 1e9:,.0f}",
                f"{told.exchanged_bytes / 1e9:,.1f}",
                f"{told.hours:,.1f}",
            ]
    _print_table(
        ["rows, on hosts of 64 GB", "rounds", "disk of a host, GB", "exchanged in a round, GB", "hours"], table
    )


def main() -> None:
    """Print tables, and what breaks first."""
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
    print_sizes(planned, given.price_per_core_hour)
    print_languages(planned)
    print_files(planned)
    print_learning(planned)
    print_rounds()
    print_cluster(planned, given.price_per_core_hour)


def print_sizes(planned: Planned, price_per_core_hour: float) -> None:
    """What each size asks for."""
    needs = [estimate(size, planned) for size in SIZES.values()]
    _print_table(
        ["161 languages in each file", *SIZES],
        {
            "work items": [f"{need.items:,}" for need in needs],
            "files that hold the plan for engines": [f"{count_parts(need.items):,}" for need in needs],
            "ranges of keys": [f"{need.ranges:,}" for need in needs],
            "merges": [f"{need.merges:,}" for need in needs],
            "references to runs, in records, millions": [f"{need.references / 1e6:,.1f}" for need in needs],
            "runs of items, TB": [f"{need.run_bytes / 1e12:,.1f}" for need in needs],
            "rows that merges read, billions": [f"{need.merged_rows / 1e9:,.1f}" for need in needs],
            "requests to a store, millions": [f"{need.requests / 1e6:,.1f}" for need in needs],
            "planning, minutes": [f"{need.plan_s / 60:,.1f}" for need in needs],
            "driver: planning, GB": [f"{need.plan_bytes / 1e9:,.1f}" for need in needs],
            "driver: records of counts, GB": [f"{need.driver_bytes / 1e9:,.1f}" for need in needs],
            "shards, millions": [f"{need.shards / 1e6:,.1f}" for need in needs],
            "driver: shards and their manifest, GB": [f"{need.shard_bytes / 1e9:,.1f}" for need in needs],
            "driver: reading these, hours": [f"{need.driver_s / 3600:,.1f}" for need in needs],
            "learner, all in memory, GB": [f"{need.learner_bytes / 1e9:,.0f}" for need in needs],
            "rows, billions": [f"{need.rows / 1e9:,.1f}" for need in needs],
            "learning in rounds: hosts": [f"{choose_hosts(need.rows).hosts}" for need in needs],
            "learning in rounds: hours": [f"{choose_hosts(need.rows).hours:,.1f}" for need in needs],
            "core hours for text": [f"{need.text_hours:,.0f}" for need in needs],
            "core hours for runs, merges and tables": [f"{need.merge_hours:,.1f}" for need in needs],
            "the longest merge or table, minutes": [f"{need.longest_s / 60:,.0f}" for need in needs],
            "hours on 1,000 cores": [f"{need.core_hours / 1000:,.2f}" for need in needs],
            "cost of the cores": [f"{need.core_hours * price_per_core_hour:,.0f}" for need in needs],
            "does not fit": [", ".join(need.find_breaks()) or "-" for need in needs],
        },
    )


def print_languages(planned: Planned) -> None:
    """What languages in a file cost, and what breaks first."""
    rows = {}
    for num in LANGUAGES:
        need, (size, breaks) = estimate(10**12, planned, num), find_first_break(planned, num)
        hours = [f"{need.merge_hours:,.1f}", f"{need.merge_hours / need.text_hours:.2f}"]
        rows[f"{num:,}"] = [
            *hours,
            f"{need.driver_s / 60:,.0f}",
            f"{float(f'{size / 1e12:.2g}'):g} TB: {', '.join(breaks)}",
        ]
    _print_table(["languages in a file, 1 TB", "core hours", "of those for text", "records, minutes", "first"], rows)


def print_files(planned: Planned) -> None:
    """What the number of files costs, 1 TB of text."""
    needs = {num: estimate(10**12, planned, file_bytes=10**12 // num) for num in (10**5, 10**6, 10**7, 10**8, 10**9)}
    _print_table(
        ["files of 1 TB", *(f"1e{len(str(num)) - 1}" for num in needs)],
        {
            "work items": [f"{need.items:,}" for need in needs.values()],
            "driver, GB": [f"{(need.plan_bytes + need.driver_bytes) / 1e9:,.2f}" for need in needs.values()],
            "planning, minutes": [f"{need.plan_s / 60:,.1f}" for need in needs.values()],
            "core hours": [f"{need.core_hours:,.0f}" for need in needs.values()],
        },
    )


def print_learning(planned: Planned) -> None:
    """Up to what size all rows fit, by mix of languages."""
    rows = {}
    for mix in MIXES:
        size = 10**9
        while estimate(size, planned, mix=mix).learner_bytes < MEMORY["learner"]:
            size = size * 11 // 10
        rows[mix] = [f"{count_rows(mix, 10**12) / 1e9:.2f}", f"{size / 1e12:.2g}"]
    _print_table(["mix", "rows of 1 TB, billions", "learned in memory of 64 GB up to, TB"], rows)


def print_cluster(planned: Planned, price_per_core_hour: float) -> None:
    """10 TB on 64 workers of one core each."""
    need = estimate(10**13, planned)
    hours = need.core_hours / 64 + (need.plan_s + need.driver_s + need.longest_s) / 3600
    cost = need.core_hours * price_per_core_hour + need.requests / 1e6 * PRICE_PER_MILLION_REQUESTS
    print(f"10 TB on 64 workers: {hours:,.1f} hours without learning; {cost:,.0f} for cores and requests")


def _print_table(head: list[str], rows: dict[str, list[str]]) -> None:
    print("\n| " + " | ".join(head) + " |\n|---|" + "--:|" * (len(head) - 1))
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
