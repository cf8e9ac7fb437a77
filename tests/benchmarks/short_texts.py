"""Benchmark short texts, one a call, with cl100k ranks: microseconds of CPU time for each, of every installed library.

    python tests/benchmarks/short_texts.py [--corpus FOLDER] [--vocab FILE] [--rounds 3]

A message is 50 to 200 characters of English. A prompt is of about as many tokens as its column says, and known. New:
a library sees the messages for the first time, after some thousand others. Known: it has seen them before. Libraries
take turns within one process, so that other work on the machine slows all of them down alike; the median turn counts.
Ids are compared first.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import texts
from measuring import Options, Result, Table, interleaved, measured, program, version
from peers import load_tiktoken

TURNS = 21
TURN = 200  # messages
SEEN_BEFORE = 3000  # messages
PROMPTS = (128, 1024, 8192, 32_768)  # tokens
BYTES_PER_TOKEN = 4
SPECIAL_TOKENS = {"<|endoftext|>": 100_257, "<|fim_prefix|>": 100_258, "<|fim_middle|>": 100_259}

Encode = Callable[[str], Any]


def load(ranks: str) -> dict[str, Encode]:
    """What encodes one text, of every installed library, and our other ways to do so."""
    from tokcore import Tokenizer

    ours = Tokenizer.from_tiktoken(ranks, pattern="cl100k", special_tokens=SPECIAL_TOKENS)
    loaded: dict[str, Encode] = {
        "tokcore": ours.encode,
        "tokcore, special tokens allowed": lambda text: ours.encode(text, "all"),
        "tokcore, encode_batch": lambda text: ours.encode_batch([text]).values.to_numpy(),
        "tokcore, count_tokens": ours.count_tokens,
    }
    if version("gigatoken"):
        import gigatoken

        loaded["gigatoken"] = gigatoken.Tokenizer.from_tiktoken(ranks, pretokenizer="cl100k").encode
    if version("fastokens"):
        import fastokens

        loaded["fastokens"] = fastokens.Tokenizer.from_tiktoken(ranks, encoding="cl100k_base").encode
    if version("tiktoken"):
        loaded["tiktoken"] = load_tiktoken(ranks).encode_ordinary
    return loaded


def measure(path: str, ranks: str) -> Result:
    """Name of a library -> of each column the microseconds for a text; under "wrong" those with other ids."""
    documents = [text for text in texts.load(path).to_pylist() if len(text) > 200]
    messages = cut_messages(documents, SEEN_BEFORE + TURN * TURNS)
    seen, fresh = messages[:SEEN_BEFORE], messages[SEEN_BEFORE:]
    joined = "\n".join(documents)
    prompts = {num: cut_evenly(joined, num * BYTES_PER_TOKEN)[: max(1, 20_000 // num)] for num in PROMPTS}
    encoders = load(ranks)
    wrong = [name for name, encode in encoders.items() if not gives(encode, encoders["tokcore"], seen)]
    turns: dict[str, dict[str, list[float]]] = {name: {} for name in encoders}
    for i in range(TURNS):
        fresh_now = fresh[i * TURN : (i + 1) * TURN]
        given = {"new": fresh_now, "known": seen[:TURN]} | {str(num): some for num, some in prompts.items()}
        for column, chosen in given.items():
            order = list(encoders.items())
            for name, encode in order[i % len(order) :] + order[: i % len(order)]:
                if column != "new" or not name.startswith("tokcore, "):  # they share what tokcore has seen
                    turns[name].setdefault(column, []).append(time_each(encode, chosen))
    medians = {name: {key: statistics.median(values) for key, values in own.items()} for name, own in turns.items()}
    return {"wrong": wrong, "medians": medians}


def gives(encode: Encode, other: Encode, messages: Sequence[str]) -> bool:
    """Whether both give the same ids, or as many as one of them counts."""
    for message in messages:
        found, expected = encode(message), other(message).tolist()
        found = getattr(found, "ids", found)
        if found != len(expected) if isinstance(found, int) else [*map(int, found)] != expected:
            return False
    return True


def cut_messages(documents: Sequence[str], num: int) -> list[str]:
    """Messages of 50 to 200 characters."""
    chance = random.Random(1)
    out = []
    for document in chance.choices(documents, k=num):
        start = chance.randrange(len(document) - 199)
        out.append(document[start : start + chance.randint(50, 200)])
    return out


def cut_evenly(text: str, size: int) -> list[str]:
    """The text in pieces of that many characters."""
    return [text[start : start + size] for start in range(0, max(len(text) - size, 1), size)]


def time_each(encode: Encode, messages: Sequence[str]) -> float:
    """Microseconds of CPU time for each message."""
    start = time.process_time()
    for message in messages:
        encode(message)
    return (time.process_time() - start) / len(messages) * 1e6


def tables(options: Options) -> list[Table]:
    """One table: libraries and our ways to encode, by what is encoded."""
    path = texts.prepare(options.corpus, options.work, options.limit_mb)["english"]
    ranks = texts.rank_file(options.vocab, options.work)
    columns = ["new", "known", *map(str, PROMPTS)]
    rounds = [interleaved(1, {i: lambda: measured(measure, path=path, ranks=ranks)})[i] for i in range(options.rounds)]
    if failed := [one["error"] for one in rounds if "error" in one]:
        raise SystemExit(failed[0])
    rows: list[list[object]] = []
    for name in rounds[0]["medians"]:
        found = [[one["medians"][name].get(column) for column in columns] for one in rounds]
        medians = [None if None in values else statistics.median(values) for values in zip(*found, strict=True)]
        rows.append([name, *medians, "differ" if name in rounds[0]["wrong"] else "equal"])
    head = ["", "new", "known", *(f"{num:,} tokens" for num in PROMPTS), "ids"]
    return [Table("Encode one text a call", head, rows, "Microseconds of CPU time for each text.")]


if __name__ == "__main__":
    program(__doc__, tables)
