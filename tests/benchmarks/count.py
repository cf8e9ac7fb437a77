"""Benchmark counting pre-tokens with the patterns cl100k and gpt2, and merging sorted count tables; on one thread.

    python tests/benchmarks/count.py [--corpus FOLDER] [--limit-mb 8] [--rounds 3]

Each library counts the three texts together. Ours returns a sorted Arrow table, the others return rows in no order. All
counts are first compared with those of the regular expression itself, run by the library `regex`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import regex
import texts
from measuring import Options, Result, Table, interleaved, measured, memory_before, peak_mb, program, timed, version
from peers import ffbpe_counter

from tokcore import kernel
from tokcore.count.counting import count_pretokens
from tokcore.count.pretoken_rows import CountRows
from tokcore.count.pretoken_tables import merge_rows
from tokcore.text.patterns import PATTERNS
from tokcore.text.texts import Texts, make_texts_from_arrow

Counted = tuple[Callable[[], Any], Callable[[Any], Mapping[bytes, int]]]


def _tokcore(documents: pa.Array, pattern: str, implementation: str = "") -> Counted:
    def count() -> pa.Table:
        with kernel.force(implementation or kernel.get_implementation()):
            return count_pretokens(documents, pattern, max_pretoken_bytes=0)

    def mapping(table: pa.Table) -> Mapping[bytes, int]:
        return dict(zip(table["pretoken"].to_pylist(), table["count"].to_pylist(), strict=True))

    return count, mapping


def _portable(documents: pa.Array, pattern: str) -> Counted:
    return _tokcore(documents, pattern, "portable")


def _not_sorted(documents: pa.Array, pattern: str) -> Counted:
    given = make_texts_from_arrow(documents)
    counter = kernel.Counter(pattern, 0)
    return lambda: counter.add(given), lambda _: _mapping(counter.take())


def _mapping(rows: CountRows) -> Mapping[bytes, int]:
    return {rows.keys.text(i): int(rows.counts[i]) for i in range(rows.num_rows)}


def _ffbpe(documents: pa.Array, pattern: str) -> Counted:
    counter = ffbpe_counter(pattern)
    strings = documents.to_pylist()
    return (
        lambda: counter.add_batch(strings),
        lambda _: {word.encode(): count for word, count in counter.words().items()},
    )


def _ffbpe_2023(documents: pa.Array, pattern: str) -> Counted:
    return _ffbpe(documents, "cl100k-2023")


def _gigatoken(documents: pa.Array, pattern: str) -> Counted:
    import gigatoken

    joined = b"\0".join(documents.cast(pa.large_binary()).to_pylist())
    return lambda: gigatoken.gigatoken_rs.pretokenized_counts(joined, b"\0"), dict


def _regex(documents: pa.Array, pattern: str) -> Counted:
    split = regex.compile(PATTERNS[pattern])

    def count() -> Counter[str]:
        counts: Counter[str] = Counter()
        for text in documents.to_pylist():
            counts.update(split.findall(text))
        return counts

    return count, lambda counts: {word.encode(): number for word, number in counts.items()}


REFERENCE = "regex"
BOTH = ("cl100k", "gpt2")
# Name -> package, patterns, and how to count.
COUNTERS: dict[str, tuple[str, tuple[str, ...], Callable[[pa.Array, str], Counted]]] = {
    "tokcore": ("numpy", BOTH, _tokcore),
    "tokcore, rows not sorted yet": ("numpy", BOTH, _not_sorted),
    "tokcore, portable": ("numpy", BOTH, _portable),
    "ffbpe": ("ffbpe", BOTH, _ffbpe),
    "ffbpe, cl100k as published in 2023": ("ffbpe", ("cl100k",), _ffbpe_2023),
    "gigatoken": ("gigatoken", ("gpt2",), _gigatoken),
    REFERENCE: ("regex", BOTH, _regex),
}


def count(counter: str, pattern: str, paths: list[str]) -> Result:
    """Megabytes per CPU second, memory, and a digest of the counts."""
    documents = texts.load(*paths)
    before = memory_before()
    run, mapping = COUNTERS[counter][2](documents, pattern)
    with timed() as cost:
        result = run()
    memory = peak_mb() - before
    counts = mapping(result)
    digest = hashlib.sha256(b"".join(b"%d %b" % (counts[key], key) for key in sorted(counts))).hexdigest()
    return {"speed": texts.size_mb(documents) / cost.cpu, "memory": memory, "digest": digest, "rows": len(counts)}


def merge(paths: list[str], num_runs: int = 16) -> Result:
    """Million rows read per CPU second when merging the sorted counts of num_runs parts of the texts.

    Measured as in a worker that has merged before: malloc already has the memory.
    """
    np.empty(31 << 20, np.uint8)  # freed at once, which raises malloc's limits as pipelines/local/pool.py does
    documents = texts.load(*paths)
    runs = []
    for number in range(num_runs):
        counter = kernel.Counter("cl100k", 0)
        counter.add(make_texts_from_arrow(documents.take(np.arange(number, len(documents), num_runs))))
        runs.append(list(_blocks(counter.take())))
    num_rows = sum(block.num_rows for run in runs for block in run)
    for _ in range(2):
        with timed() as cost:
            merged = sum(rows.num_rows for rows in merge_rows(runs))
    return {"speed": num_rows / cost.cpu / 1e6, "read": num_rows, "written": merged}


def _blocks(rows: CountRows, size: int = 65_536) -> list[CountRows]:
    return [
        CountRows(
            Texts(rows.keys.data, rows.keys.offsets[start : start + size + 1]),
            rows.counts[start : start + size],
            rows.documents[start : start + size],
        )
        for start in range(0, rows.num_rows, size)
    ]


def tables(options: Options) -> list[Table]:
    """One table per pattern, and one for merging."""
    paths = [str(path) for path in texts.prepare(options.corpus, options.work, options.limit_mb).values()]
    out = [_pattern_table(options, pattern, paths) for pattern in ("cl100k", "gpt2")]
    merged = interleaved(options.rounds, {"merge": lambda: measured(merge, paths=paths)})["merge"]
    row = ["tokcore", merged["speed"], merged["read"], merged["written"]]
    head = ["", "million rows a CPU second", "rows read", "rows written"]
    note = "The second of two merges in a process, with the limits of malloc that workers have."
    return [*out, Table("Merge 16 count tables", head, [row], note)]


def _pattern_table(options: Options, pattern: str, paths: list[str]) -> Table:
    expected = measured(count, counter=REFERENCE, pattern=pattern, paths=paths)
    jobs = {
        name: lambda name=name: measured(count, counter=name, pattern=pattern, paths=paths)
        for name, (package, patterns, _) in COUNTERS.items()
        if version(package) and pattern in patterns and name != REFERENCE
    }
    results = interleaved(options.rounds, jobs) | {REFERENCE: expected}
    ours = results["tokcore"]["speed"]
    rows: list[list[object]] = [
        [
            name,
            result["speed"],
            ours / result["speed"],
            result["memory"],
            "equal" if result["digest"] == expected["digest"] else "differ",
        ]
        if "error" not in result
        else [name, None, None, None, result["error"]]
        for name, result in results.items()
    ]
    head = ["", "MB per CPU second", "tokcore is faster by", "memory, MB", "counts"]
    return Table(f"Count pre-tokens, {pattern}", head, rows, f"{expected.get('rows')} distinct pre-tokens.")


if __name__ == "__main__":
    program(__doc__, tables)
