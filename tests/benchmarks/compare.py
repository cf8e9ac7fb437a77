"""Compare two trees of tokcore on a machine with other load: encode, count and learn, through the public API.

    python tests/benchmarks/compare.py OTHER_PYTHON [--corpus FOLDER] [--limit-mb 8] [--rounds 30] [--pairs 5]

OTHER_PYTHON: the interpreter of an environment where the other tree is installed, such as OTHER/.venv/bin/python. Each
tree runs in a process of its own, which answers one question at a time. The trees take turns, and take turns at going
first. The rounds are shared out among several pairs of processes, because a process keeps the memory that it was given,
and some memory is slower. A ratio is the median over all rounds of the other tree's CPU time divided by this tree's,
with the interval that holds the true median in 95 of 100 comparisons: some machines change their speed by half within a
second, and two times taken one after the other mostly meet the same speed. A ratio above 1 means that this tree is
faster. Results must be equal.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

PATTERN = "cl100k"
VOCAB_SIZE = 8_192
# glibc gives the end of its heap back, if nothing in use happens to lie there: then the next call pays for page faults,
# up to 15 % of encoding 8 MB, in one tree and not in the other.
_KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}


def answers(ranks: str, path: str) -> dict[str, Callable[[], Any]]:
    """The questions a process can be asked: name -> a function that returns {case: (CPU seconds, digest)}."""
    # Imported here, because the process that asks may have another tokcore than the one that answers.
    import tokcore

    with pa.memory_map(path) as file:
        documents = pa.concat_arrays(pa.ipc.open_file(file).read_all().column(0).chunks)
    halves = [documents.take(pa.array(range(first, len(documents), 2))) for first in (0, 1)]

    def encode(form: str, prepare: Callable[[pa.Array], Any]) -> dict[str, tuple[float, str]]:
        tokenizer = tokcore.Tokenizer.from_tiktoken(ranks, pattern=PATTERN)
        tokenizer.encode_batch(prepare(pa.array(["one"])))  # what is built on first use is not timed
        given = [prepare(half) for half in halves]
        out = {}
        for name, texts in zip(("cold", "steady"), given, strict=True):
            start = time.process_time()
            ids = tokenizer.encode_batch(texts)
            seconds = time.process_time() - start
            out[f"encode {form}, {name}"] = (seconds, _digest(ids.values.to_numpy()))
        return out

    def count() -> dict[str, tuple[float, str]]:
        start = time.process_time()
        table = tokcore.count_pretokens(documents, pattern=PATTERN)
        return {"count": (time.process_time() - start, _digest(table["count"].to_numpy()))}

    table = tokcore.count_pretokens(documents, pattern=PATTERN)

    def learn() -> dict[str, tuple[float, str]]:
        start = time.process_time()
        merges = tokcore.learn_bpe(table, VOCAB_SIZE, allow_smaller=True)
        return {"learn": (time.process_time() - start, hashlib.sha256(repr(merges).encode()).hexdigest())}

    return {
        "Arrow": lambda: encode("Arrow", lambda array: array),
        "list of str": lambda: encode("list of str", lambda array: array.to_pylist()),
        "count": count,
        "learn": learn,
    }


def _digest(numbers: Any) -> str:
    return hashlib.sha256(numbers.tobytes()).hexdigest()


def serve(ranks: str, path: str) -> None:
    """Answer the questions on standard input, one per line."""
    known = answers(ranks, path)
    for line in sys.stdin:
        print(json.dumps(known[line.strip()]()), flush=True)


class Tree:
    """A process that runs the tokcore of one tree."""

    def __init__(self, python: str, ranks: Path, path: Path) -> None:
        command = [python, __file__, "--serve", str(ranks), str(path)]
        environment = {**os.environ, **_KEEP_MEMORY}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, question: str) -> dict[str, tuple[float, str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        if not (line := self._process.stdout.readline()):
            raise SystemExit(f"the process of {self._process.args[0]} ended")  # type: ignore[index]
        return json.loads(line)  # type: ignore[no-any-return]

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def compare(trees: tuple[Tree, Tree], rounds: int, times: dict[str, list[tuple[float, float]]]) -> None:
    """Add to what is known: case -> the CPU seconds of the other tree and of this one, round by round."""
    for number in range(rounds):
        for question in ("Arrow", "list of str", "count", "learn"):
            results: list[dict[str, tuple[float, str]]] = [{}, {}]
            for which in (0, 1) if number % 2 else (1, 0):
                results[which] = trees[which].ask(question)
            for case in results[0]:
                if results[0][case][1] != results[1][case][1]:
                    raise SystemExit(f"{case}: the trees give different results")
                times.setdefault(case, []).append((results[0][case][0], results[1][case][0]))


def describe(times: list[tuple[float, float]]) -> list[object]:
    """The medians of both trees in milliseconds, that of their ratios, and where its 95 % interval begins and ends."""
    other, this = (1000 * statistics.median(column) for column in zip(*times, strict=True))
    ratios = sorted(other / this for other, this in times)
    spread = math.ceil(0.98 * math.sqrt(len(ratios)))  # ranks to either side; of the binomial distribution
    first, last = max(0, len(ratios) // 2 - spread), min(len(ratios) - 1, len(ratios) // 2 + spread)
    return [other, this, statistics.median(ratios), ratios[first], ratios[last]]


def main() -> None:
    """Measure and print."""
    import texts
    from measuring import Table, machine, parsed_options

    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("other", help="interpreter of the other tree")
        parser.add_argument("--pairs", type=int, default=5, help="pairs of processes")
        parser.set_defaults(rounds=30)

    with parsed_options(__doc__, add) as (options, arguments):
        ranks = texts.rank_file(options.vocab, options.work)
        rows: list[list[object]] = []
        for name, path in texts.prepare(options.corpus, options.work, options.limit_mb).items():
            times: dict[str, list[tuple[float, float]]] = {}
            for _ in range(arguments.pairs):
                trees = Tree(arguments.other, ranks, path), Tree(sys.executable, ranks, path)
                try:
                    compare(trees, -(-options.rounds // arguments.pairs), times)
                finally:
                    for tree in trees:
                        tree.end()
            rows += [[f"{name}, {case}", *describe(own)] for case, own in times.items()]
        print(machine() + "\n")
        print(Table("Milliseconds of CPU", ["", "other tree", "this tree", "ratio", "from", "to"], rows).markdown())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:])
    else:
        main()
