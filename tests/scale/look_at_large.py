"""How long a report and a view of a large output take.

    PYTHONPATH=tests python tests/scale/look_at_large.py make SOURCE TARGET --megabytes 10000
    PYTHONPATH=tests python tests/scale/look_at_large.py make SOURCE TARGET --documents 10000000
    tokcore build TARGET/build.toml
    PYTHONPATH=tests python tests/scale/look_at_large.py measure OUTPUT [--parallel FOLDER]

`make` copies the text of SOURCE (*.jsonl.zst and *.jsonl.gz with text and lang): in each copy other ASCII letters stand
for the ASCII letters, and each document begins with the number of its copy, so none is equal to another. With
--documents the documents are single lines. `measure` runs `tokcore report` and asks a view what people ask; it prints
a table of seconds and of the most memory of both processes.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import zstandard

_BUILD = """
version = 1
[build]
output = "out"
[[source]]
lang_field = "lang"
files = "in/*.parquet"
id = "id"
[learn]
vocab_size = 65536
"""
_LETTERS = b"abcdefghijklmnopqrstuvwxyz"
_FILE_BYTES = 100_000_000  # of text, about


def read_source(source: Path) -> pa.Table:
    """Columns text and lang of all documents."""
    texts, langs = [], []
    for path in sorted([*source.rglob("*.jsonl.zst"), *source.rglob("*.jsonl.gz")]):
        with (gzip.open if path.suffix == ".gz" else zstandard.open)(path) as file:
            for line in file.read().splitlines():
                document: dict[str, str] = json.loads(line)
                texts.append(document["text"])
                langs.append(document.get("lang", path.parent.name))
    return pa.table({"text": pa.array(texts, pa.large_string()), "lang": pa.array(langs).dictionary_encode()})


def cut_into_lines(documents: pa.Table) -> pa.Table:
    """A document for each line of 20 bytes or more."""
    lines = pc.split_pattern(documents["text"].combine_chunks(), "\n")
    table = pa.table(
        {"text": pc.list_flatten(lines), "lang": documents["lang"].combine_chunks().take(pc.list_parent_indices(lines))}
    )
    return table.filter(pc.greater_equal(pc.binary_length(table["text"]), 20))


def copy_text(text: pa.LargeStringArray, number: int) -> pa.LargeStringArray:
    """The texts with other letters of ASCII, and the number of the copy before each."""
    turned = bytearray(_LETTERS)
    if number:
        random.Random(number).shuffle(turned)
    table = bytes.maketrans(_LETTERS + _LETTERS.upper(), bytes(turned) + bytes(turned).upper())
    _, offsets, data = text.buffers()
    # Texts of an array that was not sliced; other bytes of UTF-8 stay what they are.
    changed = pa.LargeStringArray.from_buffers(len(text), offsets, pa.py_buffer(data.to_pybytes().translate(table)))
    return pc.binary_join_element_wise(
        pa.scalar(f"{number}:", pa.large_string()), changed, pa.scalar(" ", pa.large_string())
    )


def make_corpus(source: Path, target: Path, num_bytes: int, num_documents: int) -> None:
    """Write files of about 100 MB of text until there is as much as was asked for."""
    documents = read_source(source)
    if num_documents:
        documents = cut_into_lines(documents)
    text, lang = documents["text"].combine_chunks(), documents["lang"].combine_chunks()
    text = pa.concat_arrays([text])
    size = pc.sum(pc.binary_length(text)).as_py()
    (target / "in").mkdir(parents=True)
    (target / "build.toml").write_text(_BUILD)
    rows = max(len(text) * _FILE_BYTES // size, 1)
    made = made_bytes = 0
    for copy in itertools.count():
        changed = copy_text(text, copy)
        for start in range(0, len(text), rows):
            part = changed.slice(start, min(rows, num_documents - made) if num_documents else rows)
            ids = pc.cast(pa.array(np.arange(made, made + len(part))), pa.string())
            table = pa.table({"id": ids, "text": part, "lang": lang.slice(start, len(part))})
            pq.write_table(table, target / "in" / f"{copy:03d}-{start:09d}.parquet", compression="zstd")
            made += len(part)
            made_bytes += pc.sum(pc.binary_length(part)).as_py()
            if made == num_documents or (num_bytes and made_bytes >= num_bytes):
                print(f"{made:,} documents, {made_bytes:,} bytes of text, {copy + 1} copies")
                return


class Watched:
    """A tokcore command, its seconds, and the most memory that it had."""

    def __init__(self, *command: str | Path) -> None:
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from tokcore_pipelines.cli import main; main()", *map(str, command)],
            stdout=subprocess.PIPE,
            text=True,
        )

    def read_peak(self) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) // 1000 for line in lines if line.startswith("VmHWM:"))  # MB

    def wait(self) -> tuple[float, float, int]:
        """Seconds, seconds of processors, and MB."""
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode:
            raise SystemExit(f"the command ended with {self.process.returncode}")
        return time.monotonic() - self.began, used.ru_utime + used.ru_stime, used.ru_maxrss // 1000

    def read_cpu(self) -> float:
        """Seconds of processors until now."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Asker:
    """Asks a view's server."""

    def __init__(self, url: str) -> None:
        _, _, self._host, self._token, _ = url.split("/")

    def ask(self, question: str, **body: Any) -> tuple[dict[str, Any], float]:
        """The answer, and seconds."""
        began = time.monotonic()
        answer = json.loads(b"".join(self._post(question, body)))
        assert "error" not in answer, answer
        return answer, time.monotonic() - began

    def search(self, **body: Any) -> tuple[list[dict[str, Any]], float, float]:
        """The hits and the last line, seconds until the first hit and until the end."""
        began = time.monotonic()
        lines, first = [], 0.0
        for line in self._post("search", {"volume": 0, **body}):
            told = json.loads(line)
            if "number" in told and not first:
                first = time.monotonic() - began
            if "scanned" not in told:
                lines.append(told)
        return lines, first, time.monotonic() - began

    def _post(self, question: str, body: dict[str, Any]) -> Iterator[bytes]:
        connection = http.client.HTTPConnection(self._host, timeout=600)
        connection.request(
            "POST", f"/{self._token}/{question}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        yield from connection.getresponse()
        connection.close()


def measure_report(output: Path, parallel: Path | None) -> Iterator[tuple[str, str]]:
    """Rows of the table."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        command = Watched("report", output, "-o", page, *(["--parallel", parallel] if parallel else []))
        seconds, cpu, peak = command.wait()
        told = json.loads(page.with_suffix(".json").read_text())
        yield "documents", f"{told['corpus']['documents']:,}"
        yield "tokens", f"{told['corpus']['tokens']:,}"
        yield "bytes of text", f"{told['corpus']['text_bytes']:,}"
        stored = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
        yield "bytes of the output", f"{stored:,}"
        yield "report, s, of processors", f"{seconds:.0f}, {cpu:.0f}"
        yield "report, most memory, MB", f"{peak:,}"
        yield "page, bytes", f"{page.stat().st_size:,}"


def measure_view(output: Path) -> Iterator[tuple[str, str]]:
    """Rows of the table. What is looked for is in the last document, and nowhere."""
    command = Watched("view", output)
    assert command.process.stdout is not None
    try:
        asker = Asker(command.process.stdout.readline().strip())
        shelf, seconds = asker.ask("shelf")
        (about,) = shelf["volumes"]
        yield "view, from the command to its first answer, s", f"{time.monotonic() - command.began:.1f}"
        num = about["documents"]
        chance = random.Random(1)
        places = [chance.randrange(num) for _ in range(20)]
        times = [asker.ask("document", volume=0, number=place)[1] for place in places]
        yield "a document by number, median and most of 20, ms", _tell_ms(times)
        shards = about["shards"]
        times = [asker.ask("place", volume=0, shard=chance.choice(shards), offset=1000)[1] for _ in range(20)]
        yield "offset of a shard, median and most of 20, ms", _tell_ms(times)
        rarest = list(about["languages"])[-1]
        last, _ = asker.ask("document", volume=0, number=num - 1)
        for what, body in {
            f"language {rarest}": {"kind": "lang", "query": rarest},
            "id of a document, the last": {"kind": "id", "query": last["id"]},
            "a common id": {"kind": "token", "query": str(last["tokens"][len(last["tokens"]) // 2][0])},
            "text that is nowhere": {"kind": "text", "query": "\u3042zq\u0416~no such text"},
            "text that is common": {"kind": "text", "query": "e"},
        }.items():
            before = command.read_cpu()
            lines, first, seconds = asker.search(**body)
            hits, cpu = len(lines) - 1, command.read_cpu() - before
            yield f"search, {what}, s", f"{hits} hits, first {first:.2f}, all {seconds:.2f}, of processors {cpu:.2f}"
        yield "view, most memory, MB", f"{command.read_peak():,}"
    finally:
        command.process.terminate()
        command.process.wait()


def _tell_ms(times: list[float]) -> str:
    ordered = sorted(times)
    return f"{ordered[len(ordered) // 2] * 1000:.1f}, {ordered[-1] * 1000:.1f}"


def main() -> None:
    """Make a corpus, or print the table of an output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("make")
    make.add_argument("source", type=Path)
    make.add_argument("target", type=Path)
    size = make.add_mutually_exclusive_group(required=True)
    size.add_argument("--megabytes", type=int, default=0, help="of text")
    size.add_argument("--documents", type=int, default=0, help="of a line each")
    measure = commands.add_parser("measure")
    measure.add_argument("output", type=Path)
    measure.add_argument("--parallel", type=Path)
    given = parser.parse_args()
    if given.command == "make":
        make_corpus(given.source, given.target, given.megabytes * 10**6, given.documents)
        return
    for rows in (measure_report(given.output, given.parallel), measure_view(given.output)):
        for name, value in rows:
            print(f"| {name} | {value} |", flush=True)


if __name__ == "__main__":
    main()
