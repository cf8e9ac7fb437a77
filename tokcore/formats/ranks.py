"""Between the two ways to write a BPE vocabulary: a rank for each token (tiktoken), or a list of merges (Hugging Face).

They give the same ids if every token encodes to itself: then a token is only ever made of its own two parts, whatever
text it stands in, and knowing the joined bytes is as good as knowing the pair.
"""

from __future__ import annotations

import numpy as np

from tokcore import kernel
from tokcore.errors import FormatError
from tokcore.texts import texts_from_strings
from tokcore.tokenizer_spec import Ids, Model, RanksModel


def merges_of(model: Model) -> Ids:
    """The merges of a model as pairs of ids, int32 [m, 2], first merged first.

    For ranks: of each token the two parts that its own bytes come down to just before they become it.
    Raises FormatError, naming the token, for ranks that merges cannot express.
    """
    if not isinstance(model, RanksModel):
        return model.merges
    left, right, made = kernel.rank_parts(texts_from_strings(model.tokens))
    without = np.flatnonzero((left < 0) | (right < 0))
    if len(without):
        i = int(made[without[0]])
        raise FormatError(
            f"token {model.ids[i]}, {model.tokens[i]!r}, is not made of two tokens of lower rank: it has no merge, so "
            f"the vocabulary cannot be written as merges"
        )
    return np.stack([model.ids[left], model.ids[right]], axis=1)


def check_ranks_suffice(model: Model) -> None:
    """Raise FormatError, naming a token, unless the tokens with their ids as ranks give the same ids as the model."""
    if isinstance(model, RanksModel):
        return
    table = model.merge_table()
    if len(table.result) != len(model.tokens) - 256:
        raise FormatError(
            f"{len(model.tokens)} tokens, {len(table.result)} merges: ranks need one merge for each token but bytes"
        )
    is_merged = np.array([len(token) > 1 for token in model.tokens])
    wrong = np.diff(table.result, prepend=-1) <= 0
    for part in (table.left, table.right):
        wrong |= (part >= table.result) & is_merged[np.searchsorted(model.ids, part)]
    if wrong.any():
        result = int(table.result[wrong][0])
        token = model.tokens[int(np.searchsorted(model.ids, result))]
        raise FormatError(
            f"token {result}, {token!r}: its id is not in the order of merges, which is all that ranks are"
        )
    check_own_encoding(model)


def check_own_encoding(model: Model) -> None:
    """Raise FormatError, naming the first, unless every token's bytes encode to it by merging alone."""
    table = model.merge_table()
    tokens = texts_from_strings(model.tokens)
    encoder = kernel.Encoder(
        None, tokens, model.ids, table.left, table.right, table.result, table.priority, whole=False, cache_bytes=0
    )
    ids, offsets, _ = encoder.encode_pieces(tokens, tokens.offsets[1:], np.arange(tokens.num_texts + 1))
    wrong = np.flatnonzero(np.diff(offsets) != 1)
    if not len(wrong):
        wrong = np.flatnonzero(ids != model.ids)
    if len(wrong):
        i = int(wrong[0])
        raise FormatError(
            f"token {model.ids[i]}, {model.tokens[i]!r}, is not what merges make of its bytes "
            f"({ids[offsets[i] : offsets[i + 1]].tolist()}), so ranks and merges differ for this vocabulary"
        )
