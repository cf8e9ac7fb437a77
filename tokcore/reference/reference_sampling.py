"""Ids that are drawn, in plain Python: BPE and WordPiece with dropout, Unigram by its probabilities.

Everything follows from a seed: draws are a fixed function of it and of their number, sums run in a fixed order. The
classes at the end are those of tokcore.kernel, with the arguments that they have in the native module.
"""

from __future__ import annotations

import dataclasses
import heapq
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import regex

from tokcore.reference.arrays import Ids, join_ids, list_pieces, list_texts
from tokcore.text.texts import Bytes, Offsets
from tokcore.text.unicode import expand

Seeds = npt.NDArray[np.uint64]

SPACE = "\u2581"
_MASK = 2**64 - 1
_STEP_BITS = 200
_SPACE = regex.compile(expand(r"\s+"))


@dataclasses.dataclass(slots=True)
class Draws:
    """Numbers of 64 bits, each a function of the seed and of how many came before (splitmix64)."""

    seed: int
    number: int = 0

    def next(self) -> int:
        """The next number.

        >>> draws = Draws(0)
        >>> [hex(draws.next()) for _ in range(2)]
        ['0xe220a8397b1dcdaf', '0x6e789e6aa1b965f4']
        """
        self.number += 1
        z = (self.seed + self.number * 0x9E3779B97F4A7C15) & _MASK
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
        return z ^ z >> 31


# ----------------------------------------------------------------------------------------------------------------- BPE

Merges = Mapping[tuple[int, int], tuple[int, int]]  # pair of ids -> (rank, what it becomes)


def merge_with_dropout(ids: Sequence[int], merges: Merges, limit: int, draws: Draws) -> list[int]:
    """The ids of a pre-token after merging, as tokenizers drops merges.

    The merge of the lowest rank is next, the leftmost of several. It is passed over with the probability
    limit / 2**64, and may be taken again after any other.

    >>> merge_with_dropout([1, 2, 1, 2], {(1, 2): (0, 9)}, 0, Draws(0))
    [9, 9]
    >>> merge_with_dropout([1, 2, 1, 2], {(1, 2): (0, 9)}, 2**64, Draws(0))
    [1, 2, 1, 2]
    """
    symbols: list[int | None] = list(ids)
    following = [*range(1, len(ids)), -1]
    before = [*range(-1, len(ids) - 1)]
    queue: list[tuple[int, int, int]] = []  # rank, place, what it becomes

    def look_at(place: int) -> None:
        if place >= 0 and following[place] >= 0:
            left, right = symbols[place], symbols[following[place]]
            if left is not None and right is not None and (left, right) in merges:
                rank, result = merges[left, right]
                heapq.heappush(queue, (rank, place, result))

    for place in range(len(ids) - 1):
        look_at(place)
    passed_over: list[tuple[int, int, int]] = []
    while queue:
        top = heapq.heappop(queue)
        if draws.next() < limit:
            passed_over.append(top)
            continue
        for one in passed_over:
            heapq.heappush(queue, one)
        passed_over.clear()
        _, place, result = top
        left, right_place = symbols[place], following[place]
        if left is None or right_place < 0:
            continue
        right = symbols[right_place]
        if right is None or merges.get((left, right), (0, -1))[1] != result:
            continue  # one of the two has been merged since
        symbols[place], symbols[right_place] = result, None
        following[place] = following[right_place]
        if following[place] >= 0:
            before[following[place]] = place
        look_at(before[place])
        look_at(place)
    return [id for id in symbols if id is not None]


# ------------------------------------------------------------------------------------------------------------ WordPiece


def match_with_dropout(
    word: str, first: Mapping[str, int], further: Mapping[str, int], limit: int, draws: Draws
) -> list[int] | None:
    """The ids of a word: at each place the longest token that matches and is not passed over; None if there is none.

    A token of one character is never passed over, others are with the probability limit / 2**64.

    >>> match_with_dropout("aab", {"a": 0, "aa": 1}, {"b": 2, "a": 3, "ab": 4}, 0, Draws(0))
    [1, 2]
    >>> match_with_dropout("aab", {"a": 0, "aa": 1}, {"b": 2, "a": 3, "ab": 4}, 2**64, Draws(0))
    [0, 3, 2]
    """
    ids: list[int] = []
    begin = 0
    while begin < len(word):
        tokens = further if begin else first
        ends = [end for end in range(len(word), begin, -1) if word[begin:end] in tokens]
        taken = next((end for end in ends if end == begin + 1 or draws.next() >= limit), None)
        if taken is None:
            return None
        ids.append(tokens[word[begin:taken]])
        begin = taken
    return ids


