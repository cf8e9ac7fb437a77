"""Benchmark learning: 32k merges from text, counting and merging timed apart; 128k merges from a table of many words.

    python tests/benchmarks/learn.py [--corpus FOLDER] [--limit-mb 8] [--rounds 3] [--table TABLE.parquet]

The texts are the three of the benchmarks, cut into lines, since gigabpe and tokenizers read files by line. If a library
cannot learn from counts, its time for merging is the difference between learning a vocabulary of 32,768 and one of 257.
All merges are compared with those of tokenizers. The table comes from make_word_table.py; 1, 2 and 8 threads learn from
it, and their merges must be equal.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import texts
from measuring import (
    Options,
    Result,
    Table,
    interleaved,
    measured,
    memory_before,
    parsed_options,
    peak_mb,
    timed,
    version,
)
from peers import bpe_trainer, ffbpe_counter, untrained_tokenizer

from tokcore import kernel
from tokcore.count.pretoken_tables import read_counts_of_table
from tokcore.text.byte_alphabet import BYTE_OF_ID, from_printable
from tokcore.text.patterns import PATTERNS
from tokcore.text.texts import Texts, make_texts_from_strings

VOCAB_SIZE = 32_768
REFERENCE = "tokenizers"
Merges = Iterable[tuple[bytes, bytes]]


def _lines(path: str) -> list[str]:
    with open(path, newline="") as file:  # noqa: PTH123 - a plain name came over the pipe
        return [f"{line}\n" for line in file.read().split("\n")[:-1]]


def _digest(merges: Merges) -> str:
    return hashlib.sha256(b"".join(b"%d %b%b" % (len(left), left, right) for left, right in merges)).hexdigest()


def _spelled(merges: Iterable[Sequence[str]]) -> Iterator[tuple[bytes, bytes]]:
    """Merges as files spell them, in the characters that stand for bytes."""
    for left, right in merges:
        yield from_printable(left) or b"", from_printable(right) or b""


def _tokens(left: Iterable[int], right: Iterable[int]) -> Iterator[tuple[bytes, bytes]]:
    tokens = [BYTE_OF_ID[i : i + 1] for i in range(256)]
    for a, b in zip(left, right, strict=True):
        yield tokens[a], tokens[b]
        tokens.append(tokens[a] + tokens[b])


def tokcore(path: str, pattern: str) -> Result:
    """Ours: counted and learned one after the other."""
    given = make_texts_from_strings(_lines(path))
    before = memory_before()
    with timed() as count:
        counter = kernel.Counter(pattern, 0)
        counter.add(given)
        rows = counter.take()
        del counter
    with timed() as merge:
        left, right, _ = kernel.learn_merges(rows.keys, rows.counts, VOCAB_SIZE - 256, 0)
    return _result(count.cpu, merge.cpu, before, _tokens(left.tolist(), right.tolist()))


def ffbpe(path: str, pattern: str) -> Result:
    """From its own counter, whose counts its trainer takes over."""
    import ffbpe as peer

    lines = _lines(path)
    before = memory_before()
    with timed() as count:
        counter = ffbpe_counter(pattern)
        counter.add_batch(lines)
    with timed() as merge:
        trainer = peer.BpeTrainer([], initial_alphabet="byte_level", tie_break="smallest_pair_id")
        trainer.add_word_counter(counter)
        trainer.init_training()
        trainer.train(VOCAB_SIZE)
    memory = peak_mb()
    names = {id: token for token, id in trainer.vocab.items()}
    # It returns no merges, only tokens in the order of learning. Equal tokens in equal order count as equal merges.
    return _result(count.cpu, merge.cpu, before, None, memory) | {
        "tokens": _digest((names[id], b"") for id in range(256, VOCAB_SIZE))
    }


def gigabpe(path: str, pattern: str) -> Result:
    """From a file."""
    import gigabpe as peer

    _require(pattern == "gpt2", "has the pattern gpt2 only")
    return _twice(
        lambda size: peer.train_bpe([path], size, special_tokens=[], pretokenizer="bytelevel", threads=1),
        lambda result: _spelled(result[1]),
    )


def rustbpe(path: str, pattern: str) -> Result:
    """From an iterator; breaks ties by byte values, so its merges differ from the first tie on."""
    import rustbpe as peer

    lines = _lines(path)

    def train(size: int) -> Any:
        tokenizer = peer.Tokenizer()
        tokenizer.train_from_iterator(iter(lines), size, pattern=PATTERNS[pattern])
        return tokenizer

    return _twice(train, lambda _: [])


def gigatoken(path: str, pattern: str) -> Result:
    """From one buffer, a line per document."""
    import gigatoken as peer

    _require(pattern == "gpt2", "has the pattern gpt2 only")
    joined = "\0".join(_lines(path)).encode()
    return _twice(
        lambda size: peer.train_bpe(joined, size, [], separator=b"\0"),
        lambda result: result[1],
    )


def tokenizers(path: str, pattern: str) -> Result:
    """From an iterator over the same lines."""
    lines = _lines(path)

    def train(size: int) -> Any:
        tokenizer = untrained_tokenizer(pattern)
        tokenizer.train_from_iterator(lines, bpe_trainer(size))
        return tokenizer

    def merges(tokenizer: Any) -> Merges:
        return _spelled(json.loads(tokenizer.to_str())["model"]["merges"])

    return _twice(train, merges)


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise ValueError(reason)


def _twice(train: Callable[[int], Any], merges: Callable[[Any], Merges]) -> Result:
    before = memory_before()
    with timed() as count:
        train(257)
    with timed() as both:
        result = train(VOCAB_SIZE)
    return _result(count.cpu, both.cpu - count.cpu, before, merges(result))


def _result(count: float, merge: float, before: float, merges: Merges | None, memory: float = 0.0) -> Result:
    out: Result = {"count": count, "merge": merge, "memory": (memory or peak_mb()) - before}
    if merges is not None:
        pairs = list(merges)[: VOCAB_SIZE - 256]  # gigabpe has no tokens for bytes that do not occur
        if pairs:
            out |= {"merges": _digest(pairs), "tokens": _digest((left + right, b"") for left, right in pairs)}
    return out


def learn_table(path: str, threads: int) -> Result:
    """Learn 128k merges from a count table: wall-clock and CPU seconds; memory, with keys and counts."""
    pretokens, counts = read_counts_of_table(pq.read_table(path))
    keys, numbers = Texts(pretokens.data.copy(), pretokens.offsets.copy()), counts.copy()
    del pretokens, counts
    # Memory left over from reading the file does not count.
    rest = memory_before() - (keys.data.nbytes + keys.offsets.nbytes + numbers.nbytes) / (1 << 20)
    with timed() as cost:
        left, right, _ = kernel.learn_merges(keys, numbers, 131_072 - 256, 2, 0, threads)
    return {
        "wall": cost.wall,
        "cpu": cost.cpu,
        "memory": peak_mb() - rest,
        "merges": _digest(_tokens(left.tolist(), right.tolist())),
        "rows": len(numbers),
        "num_merges": len(left),
    }


LEARNERS = (tokcore, gigabpe, ffbpe, gigatoken, rustbpe, tokenizers)


def tables(options: Options, table: Path | None = None) -> list[Table]:
    """One table per pattern, and one for the table of many words if there is one."""
    path = options.work / "lines.txt"
    with path.open("w", newline="") as file:
        for name in texts.prepare(options.corpus, options.work, options.limit_mb).values():
            for text in texts.load(name).to_pylist():
                file.write(text.replace("\r", "").replace("\0", "") + "\n")
    out = [_pattern_table(options, pattern, str(path)) for pattern in ("gpt2", "cl100k")]
    if table is not None:
        out.append(_big_table(table))
    return out


def _pattern_table(options: Options, pattern: str, path: str) -> Table:
    learners = [one for one in LEARNERS if one is tokcore or version(one.__name__)]
    if pattern != "gpt2":
        learners = [one for one in learners if one not in (gigabpe, gigatoken)]
    timed_often = {
        one.__name__: lambda one=one: measured(one, path=path, pattern=pattern)
        for one in learners
        if one is not tokenizers
    }
    results = interleaved(options.rounds, timed_often)
    if tokenizers in learners:
        results |= interleaved(1, {REFERENCE: lambda: measured(tokenizers, path=path, pattern=pattern)})
    ours, reference = results["tokcore"], results.get(REFERENCE, {})
    rows: list[list[object]] = []
    for name, result in results.items():
        if "error" in result:
            rows.append([name, *[None] * 6, result["error"]])
            continue
        total, our_total = result["count"] + result["merge"], ours["count"] + ours["merge"]
        verdict = next(
            (
                what + (" equal" if result[what] == reference[what] else " differ")
                for what in ("merges", "tokens")
                if what in result and what in reference
            ),
            "not compared",
        )
        cells = [result["count"], result["merge"], total, result["merge"] / ours["merge"], total / our_total]
        rows.append([name, *cells, result["memory"], verdict])
    head = [
        "",
        "count, s",
        "merge, s",
        "both, s",
        "merging, tokcore is faster by",
        "both, tokcore is faster by",
        "memory, MB",
        "compared with tokenizers",
    ]
    size = os.path.getsize(path) / 1e6  # noqa: PTH202
    return Table(f"Learn {VOCAB_SIZE:,} tokens, {pattern}", head, rows, f"{size:.1f} MB; CPU seconds, one thread.")


def _big_table(path: Path) -> Table:
    results = {
        threads: measured(learn_table, min(threads, 2), path=str(path), threads=threads) for threads in (1, 2, 8)
    }
    rows = [
        [f"tokcore, {threads} thread{'s' * (threads > 1)}", result["wall"], result["cpu"], result["memory"]]
        for threads, result in results.items()
    ]
    equal = "equal" if len({result["merges"] for result in results.values()}) == 1 else "DIFFERENT"
    one = results[1]
    note = f"{one['rows']:,} words, {one['num_merges']:,} merges, {equal} with 1, 2 and 8 threads; at most 2 cores."
    head = ["", "seconds by the clock", "CPU seconds", "memory, keys and counts included, MB"]
    return Table("Learn 131,072 tokens from a table of many words", head, rows, note)


def _table_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--table", type=Path, help="of make_word_table.py")


if __name__ == "__main__":
    with parsed_options(__doc__, _table_option) as (chosen, arguments):
        for each in tables(chosen, arguments.table):
            print(each.markdown())
