"""Ids that are drawn: BPE and WordPiece with dropout, Unigram by its probabilities; and the n best cuts of Unigram.

What is drawn for a text follows from its seed alone. Weights are made by decimal arithmetic, so they are the same on
every machine. Leaves to others: drawing (the kernel), normalizing and splitting (tokcore.tokenizer.tokenizer).
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import NamedTuple, TypeAlias

import numpy as np

from tokcore.errors import ConfigError
from tokcore.kernel import DropoutBpe, DropoutWordpiece, SampledUnigram, Seeds
from tokcore.models.bpe import is_bpe, require_bpe
from tokcore.models.model import Model, describe_kind
from tokcore.models.sentencepiece.converted import WordUnigramModel, require_unigram
from tokcore.models.sentencepiece.piece_text import BYTE, BYTE_NAMES, NORMAL, SPACE, UNUSED, USER_DEFINED
from tokcore.models.sentencepiece.scored_pieces import UnigramModel
from tokcore.models.wordpiece.longest_match import find_wordpiece
from tokcore.reference.reference_sampling import Draws, Edge, Pieces
from tokcore.text.texts import make_texts_from_strings

_UNKNOWN_PENALTY = 10.0  # SentencePiece's: how much less than the lowest score unknown text has
_PER_BYTE = 0.1  # SentencePiece's: the score of a user's piece for each byte after its first
_DECIMALS = Context(prec=28)
_STEP = Decimal(2**200).ln(_DECIMALS)  # weights are floats and powers of 2**200: see SampledUnigram
_MOST_EXPONENT = 340  # of e, whose power lies within 2**500
_MOST_STEPS = 2**30

Probability: TypeAlias = float | Decimal


class Randomness(NamedTuple):
    """How ids are drawn; one of the two is set.

    dropout: the probability, from 0 to 1, with which a merge (of a byte-level BPE, each time that it is next) or a
    token that matches (of WordPiece, but single characters) is passed over. sampling: theta of at least 0; a cut of a
    Unigram is drawn in proportion to exp(theta * sum of scores).
    """

    dropout: Probability | None = None
    sampling: Probability | None = None

    def check(self, model: Model) -> None:
        """Raise ConfigError, naming what is wrong, unless ids of this model can be drawn so."""
        if (self.dropout is None) == (self.sampling is None):
            raise ConfigError("dropout and sampling exclude each other: give one of them")
        if self.dropout is not None:
            if not 0 <= self.dropout <= 1:
                raise ConfigError(f"dropout = {self.dropout}: expected 0 to 1")
            if find_wordpiece(model) is None and not is_bpe(model):
                raise ConfigError(
                    f"dropout needs a byte-level BPE or a WordPiece, and this tokenizer is {describe_kind(model.kind)}"
                )
        if self.sampling is not None:
            require_unigram(model, "sampling")
            if not 0 <= self.sampling < float("inf"):
                raise ConfigError(f"sampling = {self.sampling}: expected a theta of at least 0")

    @property
    def last_passed(self) -> int:
        """The largest number of 64 bits that passes something over; -1 if none does."""
        assert self.dropout is not None
        numerator, denominator = self.dropout.as_integer_ratio()
        return numerator * 2**64 // denominator - 1


def derive_seeds(seeds: Seeds, numbers: Sequence[int]) -> Seeds:
    """A seed for each part of texts. seeds: of their texts. numbers: of the parts in them; the first has the text's.

    >>> derive_seeds(np.array([7, 7], np.uint64), [0, 1]).tolist()
    [7, 7191089600892374487]
    """
    pairs = zip(seeds.tolist(), numbers, strict=True)
    return np.array([Draws(seed, number - 1).next() if number else seed for seed, number in pairs], np.uint64)


def make_dropout_encoder(model: Model) -> DropoutBpe | DropoutWordpiece:
    """What draws ids of a model whose dropout Randomness.check has found possible."""
    if (wordpiece := find_wordpiece(model)) is not None:
        return wordpiece.dropout_encoder()
    bpe = require_bpe(model, "dropout")
    table = bpe.merge_table
    byte_ids = np.zeros(256, np.int32)
    for token, id in zip(bpe.tokens, bpe.ids.tolist(), strict=True):
        if len(token) == 1:
            byte_ids[token[0]] = id
    return DropoutBpe(byte_ids, table.left, table.right, table.result, table.priority)


def make_sampled_encoder(model: Model, theta: Probability) -> SampledUnigram:
    """What draws cuts of a Unigram."""
    unigram = require_unigram(model, "sampling")
    pieces = list_pieces(unigram)
    weigh = functools.cache(lambda score: _weigh(score, Decimal(theta)))
    ids, scores = zip(*pieces.known.values(), strict=True)
    weights, scales = zip(*map(weigh, (*scores, pieces.unknown_weight)), strict=True)
    # Where U+2581 only begins pieces, every cut has one before each.
    is_cut_at_spaces = all(SPACE.encode() not in token[1:] for token in pieces.known)
    return SampledUnigram(
        make_texts_from_strings([*pieces.known]),
        np.array(ids, np.int32),
        np.array(weights, np.float64),
        np.array(scales, np.int32),
        -1 if pieces.unknown is None else pieces.unknown,
        np.array(pieces.byte_ids, np.int32),
        pieces.splits or is_cut_at_spaces,
        not pieces.splits,
    )


def _weigh(score: float, theta: Decimal) -> tuple[float, int]:
    """exp(theta * score) as a float and how often it is multiplied by 2**200, the same on every machine."""
    exponent = _DECIMALS.multiply(theta, Decimal(score))
    if abs(exponent) <= _MOST_EXPONENT:
        return float(exponent.exp(_DECIMALS)), 0
    steps = int(_DECIMALS.divide(exponent, _STEP))
    if abs(steps) > _MOST_STEPS:
        return 1.0, _MOST_STEPS if steps > 0 else -_MOST_STEPS
    rest = _DECIMALS.subtract(exponent, _DECIMALS.multiply(Decimal(steps), _STEP))
    return float(rest.exp(_DECIMALS)), steps


@functools.lru_cache(maxsize=2)
def list_pieces(model: UnigramModel | WordUnigramModel) -> Pieces:
    """The pieces of a Unigram that match text, with their scores."""
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


def find_best_cuts(text: bytes, pieces: Pieces, num: int) -> list[tuple[float, list[Edge]]]:
    """(sum of scores, cut) of the cuts with the highest sums, the best first; fewer than num if there are no more."""
    ending = pieces.list_edges(text)
    best: list[list[tuple[float, tuple[Edge, ...]]]] = [[(0.0, ())], *[[] for _ in text]]
    for end, edges in enumerate(ending):
        if end:
            found = [(total + edge.weight, (*cut, edge)) for edge in edges for total, cut in best[edge.start]]
            best[end] = heapq.nlargest(num, found, key=lambda one: one[0])
    return [(total, list(cut)) for total, cut in best[len(text)]]


def list_best(model: Model, text: bytes, num: int) -> list[tuple[list[int], float]]:
    """(ids, sum of scores) of the best cuts of a normalized text. Raises ConfigError for a model that is no Unigram."""
    pieces = list_pieces(require_unigram(model, "nbest"))
    best: list[tuple[float, list[int]]] = [(0.0, [])]
    for word in pieces.split_words(text):
        found = [(total, pieces.spell(word, cut)) for total, cut in find_best_cuts(word, pieces, num)]
        best = heapq.nlargest(
            num, [(one + other, [*ids, *more]) for one, ids in best for other, more in found], key=lambda one: one[0]
        )
    return [(ids, total) for total, ids in best]
