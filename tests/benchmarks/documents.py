"""What builds cost that do more to documents: PYTHONPATH=tests python tests/benchmarks/documents.py

    [--files 4] [--megabytes 256] [--rounds 3] [--only "dedup by text"] [--memory 500 1000 4000] [--rules]

CPU time of `tokcore build` and its workers, beside that of the plain build in the same round, whose stages run one by
one; the median of rounds counts. What a build of 20 kB takes is taken off. Few documents or lines come twice. With
--memory instead the memory of the largest process of a build, at these sizes in megabytes. With --rules also the ready
rules about quality in one thread, beside datatrove's where that is installed; decisions that differ are counted.
"""

from __future__ import annotations

import argparse
import json
import os
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


def run_command(*arguments: str | Path) -> tuple[float, float]:
    """(CPU seconds of a command and its workers, megabytes that the largest of these processes took at most)."""
    process = subprocess.Popen(
        list(map(str, tokcore(*arguments))), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1000


def write_build(folder: Path, added: str) -> Path:
    """The build file, whose ranges are as large as they are by default."""
    path = folder / "build.toml"
    text = BUILD.replace("vocab_size = 32768", "vocab_size = 1024").replace("range_bytes = 4_000_000\n", "")
    path.write_text(text + added)
    return path


def measure_stages(folder: Path) -> dict[str, float]:
    """CPU seconds of each stage of the plain build."""
    path = write_build(folder, "")
    with tempfile.TemporaryDirectory(dir=folder, prefix="stages") as output:
        options = ("--output", f"{output}/out", "--workers", "1")
        return {stage: run_command(stage, path, *options)[0] for stage in ("count", "learn", "encode")}


def measure_build(folder: Path, name: str, added: str) -> tuple[float, float]:
    """As run_command, of a build."""
    path = write_build(folder, added)
    with tempfile.TemporaryDirectory(dir=folder, prefix=name.replace(" ", "-")) as output:
        return run_command("build", path, "--output", f"{output}/out", "--workers", "1")


def measure_builds(files: int, megabytes: int, rounds: int, only: list[str]) -> None:
    """Print what each of ADDED costs."""
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as small:
        text_bytes = write_corpus(Path(made), files, megabytes * 1_000_000 // files)
        write_corpus(Path(small), 1, 20_000)
        # Of several runs of nothing the cheapest: what is taken off is small beside the rest.
        of_nothing = min(measure_build(Path(small), "plain", "")[0] for _ in range(3))
        stages_of_nothing = measure_stages(Path(small))
        more: dict[str, list[list[float]]] = {name: [] for name in ADDED if not only or name in only}
        for _ in range(rounds):
            plain = measure_build(Path(made), "plain", "")[0] - of_nothing
            stages = {stage: cpu - stages_of_nothing[stage] for stage, cpu in measure_stages(Path(made)).items()}
            for name, costs in more.items():
                added = measure_build(Path(made), name, ADDED[name])[0] - of_nothing - plain
                costs.append([added, added / (stages["count"] + stages["encode"]), added / stages["encode"]])
    rows = []
    for name, costs in more.items():
        seconds, of_both, of_encode = map(statistics.median, zip(*costs, strict=True))
        rows.append([name, f"{seconds:.2f}", f"{100 * of_both:.1f} %", f"{100 * of_encode:.1f} %"])
    note = (
        f"{files} files, {text_bytes / 1e6:.0f} MB of text, {rounds} rounds. In the last one, the plain build took "
        f"{plain:.2f} s, counting {stages['count']:.2f} s, encoding {stages['encode']:.2f} s."
    )
    head = ["added", "s more", "of count and encode", "of encode"]
    print(Table("Builds, CPU time", head, rows, note).markdown())


def measure_memory(sizes: list[int], only: list[str]) -> None:
    """Print the memory of the largest process of a build, at these sizes in megabytes."""
    rows = []
    for megabytes in sizes:
        with tempfile.TemporaryDirectory() as made:
            text_bytes = write_corpus(
                Path(made), max(4, megabytes // 60), megabytes * 1_000_000 // max(4, megabytes // 60)
            )
            for name in only or ["plain", "dedup by text", "dedup by line"]:
                _, peak = measure_build(Path(made), name, ADDED[name])
                rows.append([name, f"{text_bytes / 1e6:.0f}", f"{peak:.0f}"])
    print(Table("Builds, memory of the largest process", ["added", "MB of text", "MB"], rows).markdown())


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
    one.filter(documents[0])  # loads what cuts words
    began = time.process_time()
    kept = [one.filter(document) is True for document in documents]
    return time.process_time() - began, kept


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=[*ADDED], default=[])
    parser.add_argument("--memory", nargs="+", type=int, default=[])
    parser.add_argument("--rules", action="store_true")
    told = parser.parse_args()
    if told.memory:
        measure_memory(told.memory, told.only)
    else:
        measure_builds(told.files, told.megabytes, told.rounds, told.only)
    if told.rules:
        measure_rules()
