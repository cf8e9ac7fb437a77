"""Byte-level BPE: 256 byte tokens, and merges that make a token of two.

Three kinds in tokcore.json, one behaviour: merges that we learned (LearnedModel), merges of arbitrary ids as Hugging
Face lists them (MergesModel), and ranks as tiktoken has them (RanksModel).
Leaves to others: learning (learned_bpe), what merges and ranks have to do with each other (bpe_merges).
"""

from __future__ import annotations

import binascii
import contextlib
import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, TypeGuard

import numpy as np
import orjson

from tokcore import kernel
from tokcore.errors import ConfigError, FormatError
from tokcore.files.canonical_json import Written, parse_canonical
from tokcore.files.jsonable import Place, Read, from_jsonable
from tokcore.models.bpe_merges import (
    MergeTable,
    check_own_encoding,
    check_ranks_suffice,
    find_merges_of_ranks,
    make_encoder,
)
from tokcore.models.byte_tokens import ByteTokens
from tokcore.models.model import (
    ID_LIMIT,
    MAX_TOKEN_BYTES,
    MAX_VOCABULARY_BYTES,
    Encode,
    Encoder,
    Ids,
    Model,
    Rules,
    Unreachable,
    describe_kind,
    find_unlike_themselves,
    make_too_long_error,
)
from tokcore.text.byte_alphabet import BYTE_OF_ID
from tokcore.text.texts import make_texts_from_strings

_BYTES = frozenset(bytes([byte]) for byte in range(256))


@dataclasses.dataclass(frozen=True, eq=False)
class BpeModel(ByteTokens, ABC):
    """What the kinds of BPE have in common."""

    kind: ClassVar[str]

    @property
    def whole(self) -> bool:
        """Whether a pre-token that is a token is emitted as such, without merging."""
        return False

    @functools.cached_property
    def merge_table(self) -> MergeTable:
        """The merges for the kernel. Raises FormatError for merges that are not of tokens to a token."""
        return self._made_table()

    @abstractmethod
    def _made_table(self) -> MergeTable:
        """The merge_table."""

    @abstractmethod
    def merge_pairs(self) -> Ids:
        """The merges as pairs of ids, int32 [m, 2], first merged first.

        Raises FormatError, naming a token, if no merges give the same ids.
        """

    def check_ranks_suffice(self) -> None:
        """Raise FormatError, naming a token, unless the tokens with their ids as ranks give the same ids."""
        check_ranks_suffice(self.tokens, self.ids, self.merge_table)

    @property
    def summary(self) -> str:
        return f"256 bytes, {len(self.tokens) - 256} merges"

    def check(self) -> None:
        if missing := sorted(_BYTES.difference(self.tokens)):
            raise FormatError(f"no token for the byte {missing[0][0]:#04x}: all 256 are needed to encode every text")
        self.merge_table  # noqa: B018 - checked by being made

    def encoder(self, pattern: str | None, cache_bytes: int) -> Encoder:
        return make_encoder(
            self.tokens, self.ids, self.merge_table, pattern=pattern, whole=self.whole, cache_bytes=cache_bytes
        )

    def facts(self) -> dict[str, Any]:
        return {"merges": len(self.merge_table.left)}

    def rules(self) -> Rules:
        token = dict(zip(self.ids.tolist(), self.tokens, strict=True)).__getitem__
        table = self.merge_table
        order = np.argsort(table.priority, kind="stable")
        lefts, rights = table.left[order].tolist(), table.right[order].tolist()
        return Rules("merge", [*zip(map(token, lefts), map(token, rights), strict=True)])

    def unreachable(self, encode: Encode) -> list[Unreachable]:
        return find_unlike_themselves(self, encode)

    def as_bpe(self) -> BpeModel:
        return self

    @abstractmethod
    def functional(self) -> dict[str, Any]:
        """See Model."""

    def informative(self) -> dict[str, Any]:
        return {}


def is_bpe(model: Model) -> TypeGuard[BpeModel]:
    """Whether a model is a byte-level BPE."""
    return isinstance(model, BpeModel)


def require_bpe(model: Model, what: str) -> BpeModel:
    """The model itself. what: needs it, for the error. Raises ConfigError if it is another kind."""
    if not isinstance(model, BpeModel):
        raise ConfigError(f"{what} needs a byte-level BPE, and this tokenizer is {describe_kind(model.kind)}")
    return model


