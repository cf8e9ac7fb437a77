"""A byte-level BPE without the tokens that a corpus uses least.

Only leaves of the tree of merges go: tokens that are part of no other. A leaf takes no part in how any other token is
made, so all that stay are still reached, and text without the leaf is encoded as before. Leaves to others: counts.
"""

from __future__ import annotations

import dataclasses
import heapq
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.errors import ConfigError, FormatError
from tokcore.models.bpe import is_bpe
from tokcore.models.model import describe_kind
from tokcore.models.smaller_bpe import cut_bpe, order_tokens
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec

Counts = npt.NDArray[np.uint64]


class GoneToken(NamedTuple):
    """A token that went."""

    id: int
    token: bytes
    uses: int  # in the corpus, those of tokens that went before and were made of it included
    left: int  # what it was made of
    right: int


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Pruned:
    """What is left of a tokenizer, and what went, in the order in which it did."""

    spec: TokenizerSpec
    gone: tuple[GoneToken, ...]
    new_ids: dict[int, int]  # old id -> new id, of all tokens that stay


def prune(spec: TokenizerSpec, uses: Counts, vocab_size: int, renumber: bool = False) -> Pruned:
    """The tokenizer of vocab_size tokens, special ones included, without the leaves that are used least.

    uses: of each id, how often it occurs in a corpus, uint64. Again and again the leaf of the fewest uses goes; of
    several the one of the highest id. Its uses become those of its two parts. renumber: ids have no gaps then, and keep
    their order; else they stay.
    Raises ConfigError for a size that leaves nothing to do, or not the bytes, and for a vocabulary that is no list of
    merges, with the reason.

    >>> from tokcore.models.bpe import LearnedModel
    >>> from tokcore.tokenizer.tokenizer_spec import make_learned_spec
    >>> merges = LearnedModel.from_merges([(b"a", b"b"), (b"ab", b"c"), (b"c", b"d")])
    >>> spec = make_learned_spec(merges, {"name": "gpt2"}, (), ())
    >>> uses = np.zeros(259, np.uint64)
    >>> uses[[256, 257, 258]] = 5, 2, 9
    >>> pruned = prune(spec, uses, 257)
    >>> [(one.token, one.uses) for one in pruned.gone], pruned.spec.model.ids[256:].tolist()
    ([(b'abc', 2), (b'ab', 7)], [258])
    """
    if not is_bpe(model := spec.model):
        raise ConfigError(f"the tokenizer is {describe_kind(spec.model.kind)}: only a byte-level BPE can be pruned")
    num_special = len(spec.special) - len(spec.shared_ids)
    num_gone = len(model.tokens) + num_special - vocab_size
    if not 0 < num_gone <= len(model.tokens) - 256:
        raise ConfigError(
            f"vocab_size = {vocab_size}: expected {256 + num_special} (256 bytes, {num_special} special tokens) to "
            f"{len(model.tokens) + num_special - 1}, as the tokenizer has {len(model.tokens) + num_special} tokens"
        )
    try:
        order, merges = order_tokens(model)
    except FormatError as error:
        raise ConfigError(
            f"this vocabulary is no list of merges each of which makes a token of two earlier ones, so others may "
            f"need the leaves: {error}"
        ) from error
    token_of = dict(zip(model.ids.tolist(), model.tokens, strict=True))
    parts = {id: (left, right) for id, (left, right) in zip(order[256:].tolist(), merges.tolist(), strict=True)}
    gone = _choose(parts, {id: int(uses[id]) if id < len(uses) else 0 for id in token_of}, spec.shared_ids, num_gone)
    went = {id for id, _ in gone}
    kept = np.array([id for id in model.ids.tolist() if id not in went], np.int32)
    staying = sorted({*kept.tolist(), *(one.id for one in spec.special if one.id is not None)})
    new_ids = {id: number if renumber else id for number, id in enumerate(staying)}
    left = [pair for id, pair in zip(order[256:].tolist(), merges.tolist(), strict=True) if id not in went]
    smaller = cut_bpe(model, kept, np.array(left, np.int32).reshape(-1, 2), new_ids)
    special = tuple(dataclasses.replace(one, id=new_ids[one.id]) for one in spec.special if one.id is not None)
    return Pruned(
        dataclasses.replace(spec, model=smaller, special=special),
        tuple(GoneToken(id, token_of[id], num, *parts[id]) for id, num in gone),
        new_ids,
    )


def _choose(
    parts: dict[int, tuple[int, int]], uses: dict[int, int], stay: frozenset[int], num: int
) -> list[tuple[int, int]]:
    """(id, uses) of the tokens that go, in this order. parts: of each token that a merge makes. stay: ids that do."""
    needed = dict.fromkeys(uses, 0)  # by how many tokens
    for pair in parts.values():
        for part in pair:
            needed[part] += 1
    heap = [(uses[id], -id) for id in parts if not needed[id] and id not in stay]
    heapq.heapify(heap)
    gone: list[tuple[int, int]] = []
    while len(gone) < num:
        if not heap:
            raise ConfigError(f"only {len(gone)} tokens can go: added tokens keep the others")
        count, negative = heapq.heappop(heap)
        id = -negative
        gone.append((id, count))
        for part in parts[id]:
            uses[part] += count
            needed[part] -= 1
        for part in {*parts[id]}:
            if part in parts and not needed[part] and part not in stay:
                heapq.heappush(heap, (uses[part], -part))
    return gone
