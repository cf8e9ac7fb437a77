"""Split by any regular expression, with the `regex` package and the pinned Unicode tables: slower than the kernel.

Returns the same arrays as the kernel, and is an oracle of its scanners.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from tokcore.errors import ConfigError, StageError
from tokcore.text.byte_alphabet import to_printable
from tokcore.text.texts import Offsets, Texts
from tokcore.text.unicode import expand, find_ranges, list_properties

SECONDS_PER_TEXT = 60.0


@functools.lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> Any:
    """The compiled pattern, with its classes spelled out from the pinned tables.

    Raises ConfigError for a pattern that is not valid or depends on other Unicode tables.
    """
    return _compile(pattern, expand(pattern))


@functools.cache
def _import_regex() -> Any:
    # Imported late: named patterns do not need it, and it takes as long to import as all of tokcore's modules.
    import regex

    return regex


def _compile(pattern: str, spelled: str) -> Any:
    regex = _import_regex()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return regex.compile(spelled, regex.VERSION0)
        except (regex.error, FutureWarning, DeprecationWarning, RecursionError, OverflowError) as error:
            raise ConfigError(f"the split pattern {pattern!r} is not a valid regular expression: {error}") from error


class _Matcher:
    """The pattern in two forms: with its classes spelled out, and as it is written, which is ten times as fast.

    They differ only for characters that the installed `regex` and the pinned tables classify differently. The fast form
    serves texts without such characters, which nearly all are.
    """

    def __init__(self, pattern: str) -> None:
        self._exact = compile_pattern(pattern)
        self._fast = _compile(pattern, pattern)
        used = list_properties(pattern)
        disputed = set().union(*map(_find_disputed, used))
        ignores_case = re.search(r"\(\?[a-z]*i", pattern) is not None
        if ignores_case:
            disputed |= {0x345, 0x399, 0x3B9, 0x1FBE}  # a mark that is a letter in the other case
        # If case is ignored, `regex` matches each of these three as any of them.
        self._always_exact = ignores_case and not used.isdisjoint({"Lu", "Ll", "Lt"})
        self._disputed = [
            # Two patterns, because `re` looks up a class in a bitmap only if all of it is below U+10000.
            re.compile("[" + "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in part) + "]")
            for part in (
                find_ranges_of(c for c in disputed if c < 0x10000),
                find_ranges_of(c for c in disputed if c >= 0x10000),
            )
            if part
        ]

    def for_text(self, text: str) -> Any:
        if self._always_exact or any(disputed.search(text) for disputed in self._disputed):
            return self._exact
        return self._fast


@functools.lru_cache(maxsize=64)
def _make_matcher(pattern: str) -> _Matcher:
    return _Matcher(pattern)


@functools.cache
def _find_disputed(name: str) -> frozenset[int]:
    """Code points that are in this class for the installed `regex` but not for the pinned tables, or the reverse."""
    classes = {"White_Space": [r"\s"], "Nd": [r"\d", r"\p{Nd}"], "Any": []}.get(name, [rf"\p{{{name}}}"])
    ours = {c for first, last in find_ranges(name) for c in range(first, last + 1)}
    every = "".join(map(chr, range(0x110000)))
    return frozenset(
        c for one in classes for c in ours.symmetric_difference(map(ord, _import_regex().findall(one, every)))
    )


def find_ranges_of(members: Iterable[int]) -> list[tuple[int, int]]:
    """The code points as inclusive ranges, ascending."""
    found: list[tuple[int, int]] = []
    for c in sorted(members):
        found[-1:] = [(found[-1][0], c)] if found and found[-1][1] == c - 1 else [*found[-1:], (c, c)]
    return found


@functools.lru_cache(maxsize=1024)
def find_cases(ranges: tuple[tuple[int, int], ...], classes: tuple[tuple[str, bool], ...]) -> frozenset[int]:
    """The characters that match a set only if case is ignored. classes: names, and whether complements are meant."""
    spelled = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
    for name, negated in classes:
        space = r"\S" if negated else r"\s"
        spelled += space if name == "White_Space" else rf"\{'P' if negated else 'p'}{{{name}}}"
    every = "".join(map(chr, range(0x110000)))
    one, all_cases = ({*compile_pattern(f"{flag}[{spelled}]").findall(every)} for flag in ("", "(?i)"))
    return frozenset(map(ord, all_cases - one))


def split_with_regex(pattern: str, texts: Texts, time_limit: float | None = None) -> tuple[Offsets, Offsets]:
    """(ends, firsts) of the pre-tokens: the matches, and the text between them, so that nothing is lost.

    An empty match cuts at its place. A byte outside of well-formed UTF-8 is a character of its own.
    time_limit: seconds for one text; None for no limit. Raises StageError if a text takes longer.
    """
    ends, _, firsts = find_matches_with_regex(pattern, texts, time_limit)
    return ends, firsts


def find_matches_with_regex(
    pattern: str,
    texts: Texts,
    time_limit: float | None = None,
    bytewise: bool = False,
    called: str = "split pattern",
) -> tuple[Offsets, npt.NDArray[np.bool_], Offsets]:
    """(ends, are_matches, firsts): as split_with_regex, and which pieces are matches.

    bytewise: the characters of texts are bytes, by their printable names. called: what errors call the pattern.
    """
    matcher = _make_matcher(pattern)
    ends: list[Offsets] = []
    are_matches: list[bool] = []
    firsts = np.zeros(texts.num_texts + 1, np.int64)
    for i in range(texts.num_texts):
        encoded = texts.text(i)
        text = to_printable(encoded) if bytewise else encoded.decode("utf-8", "surrogateescape")
        cuts, flags = _find_cuts(matcher.for_text(text), text, f"{called} {pattern!r}", i, time_limit)
        if len(text) != len(encoded):
            cuts = find_byte_positions(text)[cuts]
        ends.append(cuts + texts.offsets[i])
        are_matches += flags
        firsts[i + 1] = firsts[i] + len(cuts)
    return np.concatenate(ends) if ends else np.zeros(0, np.int64), np.array(are_matches, np.bool_), firsts


def find_all(pattern: str, text: str) -> list[str]:
    """All matches of a pattern without groups, in order.

    >>> find_all("[a-c]+", "ab, xcx")
    ['ab', 'c']
    """
    found: list[str] = _make_matcher(pattern).for_text(text).findall(text)
    return found


def _find_cuts(
    compiled: Any, text: str, called: str, number: int, time_limit: float | None
) -> tuple[Offsets, list[bool]]:
    """Ends of the pieces of one text, in characters, and which of them are matches. called: the pattern, in errors."""
    cuts: list[int] = []
    flags: list[bool] = []
    last = 0
    try:
        for match in compiled.finditer(text, timeout=time_limit):
            for cut, is_match in zip(match.span(), (False, True), strict=True):
                if cut > last:
                    cuts.append(cut)
                    flags.append(is_match)
                    last = cut
    except TimeoutError as error:
        raise StageError(
            f"the {called} took more than {time_limit:g} s on text {number} of its batch"
            f" ({len(text)} characters) and stopped at character {last}. Write a pattern that cannot backtrack there"
            f" (possessive ++ and *+ help), or use a named one."
        ) from error
    except (MemoryError, RecursionError) as error:
        raise StageError(
            f"the {called} ran out of memory on text {number} of its batch ({len(text)} characters) "
            f"at character {last}: a group that calls itself, such as (a(?1)), need not come to an end. Write out what "
            f"it should match."
        ) from error
    if last < len(text):
        cuts.append(len(text))
        flags.append(False)
    return np.array(cuts, np.int64), flags


def find_byte_positions(text: str) -> Offsets:
    """The byte position of each character of a surrogate-escaped text, and of its end: int64, len(text) + 1."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    widths = 1 + (codes >= 0x80) + (codes >= 0x800).astype(np.int64) + (codes >= 0x10000)
    widths[(codes >= 0xD800) & (codes < 0xE000)] = 1
    positions = np.zeros(len(codes) + 1, np.int64)
    np.cumsum(widths, out=positions[1:])
    return positions
