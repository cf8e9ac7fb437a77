"""Benchmark inputs that slow tokenizers down or break them: milliseconds of CPU time, one thread, cl100k ranks.

    python tests/benchmarks/pathological.py [--vocab FILE] [--rounds 3]

One tokenizer encodes all inputs, each once, one after the other. Ids are compared with tiktoken's, or, where its
regular expression engine gives up, with those of most libraries; `!` marks other ids, `E` an error.
"""

from __future__ import annotations

import base64
import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import texts
from measuring import Options, Result, Table, interleaved, measured, program, timed
from peers import ENCODERS, installed

NAMES = [name for name in ENCODERS if name not in ("tokcore, portable", "gigatoken, one buffer", "tokenizers")]
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _random(n: int, alphabet: str) -> str:
    return "".join(random.Random(7).choices(alphabet, k=n))


def _words(n: int) -> list[str]:
    chance = random.Random(8)
    return ["".join(chance.choices(LETTERS, k=chance.randint(6, 12))) for _ in range(n)]


def _zipf(n: int) -> str:
    words = _words(20_000)
    return " ".join(random.Random(9).choices(words, [1 / (i + 1) for i in range(len(words))], k=n))


INPUTS: dict[str, Callable[[], list[str]]] = {
    "a x 1M": lambda: ["a" * 1_000_000],
    "a x 2M": lambda: ["a" * 2_000_000],
    "ab x 500k": lambda: ["ab" * 500_000],
    "^ x 1M": lambda: ["^" * 1_000_000],
    "space x 1M": lambda: [" " * 1_000_000],
    "space x 1M, x": lambda: [" " * 1_000_000 + "x"],
    "line feed x 1M": lambda: ["\n" * 1_000_000],
    "white space, 1M": lambda: [_random(1_000_000, " \t\r\n\u00a0\u2003\u3000\u0085")],
    "digits, 1M": lambda: [_random(1_000_000, "0123456789")],
    "letters, 1M": lambda: [_random(1_000_000, LETTERS)],
    "letters, 2M": lambda: [_random(2_000_000, LETTERS)],
    "base64, 1M": lambda: [base64.b64encode(random.Random(3).randbytes(750_000)).decode()],
    "Han, 300k": lambda: [_random(300_000, "".join(map(chr, range(0x4E00, 0x9FA0))))],
    "Thai, 300k": lambda: [_random(300_000, "".join(map(chr, range(0xE01, 0xE3A))))],
    "combining marks, 300k": lambda: ["e" + "\u0301" * 300_000],
    "zwj emoji": lambda: ["👩\u200d👩\u200d👧\u200d👦🏽" * 10_000],
    "apostrophes": lambda: ["'" * 100_000 + "'s's'S'LL" * 50_000],
    "all planes": lambda: ["".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))],
    "400k unique words": lambda: [" ".join(_words(400_000))],
    "Zipf's tail, 500k words": lambda: [_zipf(500_000)],
    "200k tiny documents": lambda: [f"doc {i}" for i in range(200_000)],
    "100k empty documents": lambda: [""] * 100_000,
    "one document of 20 MB": lambda: ["The quick brown fox – naïve, 中文, 12345;\n" * 430_000],
    "special tokens as text": lambda: ["<|endoftext|>" * 50_000],
    "NUL x 500k": lambda: ["\0" * 250_000 + "a\0b" * 80_000],
}


def encode(peer: str, ranks: str) -> Result:
    """For every input: milliseconds, and a digest of all ids and of where documents end."""
    loaded = ENCODERS[peer].load(ranks, 1)
    loaded.encode(loaded.prepare(pa.array(["a few words", "and some more"], pa.large_string())))
    out: Result = {}
    for case, documents in INPUTS.items():
        try:
            prepared = loaded.prepare(pa.array(documents(), pa.large_string()))
            with timed() as cost:
                result = loaded.encode(prepared)
            out[case] = cost.cpu * 1000
            out[f"{case}: digest"] = _digest(loaded.ids(result))
            del result  # frees the ids now, not while the next input is timed
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a Rust panic is not an Exception
            out[case] = f"E {type(error).__name__}"
    return out


def _digest(documents: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for ids in documents:
        digest.update(len(ids).to_bytes(8, "little") + np.asarray(ids, "<i4").tobytes())
    return digest.hexdigest()


def tables(options: Options) -> list[Table]:
    """One table, with a row per input and a column per library."""
    ranks = texts.rank_file(options.vocab, options.work)
    names = installed(NAMES)
    jobs = {name: lambda name=name: measured(encode, peer=name, ranks=ranks) for name in names}
    results = interleaved(options.rounds, jobs)
    rows = [[case, *_cells(case, results)] for case in INPUTS]
    return [Table("Pathological inputs, ms", ["", *names], rows)]


def _cells(case: str, results: dict[str, Result]) -> list[object]:
    key = f"{case}: digest"
    votes = Counter(result[key] for result in results.values() if key in result)
    expected = results["tiktoken"].get(key) or votes.most_common(1)[0][0]
    return [
        f"{result[case]:.1f}" + ("" if result[key] == expected else "!") if key in result else "E"
        for result in results.values()
    ]


if __name__ == "__main__":
    program(__doc__, tables)