@dataclasses.dataclass(frozen=True, eq=False)
class LearnedModel(BpeModel):
    """BPE as we learn it: ids 0 to 255 are the bytes in hf order, 256 + i is merge i.

    merges: int32 [m, 2], pairs of ids. counts: how often each pair occurred when it was merged; () if unknown.
    Raises FormatError for a merge of ids that are not earlier ones, and for tokens over the limits.
    """

    kind: ClassVar[str] = "learned"

    tokens: tuple[bytes, ...] = dataclasses.field(init=False, repr=False)
    ids: Ids = dataclasses.field(init=False, repr=False)
    merges: Ids
    counts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", self._joined())
        object.__setattr__(self, "ids", np.arange(256 + len(self.merges), dtype=np.int32))

    def _joined(self) -> tuple[bytes, ...]:
        joined = kernel.join_merges(BYTE_OF_ID, self.merges, MAX_TOKEN_BYTES, MAX_VOCABULARY_BYTES)
        if joined is not None:
            return joined
        first_unknown = np.arange(256, 256 + len(self.merges)).reshape(-1, 1)
        for i in np.flatnonzero(((self.merges < 0) | (self.merges >= first_unknown)).any(axis=1))[:1].tolist():
            left, right = self.merges[i].tolist()
            raise FormatError(f"merge {i} is of the ids {left} and {right}: expected ids below {256 + i}")
        # A merge makes too much; one after the other, as few can ask for more bytes than there are.
        lengths = [1] * 256
        total = len(lengths)
        for left, right in self.merges.tolist():
            length = lengths[left] + lengths[right]
            total += length
            if length > MAX_TOKEN_BYTES or total > MAX_VOCABULARY_BYTES:
                raise make_too_long_error(length, total, f"merge {len(lengths) - 256}")
            lengths.append(length)
        raise AssertionError("merges of earlier tokens, within the limits, make tokens")

    def _made_table(self) -> MergeTable:
        order = np.arange(len(self.merges), dtype=np.uint32)
        left, right = np.ascontiguousarray(self.merges.T)
        return MergeTable(left, right, (order + 256).astype(np.int32), order)

    def merge_pairs(self) -> Ids:
        return self.merges

    def functional(self) -> dict[str, Any]:
        return {"kind": self.kind, "byte_order": "hf", "merges": _write_pairs(self.merges)}

    def informative(self) -> dict[str, Any]:
        return {"counts": list(self.counts)} if self.counts else {}

    @classmethod
    def from_merges(cls, merges: Iterable[Sequence[Any]]) -> LearnedModel:
        """The model of (left, right) or (left, right, count), as bytes, in rank order; counts are kept if all have one.

        Raises FormatError, with the position, for what is neither and for parts that are no tokens yet.
        """
        id_of_token = {bytes([byte]): id for id, byte in enumerate(BYTE_OF_ID)}
        pairs: list[tuple[int, int]] = []
        counts: list[int] = []
        for i, merge in enumerate(merges):
            parts = tuple(merge) if isinstance(merge, Sequence) else ()
            if len(parts) not in (2, 3) or not all(isinstance(part, bytes) for part in parts[:2]):
                raise FormatError(
                    f"merges[{i}] = {merge!r:.80}: expected two bytes objects (left, right), or these and their count"
                )
            for part in parts[:2]:
                if part not in id_of_token:
                    raise FormatError(f"merges[{i}]: {part!r:.80} is neither a byte nor the result of an earlier merge")
            joined = parts[0] + parts[1]
            if joined in id_of_token:
                raise FormatError(f"merges[{i}]: makes {joined!r:.80}, which is a token already")
            pairs.append((id_of_token[parts[0]], id_of_token[parts[1]]))
            counts += parts[2:]
            id_of_token[joined] = len(id_of_token)
        known_counts = tuple(map(int, counts)) if len(counts) == len(pairs) else ()
        return cls(np.array(pairs, np.int32).reshape(-1, 2), known_counts)

    @classmethod
    def from_json(cls, value: Any, place: Place) -> LearnedModel:
        """The model whose functional() and informative() are value."""
        read = from_jsonable(_LearnedJson, value, place)
        if read.counts and len(read.counts) != len(read.merges):
            raise place.field("counts").error(f"one for each of {len(read.merges)} merges", len(read.counts))
        try:
            return cls(read.merges, read.counts)
        except FormatError as error:
            raise FormatError(f"{place}: {error}") from error


