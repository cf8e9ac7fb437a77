"""The merges of a BPE vocabulary: as the kernel takes them, and between the two ways to write them down.

tiktoken gives each token a rank, Hugging Face lists merges. They give the same ids if every token encodes to itself:
then a token is only ever made of its own two parts, whatever text it stands in, and knowing the joined bytes is as good
as knowing the pair.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.errors import FormatError
from tokcore.models.model import Ids
from tokcore.text.texts import make_texts_from_strings


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class MergeTable:
    """What the kernel's encoder needs: see tokcore.kernel.BpeEncoder."""

    left: Ids
    right: Ids
    result: Ids
    priority: npt.NDArray[np.uint32]


def make_encoder(
    tokens: Sequence[bytes], ids: Ids, table: MergeTable, *, pattern: str | None, whole: bool, cache_bytes: int
) -> kernel.BpeEncoder:
    """The kernel's encoder of a vocabulary."""
    merges = (table.left, table.right, table.result, table.priority)
    return kernel.BpeEncoder(pattern, make_texts_from_strings(tokens), ids, *merges, whole, cache_bytes)


def find_merges_of_ranks(tokens: Sequence[bytes], ids: Ids) -> Ids:
    """The two tokens that each token is made of, by merging its bytes in rank order: ids, int32 [m, 2], in rank order.

    Raises FormatError, naming the token, for ranks that merges cannot express.
    """
    left, right, made = kernel.rank_parts(make_texts_from_strings(tokens))
    without = np.flatnonzero((left < 0) | (right < 0))
    if len(without):
        i = int(made[without[0]])
        raise FormatError(
            f"token {ids[i]}, {tokens[i]!r}, is not made of two tokens of lower rank: it has no merge, so "
            f"the vocabulary cannot be written as merges"
        )
    return np.stack([ids[left], ids[right]], axis=1)


def check_ranks_suffice(tokens: Sequence[bytes], ids: Ids, table: MergeTable) -> None:
    """Raise FormatError, naming a token, unless the tokens with their ids as ranks give the same ids as the merges."""
    if len(table.result) != len(tokens) - 256:
        raise FormatError(
            f"{len(tokens)} tokens, {len(table.result)} merges: ranks need one merge for each token but bytes"
        )
    is_merged = np.array([len(token) > 1 for token in tokens])
    wrong = np.diff(table.result, prepend=-1) <= 0
    for part in (table.left, table.right):
        wrong |= (part >= table.result) & is_merged[np.searchsorted(ids, part)]
    if wrong.any():
        result = int(table.result[wrong][0])
        token = tokens[int(np.searchsorted(ids, result))]
        raise FormatError(
            f"token {result}, {token!r}: its id breaks the order of merges, and a rank file holds no other order"
        )
    check_own_encoding(tokens, ids, table)


def check_own_encoding(tokens: Sequence[bytes], ids: Ids, table: MergeTable) -> None:
    """Raise FormatError, naming the first, unless every token's bytes encode to it by merging alone."""
    texts = make_texts_from_strings(tokens)
    encoder = make_encoder(tokens, ids, table, pattern=None, whole=False, cache_bytes=0)
    found, offsets, _ = encoder.encode_pieces(texts, texts.offsets[1:], np.arange(texts.num_texts + 1))
    wrong = np.flatnonzero(np.diff(offsets) != 1)
    if not len(wrong):
        wrong = np.flatnonzero(found != ids)
    if len(wrong):
        i = int(wrong[0])
        raise FormatError(
            f"token {ids[i]}, {tokens[i]!r}, is not what merges make of its bytes "
            f"({found[offsets[i] : offsets[i + 1]].tolist()}), so ranks and merges differ for this vocabulary"
        )
