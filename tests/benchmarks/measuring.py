"""Measure functions, each in a pinned process of its own, interleaved round by round; print tables.

All benchmarks share this. A benchmark is a module with functions that measure one thing each and return a dict of plain
values, and a function `tables(options)` that requests such measurements and formats them. CPU times are compared, not
wall-clock times, because other load on the machine changes them little.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import importlib.metadata
import json
import mmap
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
Result = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """The options of every benchmark."""

    corpus: Path  # a folder of texts
    vocab: Path  # cl100k ranks, .tiktoken or .tiktoken.zst
    limit_mb: float  # of each text
    rounds: int
    work: Path  # a temporary folder


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """One table of results."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""

    def markdown(self) -> str:
        """The table, headed by its title."""
        lines = [f"### {self.title}", "", *([wrap(self.note), ""] if self.note else [])]
        lines.append("| " + " | ".join(self.head) + " |")
        lines.append("|" + "---|" + "--:|" * (len(self.head) - 1))
        lines += ["| " + " | ".join(map(_shown, row)) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"


def wrap(text: str) -> str:
    """A paragraph, in lines of at most 120 characters."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return "" if value is None else str(value)


class Timed:
    """The CPU seconds of a block (of this process and its ended children), and its wall-clock seconds."""

    cpu = 0.0
    wall = 0.0


@contextlib.contextmanager
def timed() -> Iterator[Timed]:
    """The cost of the block, known when it ends."""
    out = Timed()
    wall, cpu = time.perf_counter(), _cpu_seconds()
    yield out
    out.cpu, out.wall = _cpu_seconds() - cpu, time.perf_counter() - wall


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def peak_mb() -> float:
    """The largest resident size of this process so far."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def read_peak_mb(pid: int) -> float:
    """The largest resident size of another process so far, on Linux. Raises OSError or IndexError once it has ended."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1000


def memory_before() -> float:
    """The resident size now, in megabytes. Resets the peak that peak_mb returns, if the system allows it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_mb()


def measured(
    function: Callable[..., Result],
    cores: int = 1,
    python: str | Path = sys.executable,
    seconds: float | None = None,
    **arguments: Any,
) -> Result:
    """function(**arguments) in a process of its own that has that many cores; {"error": ...} if it fails.

    seconds: by the clock, until it is ended.
    """
    module = Path(sys.modules[function.__module__].__file__ or "").stem
    request = json.dumps([module, function.__name__, arguments], default=str)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "RAYON_NUM_THREADS": str(cores),
        "TOKENIZERS_PARALLELISM": "true" if cores > 1 else "false",
    }

    def pin() -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])

    command = [str(python), __file__, request]
    try:
        done = subprocess.run(command, env=environment, preexec_fn=pin, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"error": f"not done in {seconds:g} s"}
    with contextlib.suppress(ValueError, IndexError):
        return json.loads(done.stdout.splitlines()[-1])
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return {"error": lines[-1][:200]}


def interleaved(rounds: int, jobs: dict[Any, Callable[[], Result]]) -> dict[Any, Result]:
    """Run each job once per round, in turn: the median of every number that differs, and the number of rounds."""
    results: dict[Any, list[Result]] = {key: [] for key in jobs}
    for number in range(rounds):
        for key, job in jobs.items():
            if not any("error" in result for result in results[key]):
                print(f"round {number + 1}: {key}", file=sys.stderr)
                results[key].append(job())
    return {key: _median(result) for key, result in results.items()}


def _median(results: Sequence[Result]) -> Result:
    if failed := [result for result in results if "error" in result]:
        return failed[0]
    out = {}
    for name, value in results[0].items():
        values = [result[name] for result in results]
        out[name] = statistics.median(values) if isinstance(value, float) else value
    return out


def version(package: str) -> str | None:
    """The version of an installed distribution; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def machine() -> str:
    """Processor and number of cores."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} cores, {platform.system()}, Python {platform.python_version()}"


@contextlib.contextmanager
def parsed_options(description: str | None, *more: Callable[[argparse.ArgumentParser], None]) -> Iterator[Any]:
    """Yields (Options, all arguments) of the command line; removes the work folder when the block ends."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=ROOT / "deploy/demo/data", help="folder of texts")
    parser.add_argument("--vocab", type=Path, default=ROOT / "tests/data/vocab/cl100k_base.tiktoken.zst")
    parser.add_argument("--limit-mb", type=float, default=8.0, help="of each text")
    parser.add_argument("--rounds", type=int, default=3)
    for add in more:
        add(parser)
    arguments = parser.parse_args()
    # Installed packages have bytecode files. A source tree gets them too, unless this variable forbids it.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as work:
        yield (
            Options(arguments.corpus, arguments.vocab, arguments.limit_mb, arguments.rounds, Path(work)),
            arguments,
        )


def program(description: str | None, tables: Callable[[Options], list[Table]]) -> None:
    """The main function of a benchmark: print its tables."""
    with parsed_options(description) as (options, _):
        print(machine() + "\n")
        for table in tables(options):
            print(table.markdown())


def back_memory(size: int = 512 << 20) -> None:
    """Touch memory before anything is timed, because the host of a virtual machine may be slow to provide it.

    Touches pages of both sizes, because a system keeps them apart: a large page that the host must provide first costs
    thirty times as much as one that it has provided.
    """
    for large in (False, True):
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
            if large and hasattr(mmap, "MADV_HUGEPAGE"):
                block.madvise(mmap.MADV_HUGEPAGE)
            for start in range(0, size, mmap.PAGESIZE):
                block[start] = 1


if __name__ == "__main__":
    back_memory()
    name, function_name, keywords = json.loads(sys.argv[1])
    print("\n" + json.dumps(getattr(importlib.import_module(name), function_name)(**keywords)))
