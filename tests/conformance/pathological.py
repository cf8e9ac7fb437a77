"""Inputs that are known to break tokenizers, or to make them slow. Each is a function, so that none stays in memory."""

from __future__ import annotations

import random
from collections.abc import Callable


def _letters(n: int, alphabet: str, seed: int = 7) -> str:
    generator = random.Random(seed)
    return "".join(generator.choices(alphabet, k=n))


def _characters(n: int, first: int, last: int) -> str:
    generator = random.Random(8)
    return "".join(chr(generator.randrange(first, last)) for _ in range(n))


def _morphic(n: int, rules: dict[str, str]) -> str:
    """A fixed point of a substitution: self-similar, which makes merges compete."""
    word = "a"
    while len(word) < n:
        word = "".join(rules[letter] for letter in word)
    return word[:n]


BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

# Small enough for the other engines, with which they are compared id by id.
TEXTS: dict[str, Callable[[], str]] = {
    "empty": lambda: "",
    "nul": lambda: "\0" * 1000 + "a\0b" * 300,
    "a-100k": lambda: "a" * 100_000,
    "ab-50k": lambda: "ab" * 50_000,
    "caret-100k": lambda: "^" * 100_000,
    "spaces-50k": lambda: " " * 50_000,
    "spaces-50k-x": lambda: " " * 50_000 + "x",
    "newlines-50k": lambda: "\n" * 50_000,
    "white-space": lambda: _letters(50_000, " \t\r\n\u00a0\u2003\u3000\u0085"),
    "digits-100k": lambda: _letters(100_000, "0123456789"),
    "letters-100k": lambda: _letters(100_000, "abcdefghijklmnopqrstuvwxyz"),
    "two-letters-50k": lambda: _letters(50_000, "ab"),
    "base64-100k": lambda: _letters(100_000, BASE64),
    "fibonacci": lambda: _morphic(50_000, {"a": "ab", "b": "a"}),
    "thue-morse": lambda: _morphic(50_000, {"a": "ab", "b": "ba"}),
    "han-30k": lambda: _characters(30_000, 0x4E00, 0x9FFF),
    "thai-30k": lambda: _characters(30_000, 0xE01, 0xE3A),
    "combining-30k": lambda: "e" + "\u0301" * 30_000,
    "zwj-emoji": lambda: "👩\u200d👩\u200d👧\u200d👦🏽" * 2000,
    "contractions": lambda: (
        "".join(f"don{a}{s}" for a in "'’" for s in ("t", "T", "s", "ſ", "ll", "LL", "Ve", "K")) * 50
    ),
    "apostrophes": lambda: "'" * 10_000 + "'s's'S" * 5000,
    "all-planes": lambda: "".join(map(chr, [*range(0xD800), *range(0xE000, 0x30000, 3)])),
    "newly-assigned": lambda: (
        "".join(map(chr, [*range(0x1C80, 0x1C90), *range(0x10D40, 0x10D90), *range(0x323B0, 0x32400)])) * 20
    ),
    "unique-words": lambda: " ".join(_letters(8, "etaoinshrdlu", seed) for seed in range(10_000)),
    "special-text": lambda: "<|endoftext|>" * 2000 + "<|fim_prefix|> <|endoftext" * 500,
    "one-line-of-code": lambda: "x=[" + ",".join(f"{i}.{i * 7919 % 1000:03d}e-{i % 9}" for i in range(20_000)) + "]",
}

# Ordinary work for tokcore, too slow for other engines.
LINEAR_TEXTS: dict[str, Callable[[], str]] = {
    "a-1m": lambda: "a" * 1_000_000,
    "caret-1m": lambda: "^" * 1_000_000,
    "spaces-1m": lambda: " " * 1_000_000,
    "spaces-1m-x": lambda: " " * 1_000_000 + "x",
    "newlines-1m": lambda: "\n" * 1_000_000,
    "letters-1m": lambda: _letters(1_000_000, "abcdefghijklmnopqrstuvwxyz"),
    "fibonacci-1m": lambda: _morphic(1_000_000, {"a": "ab", "b": "a"}),
    "document-20mb": lambda: "The quick brown fox – naïve, 中文, 12345;\n" * 450_000,
}
