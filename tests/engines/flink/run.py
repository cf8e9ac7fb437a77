"""Start a Flink cluster, build the demo and a larger corpus on it, compare roots with local builds, stop everything.

    PYTHONPATH=tests python tests/engines/flink/run.py [--megabytes 300] [--languages 30] [--workers 2]

`make flink` runs it. The larger corpus is generated from the demo's documents, whose letters a seed permutes: so unique
pre-tokens grow with it as they do in a crawl. It prints both times, the memory of the largest worker on Flink, and how
many items the workers of each TaskManager did.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import zstandard
from benchmarks.large_corpus import permutation
from support.builds import ROOT, tokcore
from support.flink import TASK_MANAGERS, FlinkCluster

OUT = ROOT / "out" / "flink"
DEMO = ROOT / "deploy" / "demo"
_OPENERS = {".zst": zstandard.open, ".gz": gzip.open, ".jsonl": open}


def main() -> None:
    """Print what was compared; exit code 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=300, help="of text, to be generated")
    parser.add_argument("--languages", type=int, default=30)
    parser.add_argument("--workers", type=int, default=2, help="of the local builds")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the cluster ends, too
    shutil.rmtree(OUT, ignore_errors=True)
    generate(OUT / "corpus", given.megabytes, given.languages)
    os.environ["TMPDIR"] = str(OUT)
    with FlinkCluster(OUT / "cluster") as cluster:
        print(
            f"a JobManager, two TaskManagers and a job server run; pages at http://127.0.0.1:{cluster.rest}", flush=True
        )
        equal = [compare(cluster, build, given.workers) for build in (DEMO / "build.toml", OUT / "corpus/build.toml")]
    print("all roots are equal" if all(equal) else "roots differ")
    sys.exit(0 if all(equal) else 1)


def compare(cluster: FlinkCluster, build: Path, workers: int) -> bool:
    """Build locally and on Flink; whether both have one root."""
    name = build.parent.name
    local_s, local_root, _ = measure(build, OUT / f"{name}-local", f"--workers={workers}")
    flink_s, flink_root, peaks = measure(build, OUT / f"{name}-flink", *cluster.options)
    served: Counter[str] = Counter()
    for stage in ("counts", "shards"):
        told = json.loads((OUT / f"{name}-flink" / stage / "run.json").read_bytes())
        for worker in told["processes"]:
            served.update({one: worker["items"] for one in TASK_MANAGERS if is_below(worker, cluster, one)})
    print(f"{name}: {local_s:.1f} s locally, {flink_s:.1f} s on Flink; items: {dict(served)}")
    print(f"{name}: largest worker: {', '.join(f'{stage} {peak / 1e6:.0f} MB' for stage, peak in peaks.items())}")
    print(f"{name}: {local_root} locally, {flink_root} on Flink", flush=True)
    return local_root == flink_root


def is_below(worker: dict, cluster: FlinkCluster, part: str) -> bool:
    """Whether a worker was a process of that TaskManager."""
    return cluster.processes[part].pid in worker["ancestors"]


def measure(build: Path, output: Path, *options: str) -> tuple[float, str, Counter[str]]:
    """Seconds, root, and memory of the largest worker in each stage, in bytes."""
    began = time.monotonic()
    with watch_workers(output) as peaks:
        done = tokcore("build", build, "--output", output, *options)
    if done.returncode:
        sys.exit(done.stderr)
    root = json.loads((output / "manifest.json").read_bytes())["root"]
    return time.monotonic() - began, root, peaks


@contextlib.contextmanager
def watch_workers(output: Path) -> Iterator[Counter[str]]:
    """Collects the memory of the largest process that tokcore-worker started, by stage, while the block runs."""
    peaks: Counter[str] = Counter()
    done = threading.Event()

    def look() -> None:
        while not done.wait(1):
            stage = find_stage(output)
            for process in psutil.process_iter(["cmdline"]):
                if any(one.endswith("tokcore-worker") for one in process.info["cmdline"] or ()):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        peaks[stage] = max(peaks[stage], process.memory_info().rss)

    thread = threading.Thread(target=look, daemon=True)  # SIGTERM may come before "try"
    thread.start()
    try:
        yield peaks
    finally:
        done.set()
        thread.join()


def find_stage(output: Path) -> str:
    """The stage that a build is in, by the manifests that are there. Learning needs memory for all pre-tokens."""
    for stage, folder in (("count", "counts"), ("learn", "tokenizer")):
        if not (output / folder / "manifest.json").exists():
            return stage
    return "encode"


# --------------------------------------------------------------------------------------------------------- its corpus


def generate(folder: Path, megabytes: int, languages: int) -> None:
    """Write a build file, and JSON lines with this many megabytes of text in this many languages."""
    documents = list(read_demo())
    found = sorted({document["lang"] for document in documents})
    folder.mkdir(parents=True)
    size = copy = 0
    while size < megabytes * 1_000_000:
        table = permutation(copy)
        lines = []
        for document in documents:
            number = (found.index(document["lang"]) + copy * len(found)) % languages
            text = document["text"].translate(table)
            size += len(text.encode())
            record = {"id": f"{copy}-{document['id']}", "text": text, "lang": f"l{number:02d}"}
            lines.append(json.dumps(record, ensure_ascii=False))
        (folder / f"{copy:04d}.jsonl").write_text("\n".join(lines) + "\n")
        copy += 1
    (folder / "build.toml").write_text(
        'version = 1\n[build]\noutput = "out"\n[[source]]\nfiles = "*.jsonl"\nlang_field = "lang"\nid = "id"\n'
        "[plan]\nrange_bytes = 8_000_000\n[learn]\nvocab_size = 32_768\n"
    )
    print(f"{size / 1e6:.0f} MB of text in {languages} languages, {copy} files", flush=True)


def read_demo() -> Iterator[dict[str, str]]:
    """The demo's documents that are JSON lines."""
    for path in sorted((DEMO / "data").rglob("*.jsonl*")):
        with _OPENERS[path.suffix](path, "rb") as file:
            for line in io.TextIOWrapper(file, "utf-8"):
                yield {"lang": path.parent.name, **json.loads(line)}


if __name__ == "__main__":
    main()
