"""Benchmark encoding with cl100k ranks: every installed library on English, multilingual text and code.

    python tests/benchmarks/encode.py [--corpus FOLDER] [--vocab FILE] [--limit-mb 8] [--rounds 3]

Cold: every second document, with a tokenizer that has seen one word. Steady: the other documents, right after. So no
library is timed on text that it has seen before. Warm, in the table of threads: the same documents again. Ids are
compared with those of tiktoken, document by document; a library whose ids differ is named but not ranked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import texts
from measuring import Options, Result, Table, interleaved, measured, memory_before, peak_mb, program, timed
from peers import ENCODERS, installed

REFERENCE = "tiktoken"
WARM_PASSES = 15
TWO_THREADS = ("tokcore", "fastokens", "gigatoken, one buffer", REFERENCE)


def encode(peer: str, path: str, ranks: str, threads: int) -> Result:
    """One library on one text: megabytes per second, cold, steady and warm, and a digest of each document's ids."""
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
    out["warm_wall"] = 0.0
    # Slow libraries get two passes: within a pass that takes a second, the effect of other load evens out.
    for _ in range(WARM_PASSES if sizes[1] / out["steady_wall"] < 1 else 2):
        with timed() as cost:
            loaded.encode(inputs[1])
        out["warm_wall"] = max(out["warm_wall"], sizes[1] / cost.wall)
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
    """One table per text and number of threads, and one that shows what the second thread gains."""
    ranks = texts.rank_file(options.vocab, options.work)
    out: list[Table] = []
    scaling: list[list[object]] = []
    for text, path in texts.prepare(options.corpus, options.work, options.limit_mb).items():
        keys = [(name, 1) for name in installed()] + [(name, 2) for name in installed(TWO_THREADS)]
        results = interleaved(options.rounds, {key: _job(*key, path, ranks) for key in keys})
        by_threads = [{name: results[name, n] for name, m in keys if m == n} for n in (1, 2)]
        out += [_table(text, path, n, by_threads[n - 1]) for n in (1, 2)]
        scaling += [[text, *row] for row in _scaling(*by_threads)]
    head = [
        "",
        "",
        *(f"{kind}{what}" for kind in ("steady", "warm") for what in (", 1 thread", ", 2 threads", ", ratio")),
    ]
    note = f"MB a second by the clock; warm: the steady half again, the fastest of {WARM_PASSES} times, or 2 slow ones."
    out.sort(key=lambda table: table.title.split(", ")[1])
    return [*out, Table("What the second thread gives", head, scaling, note)]


def _job(name: str, threads: int, path: str, ranks: Path) -> Callable[[], Result]:
    return lambda: measured(encode, threads, peer=name, path=path, ranks=ranks, threads=threads)


def _table(text: str, path: str, threads: int, results: dict[str, Result]) -> Table:
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


def _scaling(one: dict[str, Result], two: dict[str, Result]) -> Iterator[list[object]]:
    for name in two:
        if "error" not in one[name] and "error" not in two[name]:
            row: list[object] = [name]
            for kind in ("steady_wall", "warm_wall"):
                row += [one[name][kind], two[name][kind], two[name][kind] / one[name][kind]]
            yield row


if __name__ == "__main__":
    program(__doc__, tables)