# -------------------------------------------------------------------------------------------------------------- Unigram


class Edge(NamedTuple):
    """A piece of a text: from start to end; unknown text has no id.

    weight: a score, or what it is drawn by, which is to be multiplied by 2**(200 * scale).
    """

    start: int
    end: int
    id: int | None
    weight: float
    scale: int = 0


@dataclasses.dataclass(frozen=True, eq=False)
class Pieces:
    """What cutting by Unigram needs: pieces with scores or weights, and what unknown text becomes."""

    known: Mapping[bytes, tuple[int, float] | tuple[int, float, int]]  # id, weight and, if it is not 0, scale
    longest: int  # bytes
    unknown_weight: float
    unknown: int | None
    byte_ids: list[int]  # 256 or none
    splits: bool  # each U+2581 begins a word that is cut by itself
    unknown_scale: int = 0

    def list_edges(self, text: bytes) -> list[list[Edge]]:
        """The edges that end at each place of a text; a character that is no piece is unknown."""
        ending: list[list[Edge]] = [[] for _ in range(len(text) + 1)]
        starts = [i for i in range(len(text)) if i == 0 or text[i] & 0xC0 != 0x80]
        for start, next_start in pairwise([*starts, len(text)]):
            has_character = False
            for end in range(start + 1, min(len(text), start + self.longest) + 1):
                if (found := self.known.get(text[start:end])) is not None:
                    ending[end].append(Edge(start, end, *found))
                    has_character = has_character or end == next_start
            if not has_character:
                ending[next_start].append(Edge(start, next_start, None, self.unknown_weight, self.unknown_scale))
        return ending

    def spell(self, text: bytes, edges: Sequence[Edge], was_unknown: bool = False) -> list[int]:
        """The ids of a cut; neighbours that are unknown are one token. was_unknown: whether what is before is."""
        ids: list[int] = []
        for edge in edges:
            if edge.id is not None:
                ids.append(edge.id)
            elif self.byte_ids:
                ids += [self.byte_ids[byte] for byte in text[edge.start : edge.end]]
            elif not was_unknown:
                ids.append(-1 if self.unknown is None else self.unknown)
            was_unknown = edge.id is None
        return ids

    def split_words(self, text: bytes) -> list[bytes]:
        """The parts of a normalized text that are cut by themselves."""
        if not self.splits:
            return [text] if text else []
        first, *rest = text.split(SPACE.encode())
        return [part for part in (first, *(SPACE.encode() + part for part in rest)) if part]


def sample_cut(text: bytes, pieces: Pieces, draws: Draws) -> list[Edge]:
    """A cut, drawn with a probability in proportion to the product of its weights.

    Sums of the weights of all cuts run forward, then pieces are drawn from the end.
    """
    ending = pieces.list_edges(text)
    sums = [1.0, *[0.0] * len(text)]
    scales = [0] * (len(text) + 1)  # sums[i] is to be multiplied by 2**(200 scales[i])
    step = 2.0**_STEP_BITS

    def find_scale(edges: Sequence[Edge]) -> int:
        return max(scales[edge.start] + edge.scale for edge in edges)

    def list_shares(edges: Sequence[Edge], scale: int) -> list[float]:
        return [
            sums[edge.start] * edge.weight * 2.0 ** max(_STEP_BITS * (scales[edge.start] + edge.scale - scale), -1200)
            for edge in edges
        ]

    for end, edges in enumerate(ending):
        if not edges:
            continue
        scale = find_scale(edges)
        total = _add_up(list_shares(edges, scale))
        while 0 < total < 1 / step:
            total *= step
            scale -= 1
        while total > step:
            total *= 1 / step
            scale += 1
        sums[end], scales[end] = total, scale
    cut: list[Edge] = []
    end = len(text)
    while end:
        edges = ending[end]
        shares = list_shares(edges, find_scale(edges))
        left = draws.next() / 2**64 * _add_up(shares)
        chosen = edges[-1]
        for edge, share in zip(edges, shares, strict=True):
            left -= share
            if left < 0:
                chosen = edge
                break
        cut.append(chosen)
        end = chosen.start
    return cut[::-1]


