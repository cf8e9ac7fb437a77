"""Tokenizers that the arguments of a command line name."""

from __future__ import annotations

from collections.abc import Container

from tokcore.errors import ConfigError
from tokcore.text.patterns import PATTERNS
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.build.tokenizer_files import find_tokenizer_of_size, read_tokenizer


def load_tokenizer(
    path: str, pattern: str | None = None, vocab_size: int | None = None, pattern_key: str = "--pattern"
) -> Tokenizer:
    """The tokenizer at a path or URL, in any form that [tokenizer] from takes.

    vocab_size: the one of several sizes. pattern_key: names in messages what says how a rank file splits.
    """
    url = make_absolute(path)
    if vocab_size is not None:
        url = find_tokenizer_of_size(url, vocab_size)
    return Tokenizer(read_tokenizer(url, pattern, (), ("tokenizer", pattern_key)))


def load_against(named: tuple[str, ...], most: int, option: str = "--against") -> dict[str, Tokenizer]:
    """Name -> tokenizer, for what the command line names. Raises ConfigError for more than most of them."""
    if len(named) > most:
        raise ConfigError(f"{option}: {len(named)} tokenizers named, at most {most} fit beside each other")
    found: dict[str, Tokenizer] = {}
    for text in named:
        pattern, path = split_pattern(text)
        tokenizer = load_tokenizer(path, pattern, pattern_key="PATTERN@ before the path")
        found[name_apart(path, found)] = tokenizer
    return found


def split_pattern(text: str) -> tuple[str | None, str]:
    """The pattern that stands before a rank file, if one does, and the path."""
    pattern, at, path = text.partition("@")
    return (pattern, path) if at and pattern in PATTERNS else (None, text)


def name_apart(path: str, taken: Container[str]) -> str:
    """The last part of a path that says something, with a number if another tokenizer has that name."""
    parts = [part for part in path.rstrip("/").split("/") if part not in ("", ".", "..")]
    while len(parts) > 1 and parts[-1] in ("tokenizer", "tokenizer.json", "tokcore.json", "tokenizer.model"):
        parts.pop()
    name = parts[-1] if parts else path
    number, apart = 2, name
    while apart in taken:
        apart, number = f"{name} ({number})", number + 1
    return apart
