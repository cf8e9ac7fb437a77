"""Rounds of learning with a floor, slow and obvious: pairs are counted exactly, pieces are what lies between cuts."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, takewhile

import numpy as np
import numpy.typing as npt

from tokcore.count.pretoken_rows import Counts
from tokcore.reference.arrays import Ids, list_texts
from tokcore.reference.reference import learn_symbols, merge
from tokcore.text.texts import Bytes, Offsets

Symbols = npt.NDArray[np.uint32]


class FloorRound:
    """As tokcore.kernel.FloorRound."""

    def __init__(
        self,
        left: Ids,
        right: Ids,
        id_of_byte: bytes,
        ends_words: bool,
        max_token_bytes: int,
        threads: int,
        bound_bits: int,
        max_pieces: int,
        max_symbols: int,
    ) -> None:
        self._merges = list(zip(left.tolist(), right.tolist(), strict=True))
        self._id_of_byte, self._ends_words, self._longest = id_of_byte, ends_words, max_token_bytes
        self._max_pieces, self._max_symbols = max_pieces, max_symbols
        self._lengths = [1] * (512 if ends_words else 256)
        for a, b in self._merges:
            self._lengths.append(self._lengths[a] + self._lengths[b])
        self._num_windows = 0
        self._counts: Counter[tuple[int, int]] = Counter()
        self._pieces: Counter[tuple[int, ...]] = Counter()
        self._floor, self._last = 1, 2**64 - 1
        self._size = 1 << bound_bits
        self._bounds: list[int] | None = None  # of words elsewhere, too

    def add_counts(self, data: Bytes, offsets: Offsets, counts: Counts) -> None:
        for row, count in zip(list_texts(data, offsets), counts.tolist(), strict=True):
            self._num_windows += max(0, len(row) - 1) * count
            if self._num_windows >= 2**63:
                raise OverflowError("the pairs of the table are more than 2**63 - 1")
            for pair in pairwise(self._encode(row)):
                self._counts[pair] += count

    def num_windows(self) -> int:
        return self._num_windows

    def bounds(self) -> Counts:
        sums = [0] * self._size
        for pair, count in self._counts.items():
            sums[self._find_place(pair)] += count
        return np.array(sums, np.uint64)

    def set_bounds(self, bounds: Counts) -> None:
        self._bounds = [*map(int, bounds)]

    def highest_bound(self) -> int:
        bounds: list[int] = [*self._counts.values()] if self._bounds is None else self._bounds
        return max(bounds, default=0)

    def begin_pieces(self, count: int, last: int) -> None:
        self._floor, self._last = max(1, count), last

    def add_pieces(self, data: Bytes, offsets: Offsets, counts: Counts) -> None:
        for row, count in zip(list_texts(data, offsets), counts.tolist(), strict=True):
            if count:
                self._add_cut(self._pieces, tuple(self._encode(row)), count)
            self._raise_limit()

    def add_cut_pieces(self, symbols: Symbols, offsets: Offsets, counts: Counts) -> None:
        if symbols.max(initial=0) >= len(self._lengths):
            raise ValueError("a piece of symbols that are not there yet")
        for (start, end), count in zip(pairwise(offsets.tolist()), counts.tolist(), strict=True):
            self._add_cut(self._pieces, tuple(symbols[start:end].tolist()), count)
            self._raise_limit()

    def pieces(self) -> tuple[Symbols, Offsets, Counts]:
        symbols = np.array([symbol for piece in self._pieces for symbol in piece], np.uint32)
        offsets = np.cumsum([0, *map(len, self._pieces)]).astype(np.int64)
        return symbols, offsets, np.array(list(self._pieces.values()), np.uint64)

    def limit(self) -> tuple[int, int]:
        return self._floor, self._last

    def num_pieces(self) -> int:
        return len(self._pieces)

    def learn(self, num_merges: int, threads: int) -> tuple[Ids, Ids, Counts]:
        symbols, offsets, counts = self.pieces()
        lengths = np.array(self._lengths, np.int64)
        done = np.zeros(1, np.int64)
        found = learn_symbols(symbols, offsets, counts, lengths, num_merges, self._floor, self._longest, threads, done)
        merges = zip(*(column.tolist() for column in found), strict=True)
        num = sum(1 for _ in takewhile(lambda one: self._admits(one[2], one[:2]), merges))
        return found[0][:num], found[1][:num], found[2][:num]

    def _encode(self, row: bytes) -> list[int]:
        word = [self._id_of_byte[byte] for byte in row]
        if self._ends_words and word:
            word[-1] += 256
        first = 512 if self._ends_words else 256
        for rank, pair in enumerate(self._merges):
            word = merge(word, pair, first + rank)
        return word

    def _raise_limit(self) -> None:
        """Cut at the pair that comes last, and again until pieces fit."""
        while len(self._pieces) > self._max_pieces or sum(map(len, self._pieces)) > self._max_symbols:
            pairs = {pair for piece in self._pieces for pair in pairwise(piece)}
            lowest = min((self._bound(pair), -make_key(pair)) for pair in pairs)
            self._floor, self._last = lowest[0], -lowest[1] - 1
            if self._last < 0:
                self._floor, self._last = self._floor + 1, 2**64 - 1
            fewer: Counter[tuple[int, ...]] = Counter()
            for piece, of in self._pieces.items():
                self._add_cut(fewer, piece, of)
            self._pieces = fewer

    def _find_place(self, pair: tuple[int, int]) -> int:
        return int(pair[0] * 1_000_003 + pair[1]) % self._size

    def _add_cut(self, pieces: Counter[tuple[int, ...]], word: tuple[int, ...], count: int) -> None:
        start = 0
        for end in range(1, len(word) + 1):
            if end < len(word) and self._is_alive(word[end - 1], word[end]):
                continue
            if end - start > 1:
                pieces[word[start:end]] += count
            start = end

    def _is_alive(self, left: int, right: int) -> bool:
        if self._longest and self._lengths[left] + self._lengths[right] > self._longest:
            return False
        return self._admits(self._bound((left, right)), (left, right))

    def _bound(self, pair: tuple[int, int]) -> int:
        return self._counts[pair] if self._bounds is None else self._bounds[self._find_place(pair)]

    def _admits(self, count: int, pair: tuple[int, int]) -> bool:
        return count > self._floor or (count == self._floor and make_key(pair) <= self._last)


def make_key(pair: tuple[int, int]) -> int:
    """Of pairs in the order in which they are merged if their counts are equal."""
    return pair[0] << 32 | pair[1]
