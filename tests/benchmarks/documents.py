"""What builds cost that do more to documents: PYTHONPATH=tests python tests/benchmarks/documents.py

    [--files 20] [--megabytes 60] [--rounds 3] [--rules]

CPU time of `tokcore build` and its workers, beside that of the plain build in the same round; the median of rounds
counts. What a build of 20 kB takes is taken off. Few documents or lines come twice. With --rules also the ready rules
about quality in one thread, beside datatrove's where that is installed; decisions that differ are counted.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from budgets import BUILD, make_files, tokcore
from measuring import Table
from support.builds import ROOT

from tokcore.text.quality.rules import RULES

# What is added to the build file; {by} of [dedup].
ADDED = {
    "plain": "",
    "metadata": '[metadata]\nquality = "float32"\nyear = "int32"\n',
    "filter over metadata": '[metadata]\nquality = "float32"\nyear = "int32"\n'
    '[[filter]]\nkeep = "quality >= 0 and year < 3000"\n',
    "attributes": '[metadata]\nquality = "float32"\nscore = "float32"\nattributes = "scores/*.parquet"\n',
    "dedup by text": '[dedup]\nby = "text"\n',
    "dedup by line": '[dedup]\nby = "line"\n',
}
_DATATROVE = {
    "gopher_quality": "GopherQualityFilter",
    "gopher_repetition": "GopherRepetitionFilter",
    "c4_quality": "C4QualityFilter",
}


def write_corpus(folder: Path, num: int, size_bytes: int) -> int:
    """Files of JSON lines with two numbers in each, and a table of scores by id; the bytes of text."""
    ids, text_bytes = [], 0
    for number, data in enumerate(make_files(num, size_bytes)):
        lines = []
        for i, line in enumerate(data.splitlines()):
            document = json.loads(line)
            ids.append(document["id"])
            text_bytes += len(document["text"].encode())
            lines.append(json.dumps({**document, "quality": i % 100 / 100, "year": 1990 + i % 40}, ensure_ascii=False))
        path = folder / "in" / f"{number:05}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "scores").mkdir()
    table = {"id": ids[::-1], "score": pa.array([i / len(ids) for i in range(len(ids))], pa.float32())}
    pq.write_table(pa.table(table), folder / "scores" / "scores.parquet")
    return text_bytes


def measure_build(folder: Path, name: str, added: str) -> float:
    """CPU seconds of a build, its workers included."""
    path = folder / "build.toml"
    path.write_text(BUILD.replace("vocab_size = 32768", "vocab_size = 1024") + added)
    with tempfile.TemporaryDirectory(dir=folder, prefix=name.replace(" ", "-")) as output:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = tokcore("build", path, "--output", f"{output}/out", "--workers", "1")
        subprocess.run(
            list(map(str, command)), cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime


def measure_builds(files: int, megabytes: int, rounds: int) -> None:
    """Print what each of ADDED costs."""
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as small:
        text_bytes = write_corpus(Path(made), files, megabytes * 1_000_000 // files)
        write_corpus(Path(small), 1, 20_000)
        least = measure_build(Path(small), "plain", "")
        costs: dict[str, list[float]] = {name: [] for name in ADDED}
        for _ in range(rounds):
            for name, added in ADDED.items():
                costs[name].append(measure_build(Path(made), name, added) - least)
    rows = []
    for name, seconds in costs.items():
        ratios = [one / plain for one, plain in zip(seconds, costs["plain"], strict=True)]
        rows.append([name, f"{statistics.median(seconds):.2f}", f"{statistics.median(ratios):.3f}"])
    note = f"{files} files, {text_bytes / 1e6:.0f} MB of text, {rounds} rounds; a build of nothing took {least:.2f} s."
    print(Table("Builds, CPU time", ["build", "s", "beside plain"], rows, note).markdown())


def measure_rules() -> None:
    """Print the speed of ready rules over English texts, beside datatrove's."""
    texts = [json.loads(line)["text"] for data in make_files(4, 1_000_000) for line in data.splitlines()]
    size = sum(len(text.encode()) for text in texts)
    rows = []
    for name, of_datatrove in _DATATROVE.items():
        rule = RULES[name]
        began = time.process_time()
        own = [rule.find_reason(text, rule.parameters(), "en") == "" for text in texts]
        seconds = time.process_time() - began
        peer = _measure_datatrove(of_datatrove, texts)
        if peer is not None and peer[1] != own:
            print(f"{name}: {sum(a != b for a, b in zip(own, peer[1], strict=True))} decisions differ")
        ratio = f"{peer[0] / seconds:.1f}" if peer is not None else "not installed"
        rows.append([name, f"{size / 1e6 / seconds:.1f}", ratio])
    print(Table("Ready rules, one thread", ["rule", "MB/s", "times datatrove's"], rows).markdown())


def _measure_datatrove(name: str, texts: list[str]) -> tuple[float, list[bool]] | None:
    try:
        from datatrove.data import Document
        from datatrove.pipeline import filters
    except ImportError:
        return None
    one = getattr(filters, name)()
    documents = [Document(text=text, id="") for text in texts]
    began = time.process_time()
    kept = [one.filter(document) is True for document in documents]
    return time.process_time() - began, kept


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--megabytes", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rules", action="store_true")
    told = parser.parse_args()
    measure_builds(told.files, told.megabytes, told.rounds)
    if told.rules:
        measure_rules()
