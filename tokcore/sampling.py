"""Ids that are drawn: BPE with dropout, Unigram by its probabilities; and the n best cuts of Unigram.

Everything follows from a seed: draws are a fixed function of it and of their number, probabilities are made by decimal
arithmetic, sums run in a fixed order. In plain Python, for texts one by one.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
import operator
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from itertools import pairwise
from typing import NamedTuple

from tokcore.errors import ConfigError
from tokcore.models.bpe import BpeModel, require_bpe
from tokcore.models.converted import WordUnigramModel, require_unigram
from tokcore.models.model import Model
from tokcore.models.sentencepiece import UnigramModel
from tokcore.models.sentencepiece_text import BYTE, BYTE_NAMES, NORMAL, SPACE, UNUSED, USER_DEFINED

_MASK = 2**64 - 1
_UNKNOWN_PENALTY = 10.0  # SentencePiece's: how much less than the lowest score unknown text has
_PER_BYTE = 0.1  # SentencePiece's: the score of a user's piece for each byte after its first
_SCALE_STEP = 200  # sums stay between 2**-200 and 2**200, so that none is lost in long texts
_LEAST, _MOST = 2.0**-_SCALE_STEP, 2.0**_SCALE_STEP


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


Merges = Mapping[tuple[int, int], tuple[int, int]]  # pair of ids -> (rank, what it becomes)


def merge_with_dropout(ids: Sequence[int], merges: Merges, dropout: float, draws: Draws) -> list[int]:
    """The ids of a pre-token after merging, as tokenizers drops merges.

    The merge of the lowest rank is next, the leftmost of several. It is passed over with the probability dropout, and
    may be taken after any other merge. dropout: 0 merges all, 1 none.

    >>> merge_with_dropout([1, 2, 1, 2], {(1, 2): (0, 9)}, 0.0, Draws(0))
    [9, 9]
    >>> merge_with_dropout([1, 2, 1, 2], {(1, 2): (0, 9)}, 1.0, Draws(0))
    [1, 2, 1, 2]
    """
    limit = int(dropout * 2**64)
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


@functools.lru_cache(maxsize=2)
def list_merges(model: BpeModel) -> tuple[Merges, dict[int, int]]:
    """(pair -> (rank, result), byte -> id) of a BPE."""
    table = model.merge_table
    pairs = zip(table.left.tolist(), table.right.tolist(), strict=True)
    ranked = zip(table.priority.tolist(), table.result.tolist(), strict=True)
    ids = {token[0]: id for token, id in zip(model.tokens, model.ids.tolist(), strict=True) if len(token) == 1}
    return dict(zip(pairs, ranked, strict=True)), ids


class Edge(NamedTuple):
    """A piece of a text: from start to end; unknown text has no id."""

    start: int
    end: int
    id: int | None
    score: float


@dataclasses.dataclass(frozen=True, eq=False)
class Pieces:
    """What cutting by Unigram needs: the scores of pieces, and what unknown text becomes."""

    known: dict[bytes, tuple[int, float]]
    longest: int  # bytes
    unknown_score: float
    unknown: int | None
    byte_ids: list[int]  # 256 or none
    splits: bool  # each U+2581 begins a word that is cut by itself

    def list_edges(self, text: bytes) -> list[list[Edge]]:
        """The edges that end at each place of a text; a character that is no piece is unknown."""
        ending: list[list[Edge]] = [[] for _ in range(len(text) + 1)]
        starts = [i for i in range(len(text)) if text[i] & 0xC0 != 0x80]
        for start, next_start in pairwise([*starts, len(text)]):
            has_character = False
            for end in range(start + 1, min(len(text), start + self.longest) + 1):
                if (found := self.known.get(text[start:end])) is not None:
                    ending[end].append(Edge(start, end, *found))
                    has_character = has_character or end == next_start
            if not has_character:
                ending[next_start].append(Edge(start, next_start, None, self.unknown_score))
        return ending

    def spell(self, text: bytes, edges: Sequence[Edge]) -> list[int]:
        """The ids of a cut; neighbours that are unknown are one token."""
        ids: list[int] = []
        was_unknown = False
        for edge in edges:
            if edge.id is not None:
                ids.append(edge.id)
            elif self.byte_ids:
                ids += [self.byte_ids[byte] for byte in text[edge.start : edge.end]]
            elif not was_unknown:
                ids.append(-1 if self.unknown is None else self.unknown)
            was_unknown = edge.id is None
        return ids


@functools.lru_cache(maxsize=2)
def list_pieces(model: UnigramModel | WordUnigramModel) -> Pieces:
    """The pieces of a Unigram that match text."""
    rows = zip(model.tokens, model.ids.tolist(), model.scores.tolist(), model.types.tolist(), strict=True)
    known: dict[bytes, tuple[int, float]] = {}
    lowest = float("inf")
    for token, id, score, kind in rows:
        if kind == UNUSED or (kind == BYTE and not model.bytes_are_pieces):
            continue
        lowest = min(lowest, score) if model.bytes_are_pieces or kind == NORMAL else lowest
        known[token] = (id, _PER_BYTE * (len(token) - 1) if kind == USER_DEFINED else score)
    named = dict(zip(model.tokens, model.ids.tolist(), strict=True))
    byte_ids = [named[name] for name in BYTE_NAMES] if BYTE in model.types else []
    longest = max(map(len, known))
    lowest -= _UNKNOWN_PENALTY
    return Pieces(known, longest, lowest, model.unknown, byte_ids, model.splits_every_space)


def sample_cut(text: bytes, pieces: Pieces, theta: float, draws: Draws) -> list[Edge]:
    """A cut, drawn with a probability in proportion to exp(theta * the sum of its scores).

    Adds up the weights of all cuts from the start of the text, then draws pieces from its end.
    """
    ending = pieces.list_edges(text)
    sums = [1.0, *[0.0] * len(text)]
    scales = [0] * (len(text) + 1)  # the weights of all cuts up to i are sums[i] * 2**scales[i] together
    weights = functools.cache(lambda score: _raise_to(score, theta))

    def list_shares(edges: Sequence[Edge]) -> tuple[list[float], int]:
        """The weights of the cuts that end with each edge, divided by 2**scale, and that scale."""
        scale = max(scales[edge.start] for edge in edges)
        return [sums[one.start] * weights(one.score) * 2.0 ** (scales[one.start] - scale) for one in edges], scale

    for end, edges in enumerate(ending):
        if not edges:
            continue
        shares, scale = list_shares(edges)
        total = _add_up(shares)
        while 0 < total < _LEAST:
            total *= _MOST
            scale -= _SCALE_STEP
        while total > _MOST:
            total *= _LEAST
            scale += _SCALE_STEP
        sums[end], scales[end] = total, scale
    cut: list[Edge] = []
    end = len(text)
    while end:
        edges = ending[end]
        shares, _ = list_shares(edges)
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


def _add_up(numbers: Sequence[float]) -> float:
    """Their sum, from left to right: sum() of Python 3.12 rounds in another way than that of 3.11."""
    return functools.reduce(operator.add, numbers, 0.0)


def _raise_to(score: float, theta: float) -> float:
    """exp(theta * score), the same on every machine."""
    return float((Decimal(theta) * Decimal(score)).exp(Context(prec=25)))


def find_best_cuts(text: bytes, pieces: Pieces, num: int) -> list[tuple[float, list[Edge]]]:
    """(sum of scores, cut) of the cuts with the highest sums, the best first; fewer than num if there are no more."""
    ending = pieces.list_edges(text)
    best: list[list[tuple[float, tuple[Edge, ...]]]] = [[(0.0, ())], *[[] for _ in text]]
    for end, edges in enumerate(ending):
        if end:
            found = [(total + edge.score, (*cut, edge)) for edge in edges for total, cut in best[edge.start]]
            best[end] = heapq.nlargest(num, found, key=lambda one: one[0])
    return [(total, list(cut)) for total, cut in best[len(text)]]


def split_words(text: bytes, pieces: Pieces) -> list[bytes]:
    """The parts of a normalized text that are cut by themselves."""
    if not pieces.splits:
        return [text] if text else []
    first, *rest = text.split(SPACE.encode())
    return [part for part in (first, *(SPACE.encode() + part for part in rest)) if part]


def encode_with_dropout(model: Model, pretokens: Sequence[bytes], dropout: float, draws: Draws) -> list[int]:
    """The ids of pre-tokens. Raises ConfigError for a model that is no byte-level BPE, and for no probability."""
    if not 0 <= dropout <= 1:
        raise ConfigError(f"dropout = {dropout}: expected 0 to 1")
    merges, ids = list_merges(require_bpe(model, "dropout"))
    spelled = ([ids[byte] for byte in word] for word in pretokens)
    return [id for word in spelled for id in merge_with_dropout(word, merges, dropout, draws)]


def encode_sampled(model: Model, text: bytes, theta: float, draws: Draws) -> list[int]:
    """The ids of a normalized text, drawn. Raises ConfigError for a model that is no Unigram, and for theta below 0."""
    pieces = list_pieces(require_unigram(model, "sampling"))
    if not 0 <= theta < float("inf"):
        raise ConfigError(f"sampling = {theta}: expected a theta of at least 0")
    words = split_words(text, pieces)
    return [id for word in words for id in pieces.spell(word, sample_cut(word, pieces, theta, draws))]


def list_best(model: Model, text: bytes, num: int) -> list[tuple[list[int], float]]:
    """(ids, sum of scores) of the best cuts of a normalized text. Raises ConfigError for a model that is no Unigram."""
    pieces = list_pieces(require_unigram(model, "nbest"))
    best: list[tuple[float, list[int]]] = [(0.0, [])]
    for word in split_words(text, pieces):
        found = [(total, pieces.spell(word, cut)) for total, cut in find_best_cuts(word, pieces, num)]
        best = heapq.nlargest(
            num, [(one + other, [*ids, *more]) for one, ids in best for other, more in found], key=lambda one: one[0]
        )
    return [(ids, total) for total, ids in best]
