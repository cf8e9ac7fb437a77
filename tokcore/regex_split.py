"""Splitting by any regular expression, through the `regex` package and the pinned Unicode tables: slower, same shapes.

Also the oracle of the named patterns' scanners.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import regex

from tokcore.errors import ConfigError, StageError
from tokcore.texts import Offsets, Texts
from tokcore.unicode import expand


@functools.lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> Any:
    """The compiled pattern, its classes expanded to the pinned tables.

    Raises ConfigError for a pattern that is not valid, or that depends on other Unicode tables.
    """
    expanded = expand(pattern)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return regex.compile(expanded, regex.VERSION0)
        except (regex.error, FutureWarning, DeprecationWarning, RecursionError, OverflowError) as error:
            raise ConfigError(f"the split pattern {pattern!r} is not a valid regular expression: {error}") from error


def regex_pieces(pattern: str, texts: Texts, time_limit: float | None = None) -> tuple[Offsets, Offsets]:
    """(ends, firsts) of the pre-tokens: the matches, and what lies between them, so that nothing is lost.

    An empty match cuts where it stands. A byte that is not part of well-formed UTF-8 is a character of its own.
    time_limit: seconds for one text, None for as long as it takes.

    Raises StageError if a text takes longer.
    """
    compiled = compile_pattern(pattern)
    ends: list[Offsets] = []
    firsts = np.zeros(texts.num_texts + 1, np.int64)
    for i in range(texts.num_texts):
        encoded = texts.text(i)
        text = encoded.decode("utf-8", "surrogateescape")
        cuts = _cuts(compiled, text, pattern, i, time_limit)
        if len(text) != len(encoded):
            cuts = _byte_positions(text)[cuts]
        ends.append(cuts + texts.offsets[i])
        firsts[i + 1] = firsts[i] + len(cuts)
    return np.concatenate(ends) if ends else np.zeros(0, np.int64), firsts


def _cuts(compiled: Any, text: str, pattern: str, number: int, time_limit: float | None) -> Offsets:
    """Ends of the pre-tokens of one text, in characters."""
    cuts = []
    last = 0
    try:
        for match in compiled.finditer(text, timeout=time_limit):
            for cut in match.span():
                if cut > last:
                    cuts.append(cut)
                    last = cut
    except TimeoutError as error:
        raise StageError(
            f"the split pattern {pattern!r} took more than {time_limit:g} s on text {number} of its batch"
            f" ({len(text)} characters) and stood at character {last}. Write a pattern that cannot backtrack there"
            f" (possessive ++ and *+ help), or use a named one."
        ) from error
    if last < len(text):
        cuts.append(len(text))
    return np.array(cuts, np.int64)


def _byte_positions(text: str) -> Offsets:
    """Where each character of a surrogate-escaped text, and its end, is in bytes: int64, len(text) + 1."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    widths = 1 + (codes >= 0x80) + (codes >= 0x800).astype(np.int64) + (codes >= 0x10000)
    widths[(codes >= 0xD800) & (codes < 0xE000)] = 1
    positions = np.zeros(len(codes) + 1, np.int64)
    np.cumsum(widths, out=positions[1:])
    return positions