def is_learned(model: Model) -> TypeGuard[LearnedModel]:
    """Whether a model is a byte-level BPE whose merges are in the order in which they were learned."""
    return isinstance(model, LearnedModel)


def require_learned(model: Model, what: str) -> LearnedModel:
    """The model itself. what: needs it, for the error. Raises ConfigError if it is another kind."""
    if not isinstance(model, LearnedModel):
        raise ConfigError(f"{what} needs a BPE that was learned, and this tokenizer is {describe_kind(model.kind)}")
    return model


@dataclasses.dataclass(frozen=True, eq=False)
class MergesModel(BpeModel):
    """BPE from a list of merges with arbitrary ids, as Hugging Face keeps it.

    merges: int32 [m, 2], pairs of ids, first merged first; what a pair becomes is the token of the joined bytes.
    ignore_merges: a pre-token that is a token is emitted as such.
    """

    kind: ClassVar[str] = "merges"

    merges: Ids
    ignore_merges: bool

    @property
    def whole(self) -> bool:
        return self.ignore_merges

    def _made_table(self) -> MergeTable:
        result = kernel.join_pairs(make_texts_from_strings(self.tokens), self.ids, self.merges)
        for i in np.flatnonzero(result < 0)[:1].tolist():
            token_of_id = dict(zip(self.ids.tolist(), self.tokens, strict=True))
            left, right = self.merges[i].tolist()
            if left not in token_of_id or right not in token_of_id:
                raise FormatError(f"merge {i} is of the ids {left} and {right}, of which one is no token")
            raise FormatError(f"merge {i}, of {token_of_id[left]!r} and {token_of_id[right]!r}, makes no token")
        left_ids, right_ids = np.ascontiguousarray(self.merges.T)
        return MergeTable(left_ids, right_ids, result, np.arange(len(result), dtype=np.uint32))

    def merge_pairs(self) -> Ids:
        return self.merges

    def functional(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "tokens": write_tokens(self.tokens, self.ids),
            "merges": _write_pairs(self.merges),
            "ignore_merges": self.ignore_merges,
        }

    @classmethod
    def from_json(cls, value: Any, place: Place) -> MergesModel:
        """The model whose functional() is value."""
        read = from_jsonable(_MergesJson, value, place)
        return cls(*read.tokens, read.merges, read.ignore_merges)


@dataclasses.dataclass(frozen=True, eq=False)
class RanksModel(BpeModel):
    """BPE as tiktoken defines it: two neighbours merge if their joined bytes are a token; the id is the rank.

    A pre-token that is a token is emitted as such.
    """

    kind: ClassVar[str] = "ranks"

    @property
    def whole(self) -> bool:
        return True

    def _made_table(self) -> MergeTable:
        """Every way to make a token of two tokens, with its rank for the kernel."""
        left, right, result = (self.ids[places] for places in kernel.rank_merges(make_texts_from_strings(self.tokens)))
        return MergeTable(left, right, result, result.astype(np.uint32))

    def merge_pairs(self) -> Ids:
        check_own_encoding(self.tokens, self.ids, self.merge_table)
        return find_merges_of_ranks(self.tokens, self.ids)

    def check_ranks_suffice(self) -> None:
        """They are the model."""

    def functional(self) -> dict[str, Any]:
        return {"kind": self.kind, "tokens": write_tokens(self.tokens, self.ids)}

    @classmethod
    def from_json(cls, value: Any, place: Place) -> RanksModel:
        """The model whose functional() is value."""
        return cls(*from_jsonable(_RanksJson, value, place).tokens)


# ---------------------------------------------------------------------------------------------- tokcore.json, read back
# Long lists have readers of their own, which look at all of a list in C before they look for what is wrong in it.


