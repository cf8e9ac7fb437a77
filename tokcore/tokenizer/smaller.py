"""Smaller vocabularies of a byte-level BPE: its first merges, and the ids that documents have under these.

A merge is used by merges of higher rank only. So merging with all of them first gives what the first N give, and then
goes on from there: to take every later token apart again is to merge with the first N alone. No text is needed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import accumulate, chain

import numpy as np

from tokcore.errors import ConfigError, FormatError, TokError
from tokcore.kernel import IdReplacer, Ids
from tokcore.models.bpe import BpeModel, is_bpe, is_learned
from tokcore.models.model import describe_kind
from tokcore.models.smaller_bpe import cut_bpe, cut_learned, order_tokens
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec, make_learned_spec

_MOST_IDS = 1 << 24  # of the larger tokenizer, gaps included: each has a list


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Smaller:
    """A smaller tokenizer, and what becomes of the ids of the larger one.

    lists: of each id of the larger one, the ids under the smaller one; empty for an id that is no token.
    """

    spec: TokenizerSpec
    lists: tuple[tuple[int, ...], ...]

    def make_replacer(self) -> IdReplacer:
        """What takes documents apart."""
        offsets = np.array([*accumulate(map(len, self.lists), initial=0)], np.int64)
        return IdReplacer(np.array([*chain.from_iterable(self.lists)], np.int32), offsets)


def make_smaller(
    spec: TokenizerSpec, vocab_size: int, special: Sequence[SpecialToken] | None = None, field: str = "vocab_size"
) -> Smaller:
    """The tokenizer of the first merges of a byte-level BPE, vocab_size tokens with special ones.

    special: as a build declares them, to which ids are given as a build gives them; None: those of spec. All tokens
    then keep their order, and ids have no gaps. field: what names vocab_size, for errors.
    Raises ConfigError for a size that is not smaller, or does not hold the bytes and special tokens, and for a
    vocabulary of which ids under fewer merges do not follow from those under all, with the reason.

    >>> from tokcore.models.bpe import LearnedModel
    >>> merges = LearnedModel.from_merges([(b"a", b"b"), (b"ab", b"c")])
    >>> large = make_learned_spec(merges, {"name": "cl100k"}, (), [SpecialToken("<|end|>", None)])
    >>> small = make_smaller(large, 258)
    >>> small.spec.vocab_size, small.lists[257], small.lists[258]
    (258, (256, 66), (257,))
    """
    if not is_bpe(model := spec.model):
        raise ConfigError(
            f"{field} = {vocab_size}: the tokenizer is {describe_kind(spec.model.kind)}, and ids under fewer of its "
            f"tokens do not follow from those under all: that is so of byte-level BPE alone. Encode the text again."
        )
    if spec.vocab_size > _MOST_IDS:
        raise ConfigError(f"{field} = {vocab_size}: ids of the tokenizer go up to {spec.vocab_size - 1}: too many")
    num_special = len(spec.special) - len(spec.shared_ids)
    num = vocab_size - num_special
    if num < 256 or num >= len(model.tokens):
        raise ConfigError(
            f"{field} = {vocab_size}: expected {256 + num_special} (256 bytes, {num_special} special tokens) to "
            f"{len(model.tokens) + num_special - 1}, as the tokenizer has {len(model.tokens) + num_special} tokens"
        )
    try:
        order, merges = order_tokens(model)
    except FormatError as error:
        raise ConfigError(
            f"{field} = {vocab_size}: ids under fewer merges do not follow from those under all, as this vocabulary is "
            f"no list of merges each of which makes a token of two earlier ones: {error}. Encode the text again."
        ) from error
    kept = {*order[:num].tolist()}
    if lost := sorted(spec.shared_ids - kept):
        raise ConfigError(
            f"{field} = {vocab_size}: the added token {lost[0]} is an ordinary token, too, which fewer merges do not "
            f"make: its ids in shards may mean either. Encode the text again."
        )
    smaller = _shorten(spec, model, order, merges, num, special)
    return Smaller(smaller, _list_replaced(spec, order, merges, smaller))


def find_smaller(larger: TokenizerSpec, smaller: TokenizerSpec) -> Smaller | None:
    """Whether a tokenizer is what make_smaller makes of a larger one: then that, else None."""
    special = smaller.special if is_learned(larger.model) else None
    size = len(smaller.model.tokens) + len(smaller.special) - len(smaller.shared_ids)
    try:
        found = make_smaller(larger, size, special)
    except TokError:
        return None
    return found if found.spec == smaller else None


def _shorten(
    spec: TokenizerSpec, model: BpeModel, order: Ids, merges: Ids, num: int, special: Sequence[SpecialToken] | None
) -> TokenizerSpec:
    """The spec of the first num tokens."""
    if is_learned(model) and special is not None:
        of_build = make_learned_spec(cut_learned(model, num), spec.pattern, spec.normalizer, special)
        return dataclasses.replace(of_build, chat_template=spec.chat_template, max_length=spec.max_length)
    kept = np.sort(order[:num])
    ids = sorted({*kept.tolist(), *(token.id for token in spec.special if token.id is not None)})
    new_id = {id: number for number, id in enumerate(ids)}
    moved = tuple(dataclasses.replace(one, id=new_id[one.id]) for one in spec.special if one.id is not None)
    return dataclasses.replace(spec, model=cut_bpe(model, kept, merges[: num - 256], new_id), special=moved)


def _list_replaced(spec: TokenizerSpec, order: Ids, merges: Ids, smaller: TokenizerSpec) -> tuple[tuple[int, ...], ...]:
    """Smaller.lists. order, merges: of the larger spec, whose tokens are all made of earlier ones."""
    id_of = dict(zip(smaller.model.tokens, smaller.model.ids.tolist(), strict=True))
    token_of = dict(zip(spec.model.ids.tolist(), spec.model.tokens, strict=True))
    lists: list[tuple[int, ...]] = [()] * spec.vocab_size
    for number, id in enumerate(order.tolist()):
        own = id_of.get(token_of[id])
        if own is None:
            left, right = merges[number - 256].tolist()
            lists[id] = lists[left] + lists[right]
        else:
            lists[id] = (own,)
    moved = {token.text: token.id for token in smaller.special}
    for token in spec.special:
        assert token.id is not None, "a finished tokenizer has an id for each"
        new = moved[token.text]
        assert new is not None
        lists[token.id] = (new,)
    return tuple(lists)
