"""Between the two ways to write a BPE vocabulary: a rank for each token (tiktoken), or a list of merges (Hugging Face).

They give the same ids if every token encodes to itself: then a token is only ever made of its own two parts, whatever
text it stands in, and knowing the joined bytes is as good as knowing the pair.
"""

from __future__ import annotations

from itertools import pairwise

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
    id_of_token = dict(zip(model.tokens, model.ids.tolist(), strict=True))
    pairs = [_parts(token, rank, id_of_token) for token, rank in id_of_token.items() if len(token) > 1]
    return np.array(pairs, np.int32).reshape(-1, 2)


def _parts(token: bytes, rank: int, id_of_token: dict[bytes, int]) -> tuple[int, int]:
    """The ids of the two tokens that become `token`: encode its bytes with lower ranks only."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        ranks = [id_of_token.get(a + b, rank) for a, b in pairwise(parts)]
        lowest = min(ranks)
        if lowest >= rank:
            break
        i = ranks.index(lowest)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    if len(parts) != 2:
        raise FormatError(
            f"token {rank}, {token!r}, is not made of two tokens of lower rank: it has no merge, so the vocabulary "
            f"cannot be written as merges"
        )
    return id_of_token[parts[0]], id_of_token[parts[1]]


def check_ranks_suffice(model: Model) -> None:
    """Raise FormatError, naming a token, unless the tokens with their ids as ranks give the same ids as the model."""
    if isinstance(model, RanksModel):
        return
    table = model.merge_table()
    by_id = dict(zip(model.ids.tolist(), model.tokens, strict=True))
    if len(table.result) != len(model.tokens) - 256:
        raise FormatError(
            f"{len(model.tokens)} tokens, {len(table.result)} merges: ranks need one merge for each token but bytes"
        )
    last = -1
    for left, right, result in zip(table.left.tolist(), table.right.tolist(), table.result.tolist(), strict=True):
        too_late = [id for id in (left, right) if len(by_id[id]) > 1 and id >= result]
        if result <= last or too_late:
            raise FormatError(
                f"token {result}, {by_id[result]!r}: its id is not in the order of merges, which is all that ranks are"
            )
        last = result
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
