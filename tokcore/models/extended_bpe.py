"""A byte-level BPE that goes on from another one: all ids stay, and further merges get ids of their own.

Pre-tokens are encoded with the merges that are there, and learning goes on with the pairs that are left. So a
vocabulary that was learned and is extended from the same counts has the merges that a larger one has at once. Further
ids begin after the highest one, special tokens included. Ties: tokens that are there come before further ones, in the
order in which they were made; the bytes come first, in hf order.
"""

from __future__ import annotations

import numpy as np

from tokcore import kernel
from tokcore.count.pretoken_rows import Counts
from tokcore.errors import FormatError, LearnError
from tokcore.models.bpe import BpeModel, MergesModel
from tokcore.models.bpe_merges import check_own_encoding
from tokcore.models.model import MAX_TOKEN_BYTES, MAX_VOCABULARY_BYTES, Ids, LearnOptions, make_too_long_error
from tokcore.text.byte_alphabet import BYTE_OF_ID
from tokcore.text.texts import Texts


def order_by_making(model: BpeModel) -> tuple[Ids, Ids]:
    """(ids of the bytes in hf order, then of what each merge makes; the merges as pairs of ids, first merged first).

    Raises FormatError, naming a token, unless each is a byte or made by one merge of earlier ones, and is what its own
    bytes become. Else further merges could make it once more.
    """
    merges = model.merge_pairs()
    id_of = dict(zip(model.tokens, model.ids.tolist(), strict=True))
    token_of = dict(zip(model.ids.tolist(), model.tokens, strict=True))
    made = dict.fromkeys(id_of[bytes([byte])] for byte in BYTE_OF_ID)
    for left, right in merges.tolist():
        joined = token_of[left] + token_of[right]
        if left not in made or right not in made or id_of[joined] in made:
            raise FormatError(f"token {id_of[joined]}, {joined!r}, is not made by one merge of earlier tokens")
        made[id_of[joined]] = None
    if len(made) != len(model.tokens):
        without = next(id for id in model.ids.tolist() if id not in made)
        raise FormatError(f"token {without}, {token_of[without]!r}, is made by no merge")
    check_own_encoding(model.tokens, model.ids, model.merge_table)
    return np.array([*made], np.int32), merges


def learn_further(model: BpeModel, pretokens: Texts, counts: Counts, options: LearnOptions) -> MergesModel:
    """The model with further merges, up to options.vocab_size tokens, special ones included.

    options.pinned: all special tokens. Raises LearnError for counts that are too large, or tokens over the limits;
    FormatError as order_by_making does.
    """
    ids, merges = order_by_making(model)
    encoder = model.encoder(None, 0)
    encoded, offsets, _ = encoder.encode_pieces(
        pretokens, pretokens.offsets[1:], np.arange(pretokens.num_texts + 1), options.threads
    )
    ascending = np.argsort(ids)
    symbols = ascending[np.searchsorted(ids[ascending], encoded)].astype(np.uint32)
    token_of = dict(zip(model.ids.tolist(), model.tokens, strict=True))
    tokens = [token_of[id] for id in ids.tolist()]
    try:
        left, right, _ = kernel.learn_symbol_merges(
            symbols,
            offsets,
            counts,
            np.array([*map(len, tokens)], np.int64),
            max(0, options.vocab_size - options.num_special - len(tokens)),
            options.min_count,
            options.max_token_bytes,
            options.threads,
            options.merges_done,
        )
    except OverflowError as error:
        raise LearnError(f"the counts of the table are too large: {error}. Divide them by a common factor.") from error
    first = max([int(ids.max()), *options.pinned.values()]) + 1
    numbers = np.concatenate([ids, np.arange(first, first + len(left), dtype=np.int32)])
    _spell(tokens, left, right)
    further = np.stack([numbers[left], numbers[right]], axis=1)
    by_id = np.argsort(numbers)
    return MergesModel(
        tuple(tokens[i] for i in by_id.tolist()), numbers[by_id], np.concatenate([merges, further]), False
    )


def shorten_further(model: BpeModel, base: BpeModel, options: LearnOptions) -> MergesModel:
    """What learn_further gives for a smaller vocab_size, from what it gave for a larger one."""
    num_left_out = len(model.tokens) + options.num_special - options.vocab_size
    num = max(len(base.tokens), len(model.tokens) - max(0, num_left_out))
    # Further tokens have the highest ids, in the order of learning.
    return MergesModel(model.tokens[:num], model.ids[:num], model.merge_pairs()[: num - 256], False)


def _spell(tokens: list[bytes], left: Ids, right: Ids) -> None:
    """Add what merges of symbols make. Raises LearnError for tokens over the limits."""
    total = sum(map(len, tokens))
    for one, other in zip(left.tolist(), right.tolist(), strict=True):
        token = tokens[one] + tokens[other]
        total += len(token)
        if len(token) > MAX_TOKEN_BYTES or total > MAX_VOCABULARY_BYTES:
            error = make_too_long_error(len(token), total, f"token {len(tokens)}")
            raise LearnError(f"{error}. Set count.max_pretoken_bytes or learn.max_token_bytes.")
        tokens.append(token)
