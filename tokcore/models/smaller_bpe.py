"""The first merges of a byte-level BPE as a model of their own.

Leaves to others: what becomes of ids and of special tokens (tokcore.tokenizer.smaller).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tokcore.models.bpe import BpeModel, LearnedModel, MergesModel, RanksModel
from tokcore.models.extended_bpe import order_by_making
from tokcore.models.model import Ids


def order_tokens(model: BpeModel) -> tuple[Ids, Ids]:
    """(ids, merges): all ids, those that merges make in the order of merges; the merges as pairs of ids, int32 [m, 2].

    Raises FormatError, naming a token, for a vocabulary that is no list of merges, as order_by_making does. Merges that
    were learned here are one by what they are.
    """
    return (model.ids, model.merges) if isinstance(model, LearnedModel) else order_by_making(model)


def cut_learned(model: LearnedModel, num: int) -> LearnedModel:
    """The model of the first num tokens, which is what learning them gives."""
    return LearnedModel(model.merges[: num - 256], model.counts[: num - 256])


def cut_bpe(model: BpeModel, kept: Ids, merges: Ids, new_id: Mapping[int, int]) -> BpeModel:
    """The model of the same kind with some of the tokens, under other ids in the same order.

    kept: their ids, ascending. merges: those that make them. new_id: old id -> new one, also of the parts of merges.
    """
    tokens = tuple(model.tokens[i] for i in np.searchsorted(model.ids, kept).tolist())
    ids = np.array([new_id[id] for id in kept.tolist()], np.int32)
    if isinstance(model, RanksModel):
        return RanksModel(tokens, ids)
    pairs = np.array([[new_id[left], new_id[right]] for left, right in merges.tolist()], np.int32).reshape(-1, 2)
    if isinstance(model, LearnedModel) and np.array_equal(ids, np.arange(len(ids))):
        return LearnedModel(pairs, tuple(model.counts[id - 256] for id in kept[256:].tolist()) if model.counts else ())
    return MergesModel(tokens, ids, pairs, model.whole)
