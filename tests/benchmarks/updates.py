"""What changes of an output cost, beside building it again: PYTHONPATH=tests python tests/benchmarks/updates.py

    [--files 2000] [--megabytes 1000] [--range-bytes 4000000] [--workers 2] [--tables shuffle,mixture,pack]
    [--target-tokens 10000000] [--keep-weights] [--only more,less]

Builds a corpus, then makes each change in an output of its own: none, 1 % more files, 1 % fewer, 1 % in new versions,
100 documents taken out that lie side by side, 100 that lie anywhere, and one. With --tables the output
is shuffled, mixed or packed, and each change makes one part of all of it. What of it is taken over follows from the
size of shards, which --target-tokens sets: a large output has many parts of the shuffle, and so has a small one with
small shards. Seconds are those of the command, CPU seconds those
of its workers, too. Bytes are
those that the command and its workers read and wrote by system calls, less those of the command that finds nothing to
do. Then come the bytes of shards that were written, and did not get a second name; and, of an output with --tables, how
many shards were made again, of how many, as the commit says.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from budgets import BUILD, make_files, tokcore
from measuring import Table
from support.builds import ROOT

TABLES = {
    "shuffle": "[shuffle]\nseed = 1\n",
    "mixture": '[mixture]\nstrategy = "temperature"\nalpha = 0.5\n',
    "pack": "[pack]\nlength = 2048\n",
}


class Cost(NamedTuple):
    """What a command cost."""

    seconds: float
    cpu_seconds: float
    read_bytes: int
    written_bytes: int


def measure(*arguments: str) -> Cost:
    """Run a command, and ask the kernel what it and its workers read and wrote."""
    before, began, cpu = _count_bytes(), time.monotonic(), _count_cpu()
    subprocess.run(list(map(str, tokcore(*arguments))), cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - began
    read, written = (now - then for now, then in zip(_count_bytes(), before, strict=True))
    return Cost(seconds, _count_cpu() - cpu, read, written)


def _count_cpu() -> float:
    """CPU seconds of the processes that this one waited for."""
    of = resource.getrusage(resource.RUSAGE_CHILDREN)
    return of.ru_utime + of.ru_stime


def _count_bytes() -> tuple[int, int]:
    """Bytes that this process, and those that it waited for, have read and written."""
    facts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(facts["rchar"]), int(facts["wchar"])


def count_shards(output: Path, parts: str = "") -> int:
    """The bytes of shards, mixtures and rows of an output, or of these parts of it, that have no other name."""
    stages = ("shards", "mixed", "packed")
    files = (path.stat() for stage in stages for path in output.glob(f"{parts}{stage}/**/*") if path.is_file())
    return sum(facts.st_size for facts in files if facts.st_nlink == 1)


def read_receipt(output: Path) -> str:
    """How many shards a commit made again, of how many; "" if it says nothing of them."""
    path = output / "log" / "1.json"
    why = json.loads(path.read_text())["why"] if path.is_file() else {}
    num = why.get("shards", 0)
    return f"{num - why.get('shards_as_before', 0):,} of {num:,}" if num else ""


def list_ids(folder: Path, anywhere: bool, num: int = 100) -> list[str]:
    """Ids of documents: of each few files one, or of one file after the other all."""
    found: list[str] = []
    files = sorted((folder / "in").glob("*.jsonl"))
    for path in files[:: max(1, len(files) // num)] if anywhere else files:
        ids = [json.loads(line)["id"] for line in path.read_bytes().splitlines()]
        found += ids[:1] if anywhere else ids
    return found[:num]


def make_changes(
    folder: Path, more: list[bytes], kept: list[str], has_rows: bool
) -> dict[str, Callable[[], list[str]]]:
    """Name of a change -> what makes it and gives the command that follows it. more: the files that come.

    kept: the option that keeps weights of a mixture; without it updates are told to move them, as they follow from
    sizes. has_rows: whether the output is packed.
    """
    build, files = str(folder / "build.toml"), sorted((folder / "in").glob("*.jsonl"))
    one_percent = files[len(files) // 2 :][: len(more)]

    def write(paths: list[Path]) -> list[str]:
        for path, data in zip(paths, more, strict=True):
            path.write_bytes(data)
        return ["update", build, *(kept or ["--all"])]

    def unlink() -> list[str]:
        for path in one_percent:
            path.unlink()
        return ["update", build, *(kept or ["--all"]), "--vanished", "remove"]

    def remove(anywhere: bool, num: int = 100, options: Sequence[str] = ()) -> list[str]:
        ids = folder / "ids.txt"
        ids.write_text("\n".join(list_ids(folder, anywhere, num)) + "\n")
        return ["remove", str(folder / "out"), "--ids", str(ids), *kept, *options]

    in_place = {"100 documents out, in place": lambda: remove(True, options=["--in-place-rows"])} if has_rows else {}
    return {
        "nothing changed": lambda: ["update", build],
        "1 % more": lambda: write([folder / "in" / f"more-{number:05d}.jsonl" for number in range(len(more))]),
        "1 % less": unlink,
        "1 % in new versions": lambda: write(one_percent),
        "100 documents out, side by side": lambda: remove(anywhere=False),
        "100 documents out, from anywhere": lambda: remove(anywhere=True),
        "1 document out": lambda: remove(anywhere=True, num=1),
        **in_place,
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--megabytes", type=float, default=1000)
    parser.add_argument("--range-bytes", type=int, default=4_000_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--tables", default="", help=f"some of {','.join(TABLES)}")
    parser.add_argument("--target-tokens", type=int, default=10_000_000)
    parser.add_argument("--keep-weights", action="store_true")
    parser.add_argument("--only", default="", help="changes whose names have one of these words, with commas between")
    options = parser.parse_args()
    kept = ["--keep-weights"] if options.keep_weights else []
    tables = f"[shards]\ntarget_tokens = {options.target_tokens}\n"
    tables += "".join(TABLES[name] for name in filter(None, options.tables.split(",")))
    size_bytes, few = int(options.megabytes * 1e6 / options.files), max(1, options.files // 100)
    workers = ["--workers", str(options.workers), "--quiet"]
    with tempfile.TemporaryDirectory() as place:
        base = Path(place) / "base"
        (base / "in").mkdir(parents=True)
        made = [*make_files(options.files + few, size_bytes)]
        for number, data in enumerate(made[:-few]):
            (base / f"in/{number:05d}.jsonl").write_bytes(data)
        (base / "build.toml").write_text(BUILD.replace("4_000_000", str(options.range_bytes)) + tables)
        full = measure("build", str(base / "build.toml"), *workers)
        shards = count_shards(base / "out")
        rows: list[list[object]] = [["build", *_show(full, Cost(0, 0, 0, 0)), f"{shards / 1e6:,.0f}", ""]]
        print(rows[0], flush=True)
        idle = Cost(0, 0, 0, 0)
        names = [*make_changes(base, made[-few:], kept, "pack" in tables)]
        for name in [names[0], *(one for one in names[1:] if any(word in one for word in options.only.split(",")))]:
            folder = Path(place) / "changed"
            # Times of files are pinned, so they are kept.
            subprocess.run(["cp", "-a", "--link", base, folder], check=True)
            for path in (folder / "in").iterdir():  # not the same file as the original, which is written to here
                data = path.read_bytes()
                facts = path.stat()
                path.unlink()
                path.write_bytes(data)
                os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
            command = make_changes(folder, made[-few:], kept, "pack" in tables)[name]()
            cost = measure(*command, *(workers if command[0] == "update" else workers[:2]))
            idle = idle if idle.read_bytes else cost
            written = f"{count_shards(folder / 'out', 'parts/*/') / 1e6:,.1f}"
            rows.append([name, *_show(cost, idle), written, read_receipt(folder / "out")])
            print(rows[-1], flush=True)
            shutil.rmtree(folder)
    head = ["", "seconds", "CPU seconds", "read, MB", "written, MB", "shards written, MB", "made again"]
    print(Table(f"Changes of an output of {options.megabytes:,.0f} MB", head, rows).markdown())


def _show(cost: Cost, idle: Cost) -> list[str]:
    read, written = cost.read_bytes - idle.read_bytes, cost.written_bytes - idle.written_bytes
    return [f"{cost.seconds:,.1f}", f"{cost.cpu_seconds:,.1f}", f"{read / 1e6:,.0f}", f"{written / 1e6:,.0f}"]


if __name__ == "__main__":
    main()
