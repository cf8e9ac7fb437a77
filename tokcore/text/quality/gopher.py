"""The rules of Gopher (Rae et al. 2021, arXiv 2112.11446, table A1), as datatrove has them: names, limits, order.

Where they differ from datatrove's, it is in the words that are counted: see words.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

import numpy as np

from tokcore.text.quality.measures import Measure
from tokcore.text.quality.words import SIGNS, has_letter, split_words

STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")

_PARAGRAPH_BREAK = re.compile(r"\n{2,}")
_LINE_BREAK = re.compile(r"\n+")


@dataclasses.dataclass(frozen=True, slots=True)
class GopherQuality:
    """Parameters of gopher_quality. 0 leaves a limit out."""

    min_doc_words: int = 50
    max_doc_words: int = 100_000
    min_avg_word_length: float = 3.0  # in characters
    max_avg_word_length: float = 10.0
    max_symbol_word_ratio: float = 0.1  # of "#" and of "..." to words
    max_bullet_lines_ratio: float = 0.9
    max_ellipsis_lines_ratio: float = 0.3
    max_non_alpha_words_ratio: float = 0.8  # the least share of words with a letter, in spite of its name
    min_stop_words: int = 2  # different ones of stop_words
    stop_words: tuple[str, ...] = STOP_WORDS


def measure_quality(text: str, limits: GopherQuality, lang: str) -> Iterator[Measure]:
    """What gopher_quality measures of a text. Stop words of the default list are counted in English only."""
    words = split_words(text)
    real = [word for word in words if not SIGNS.issuperset(word)]
    num, num_real = max(1, len(words)), len(real)
    length = sum(map(len, real)) / num_real if num_real else 0.0
    if limits.min_doc_words:
        yield Measure("short_doc", num_real, least=limits.min_doc_words)
    if limits.max_doc_words:
        yield Measure("long_doc", num_real, most=limits.max_doc_words)
    if limits.min_avg_word_length:
        yield Measure("short_words", length, least=limits.min_avg_word_length)
    if limits.max_avg_word_length:
        yield Measure("long_words", length, most=limits.max_avg_word_length)
    if limits.max_symbol_word_ratio:
        yield Measure("hashes", text.count("#") / num, most=limits.max_symbol_word_ratio)
        yield Measure("ellipses", (text.count("...") + text.count("…")) / num, most=limits.max_symbol_word_ratio)
    lines = text.splitlines() or [""]
    if limits.max_bullet_lines_ratio:
        bullets = sum(line.lstrip().startswith(("•", "-")) for line in lines)
        yield Measure("bullet_lines", bullets / len(lines), most=limits.max_bullet_lines_ratio)
    if limits.max_ellipsis_lines_ratio:
        ends = sum(line.rstrip().endswith(("...", "…")) for line in lines)
        yield Measure("ellipsis_lines", ends / len(lines), most=limits.max_ellipsis_lines_ratio)
    if limits.max_non_alpha_words_ratio:
        share = sum(map(has_letter, words)) / num
        yield Measure("words_without_letters", share, least=limits.max_non_alpha_words_ratio)
    if limits.min_stop_words and (limits.stop_words != STOP_WORDS or re.match(r"eng?(?![A-Za-z0-9])", lang)):
        found = len(set(limits.stop_words).intersection(words))
        yield Measure("stop_words", found, least=limits.min_stop_words)


@dataclasses.dataclass(frozen=True, slots=True)
class GopherRepetition:
    """Parameters of gopher_repetition: the largest shares. 0 leaves a limit out."""

    dup_line_frac: float = 0.3
    dup_para_frac: float = 0.3
    dup_line_char_frac: float = 0.2
    dup_para_char_frac: float = 0.2
    top_2_gram: float = 0.2
    top_3_gram: float = 0.18
    top_4_gram: float = 0.16
    dup_5_gram: float = 0.15
    dup_6_gram: float = 0.14
    dup_7_gram: float = 0.13
    dup_8_gram: float = 0.12
    dup_9_gram: float = 0.11
    dup_10_gram: float = 0.1


def measure_repetition(text: str, limits: GopherRepetition, lang: str) -> Iterator[Measure]:
    """What gopher_repetition measures of a text, as shares of its paragraphs, lines and characters."""
    size = max(1, len(text))
    for what, pieces in (("para", _PARAGRAPH_BREAK.split(text.strip())), ("line", _LINE_BREAK.split(text))):
        num, characters = _count_repeated(pieces)
        for name, share in ((f"dup_{what}_frac", num / len(pieces)), (f"dup_{what}_char_frac", characters / size)):
            if most := getattr(limits, name):
                yield Measure(name, share, most=most)
    runs = _Runs(split_words(text))
    for n in (2, 3, 4):
        if (most := getattr(limits, f"top_{n}_gram")) and runs.has(n):
            yield Measure(f"top_{n}_gram", runs.measure_top(n) / size, most=most)
    for n in range(5, 11):
        if most := getattr(limits, f"dup_{n}_gram"):
            yield Measure(f"dup_{n}_gram", runs.measure_repeated(n) / size, most=most)


def _count_repeated(pieces: Sequence[str]) -> tuple[int, int]:
    """(pieces that came before, their characters)."""
    once = set(pieces)
    return len(pieces) - len(once), sum(map(len, pieces)) - sum(map(len, once))


class _Runs:
    """The runs of n words of a text, by numbers: equal runs have equal ones."""

    def __init__(self, words: Sequence[str]) -> None:
        ids = {word: number for number, word in enumerate(dict.fromkeys(words))}
        self._words = np.fromiter(map(ids.__getitem__, words), np.int64, len(words))
        self._num_ids = len(ids)
        self._ends = np.cumsum(np.fromiter(map(len, words), np.int64, len(words)))
        self._numbers = self._words  # of runs of self._n words
        self._n = 1
        self._all_differ = False  # runs of self._n words, and so all longer ones

    def has(self, n: int) -> bool:
        """Whether there is a run of n words."""
        return len(self._words) >= n

    def measure_top(self, n: int) -> int:
        """Characters of all occurrences of the most frequent run, with spaces between words; of several the first."""
        self._go_to(n)
        _, first, counts = np.unique(self._numbers, return_index=True, return_counts=True)
        times = int(counts.max())
        return (self._measure(int(first[counts == times].min())) + n - 1) * times

    def measure_repeated(self, n: int) -> int:
        """Characters of runs that came before. Those that begin within a repeated one are passed over.

        n: not less than in the call before.
        """
        if self._all_differ:
            return 0
        self._go_to(n)
        # A run that comes once neither repeats one nor is repeated.
        where = np.flatnonzero(np.bincount(self._numbers)[self._numbers] > 1)
        self._all_differ = not len(where)
        seen: set[int] = set()
        characters, end = 0, 0
        for at, number in zip(where.tolist(), self._numbers[where].tolist(), strict=True):
            if at < end:
                continue
            if number in seen:
                characters += self._measure(at)
                end = at + n
            else:
                seen.add(number)
        return characters

    def _go_to(self, n: int) -> None:
        while self._n < n:
            longer = self._numbers[:-1] * self._num_ids + self._words[self._n :]
            self._numbers = np.unique(longer, return_inverse=True)[1]
            self._n += 1

    def _measure(self, at: int) -> int:
        """Characters of the words of a run."""
        return int(self._ends[at + self._n - 1]) - (int(self._ends[at - 1]) if at else 0)