def parse_model_file(data: bytes, name: str, is_checked: bool) -> Any:
    """The value of a tokcore.json, canonical JSON. Its long lists are arrays and tuples, if the kernel can read them.

    is_checked: whether it was found to be canonical before. Raises FormatError as parse_canonical does.
    """
    parts, lists, end = [], dict[str, Any](), 0
    for key, read in _LONG_LISTS:
        # In JSON a quotation mark that no backslash is before begins or ends a string.
        at = data.find(b'"%s":[[' % key.encode(), end)
        found = read(data, start := at + len(key) + 3) if at > 0 and data[at - 1] in b"{," else None
        if found is not None:
            parts += [data[end:start], _PLACEHOLDER]
            lists[key], end = found[:-1] if len(found) > 2 else found[0], found[-1]
    parse = orjson.loads if is_checked else functools.partial(parse_canonical, name=name)
    if lists and _PLACEHOLDER not in data:
        with contextlib.suppress(FormatError, ValueError):  # what is wrong, the whole file shows
            value = parse(b"".join([*parts, data[end:]]))
            model = value.get("model") if type(value) is dict else None
            if type(model) is dict and all(type(model.get(key)) is str and model[key] == _PLACED for key in lists):
                model |= lists
                return value
    return parse(data)


_PLACED = "\x00"  # stands for a list; no other list of ours has it
_PLACEHOLDER = b'"\\u0000"'
# In the order of the file.
_LONG_LISTS = (("merges", kernel.read_id_pairs), ("tokens", kernel.read_base64_tokens))


def _read_pairs(value: Any, place: Place) -> Ids:
    if isinstance(value, np.ndarray):  # as parse_model_file has read them
        return value
    if type(value) is not list:
        raise place.error("a list", value)
    lists = value if set(map(type, value)) <= {list} else []
    ids = [*chain.from_iterable(lists)]
    are_pairs = len(ids) == 2 * len(value) and set(map(len, lists)) <= {2}
    if are_pairs and set(map(type, ids)) <= {int} and min(ids, default=0) >= 0 and max(ids, default=0) < ID_LIMIT:
        return np.array(ids, np.int32).reshape(-1, 2)
    i, wrong = next((i, pair) for i, pair in enumerate(value) if not _is_pair(pair))
    raise place.item(i).error("a pair of ids", wrong)


def _is_pair(value: object) -> bool:
    return type(value) is list and len(value) == 2 and all(type(x) is int and 0 <= x < ID_LIMIT for x in value)


def _read_counts(value: Any, place: Place) -> tuple[int, ...]:
    if type(value) is not list:
        raise place.error("a list", value)
    if set(map(type, value)) - {int} or (value and not (min(value) >= 0 and max(value) < 2**64)):
        i = next(i for i, one in enumerate(value) if type(one) is not int or not 0 <= one < 2**64)
        raise place.item(i).error("a count of 64 bits", value[i])
    return tuple(value)


def _read_tokens(value: Any, place: Place) -> tuple[tuple[bytes, ...], Ids]:
    if type(value) is tuple:  # likewise
        return value
    if type(value) is not list:
        raise place.error("a list", value)
    for i, entry in enumerate(value):
        if not (type(entry) is list and len(entry) == 2 and type(entry[0]) is str and type(entry[1]) is int):
            raise place.item(i).error("[base64, id]", entry)
        if not 0 <= entry[1] < ID_LIMIT:
            raise place.item(i).error(f"an id below {ID_LIMIT}", entry[1])
    try:
        tokens = tuple([binascii.a2b_base64(token, strict_mode=True) for token, _ in value])
    except ValueError:
        bad = next(i for i, (token, _) in enumerate(value) if not _is_base64(token))
        raise place.item(bad).error("base64", value[bad][0]) from None
    return tokens, np.array([id for _, id in value], np.int32)


def _is_base64(text: str) -> bool:
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return False
    return True


Pairs = Annotated[Ids, Read(_read_pairs)]
TokensAndIds = Annotated[tuple[tuple[bytes, ...], Ids], Read(_read_tokens)]


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class _LearnedJson:
    kind: str
    byte_order: Literal["hf"]
    merges: Pairs
    counts: Annotated[tuple[int, ...], Read(_read_counts)] = ()


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class _MergesJson:
    kind: str
    tokens: TokensAndIds
    merges: Pairs
    ignore_merges: bool


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class _RanksJson:
    kind: str
    tokens: TokensAndIds


def write_tokens(tokens: tuple[bytes, ...], ids: Ids) -> Written:
    """The JSON form that TokensAndIds reads."""
    return Written(kernel.write_base64_tokens(make_texts_from_strings(tokens), ids))


def _write_pairs(pairs: Ids) -> Written:
    return Written(kernel.write_id_pairs(pairs))