def _add_up(values: Sequence[float]) -> float:
    """The sum, rounded after each step: sum() of newer Pythons is more exact."""
    total = 0.0
    for value in values:
        total += value
    return total


# ------------------------------------------------------------------------------------------- as tokcore.kernel has them


class DropoutEncoder(ABC):
    """What the next two have in common."""

    @abstractmethod
    def encode_piece(self, piece: bytes, limit: int, draws: Draws) -> list[int]:
        """The ids of one pre-token; something is passed over with the probability limit / 2**64."""

    def encode(
        self, data: Bytes, offsets: Offsets, ends: Offsets, firsts: Offsets, seeds: Seeds, last: int
    ) -> tuple[Ids, Offsets]:
        rows = []
        for seed, pieces in zip(seeds.tolist(), list_pieces(data, offsets, ends, firsts), strict=True):
            draws = Draws(seed)
            rows.append([id for piece in pieces for id in self.encode_piece(piece, last + 1, draws)])
        return join_ids(rows)


class DropoutBpe(DropoutEncoder):
    """As tokcore.kernel.DropoutBpe."""

    def __init__(self, byte_ids: Ids, left: Ids, right: Ids, result: Ids, priority: npt.NDArray[np.uint32]) -> None:
        self._byte_ids = byte_ids.tolist()
        self._merges: dict[tuple[int, int], tuple[int, int]] = {}
        for *pair, rank, made in zip(left.tolist(), right.tolist(), priority.tolist(), result.tolist(), strict=True):
            self._merges.setdefault((pair[0], pair[1]), (rank, made))

    def encode_piece(self, piece: bytes, limit: int, draws: Draws) -> list[int]:
        return merge_with_dropout([self._byte_ids[byte] for byte in piece], self._merges, limit, draws)


class DropoutWordpiece(DropoutEncoder):
    """As tokcore.kernel.DropoutWordpiece."""

    def __init__(
        self,
        data: Bytes,
        offsets: Offsets,
        token_ids: Ids,
        continues: Bytes,
        unknown: int,
        max_characters: int,
        drops_space: bool,
    ) -> None:
        self._first: dict[str, int] = {}
        self._further: dict[str, int] = {}
        for token, id, goes_on in zip(list_texts(data, offsets), token_ids.tolist(), continues.tolist(), strict=True):
            (self._further if goes_on else self._first)[token.decode()] = id
        self._unknown = unknown
        self._max_characters = max_characters
        self._drops_space = drops_space

    def encode_piece(self, piece: bytes, limit: int, draws: Draws) -> list[int]:
        text = piece.decode("utf-8", "surrogateescape")
        if self._drops_space and _SPACE.fullmatch(text):
            return []
        if self._max_characters and len(text) > self._max_characters:
            return [self._unknown]
        found = match_with_dropout(text, self._first, self._further, limit, draws)
        return [self._unknown] if found is None else found


class SampledUnigram:
    """As tokcore.kernel.SampledUnigram."""

    def __init__(
        self,
        data: Bytes,
        offsets: Offsets,
        ids: Ids,
        weights: npt.NDArray[np.float64],
        scales: Ids,
        unknown: int,
        byte_ids: Ids,
        splits: bool,
        fuses: bool,
    ) -> None:
        *of_pieces, last = zip(weights.tolist(), scales.tolist(), strict=True)
        rows = zip(list_texts(data, offsets), ids.tolist(), of_pieces, strict=True)
        known = {text: (id, *row) for text, id, row in rows}
        self._pieces = Pieces(known, max(map(len, known)), last[0], unknown, byte_ids.tolist(), splits, last[1])
        self._fuses = fuses

    def encode(self, data: Bytes, offsets: Offsets, seeds: Seeds) -> tuple[Ids, Offsets, Offsets]:
        rows, num_words = [], []
        for seed, text in zip(seeds.tolist(), list_texts(data, offsets), strict=True):
            draws = Draws(seed)
            words = self._pieces.split_words(text)
            was_unknown = False
            ids: list[int] = []
            for word in words:
                cut = sample_cut(word, self._pieces, draws)
                ids += self._pieces.spell(word, cut, was_unknown and self._fuses)
                was_unknown = cut[-1].id is None
            rows.append(ids)
            num_words.append(len(words))
        return *join_ids(rows), np.array(num_words, np.int64)
