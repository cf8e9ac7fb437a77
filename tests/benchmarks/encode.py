"""Encoding with cl100k ranks: every installed library on English, multilingual text and code.

    python tests/benchmarks/encode.py [--corpus FOLDER] [--vocab FILE] [--limit-mb 8] [--rounds 3]

Cold is a tokenizer that has seen one word, on every second document, steady the other documents right after them, so
that nobody is timed on a text seen before. Ids are compared with tiktoken's, document by document; a library whose ids
differ is named but not ranked.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import texts
from measuring import Options, Result, Table, interleaved, measured, memory_before, peak_mb, program, timed
from peers import ENCODERS, installed

REFERENCE = "tiktoken"
TWO_THREADS = ("tokcore", "fastokens", "gigatoken, one buffer", REFERENCE)


def encode(peer: str, path: str, ranks: str, threads: int) -> Result:
    """One library on one text: megabytes a CPU second, cold and steady, and a digest of each document's ids."""
    documents = texts.load(path)
    numbers = np.arange(len(documents))
    halves = [documents.take(numbers[first::2]) for first in (0, 1)]
    sizes = [texts.size_mb(half) for half in halves]
    before = memory_before()
    loaded = ENCODERS[peer].load(ranks, threads)
    loaded.encode(loaded.prepare(pa.array(["one"], pa.large_string())))  # what is built on first use is not timed
    inputs = [loaded.prepare(half) for half in halves]
    out: Result = {"digests": []}
    results = []
    for name, given, size in zip(("cold", "steady"), inputs, sizes, strict=True):
        with timed() as cost:
            results.append(loaded.encode(given))
        out |= {name: size / cost.cpu, f"{name}_wall": size / cost.wall}
    out["memory"] = peak_mb() - before
    out["digests"] = [
        hashlib.sha256(np.asarray(ids, "<i4").tobytes()).hexdigest()[:16]
        for half in results
        for ids in loaded.ids(half)
    ]
    return out


def wrong_documents(result: Result, reference: Result) -> int:
    """How many documents have other ids than the reference."""
    if len(result["digests"]) != len(reference["digests"]):
        return len(reference["digests"])
    return sum(a != b for a, b in zip(result["digests"], reference["digests"], strict=True))


def tables(options: Options) -> list[Table]:
    """One table a text and number of threads."""
    ranks = texts.rank_file(options.vocab, options.work)
    out = []
    for threads, names in ((1, installed()), (2, installed(TWO_THREADS))):
        for text, path in texts.prepare(options.corpus, options.work, options.limit_mb).items():
            out.append(_table(options, ranks, text, path, threads, names))
    return out


def _table(options: Options, ranks: Path, text: str, path: Path, threads: int, names: list[str]) -> Table:
    jobs = {
        name: lambda name=name: measured(encode, threads, peer=name, path=path, ranks=ranks, threads=threads)
        for name in names
    }
    results = interleaved(options.rounds, jobs)
    reference = results[REFERENCE]
    rows: list[list[object]] = []
    for name, result in results.items():
        if "error" in result:
            rows.append([name, *[None] * 6, result["error"]])
            continue
        wrong = wrong_documents(result, reference)
        speeds = [result["cold"], result["steady"]]
        ratios = [result[kind] / reference[kind] for kind in ("cold", "steady")]
        verdict = f"{wrong} documents differ" if wrong else "equal"
        rows.append(
            [name, *speeds, *(["-", "-"] if wrong else ratios), result["steady_wall"], result["memory"], verdict]
        )
    rows.sort(key=lambda row: -row[4] if isinstance(row[4], float) else 0)
    size = texts.size_mb(texts.load(path))
    head = ["", "cold", "steady", "cold, x tiktoken", "steady, x tiktoken", "steady, by the clock", "memory, MB", "ids"]
    note = f"{size:.1f} MB, {len(texts.load(path))} documents; MB per CPU second."
    return Table(f"Encode {text}, {threads} thread{'s' * (threads > 1)}", head, rows, note)


if __name__ == "__main__":
    program(__doc__, tables)
