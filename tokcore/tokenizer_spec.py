"""TokenizerSpec: everything that decides which ids a text becomes, and its one file form, tokcore.json.

The fingerprint is the sha256 of the canonical JSON of all of it; where a learned merge's count is kept beside, it is
not part of it. Leaves to others: encoding (tokcore.tokenizer) and foreign formats (tokcore.formats).
"""

from __future__ import annotations

import binascii
import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import orjson

from tokcore import kernel, unicode
from tokcore.byte_alphabet import BYTE_OF_ID, from_printable
from tokcore.canonical import canonical_json, parse_canonical, sha256_hex
from tokcore.errors import ChecksumError, ConfigError, FormatError, LearnError, VersionError
from tokcore.jsonable import Place, Read, from_jsonable, require_version
from tokcore.texts import texts_from_strings

FORMAT = "tokcore-tokenizer"
FORMAT_VERSION = 1
FILE_NAME = "tokcore.json"
ROLES = ("document_end", "document_begin", "padding", "plain")

ID_LIMIT = 2**31  # ids are int32 everywhere
MAX_TOKEN_BYTES = 65_535
MAX_VOCABULARY_BYTES = 2**30  # of all tokens together: a small file must not unfold into a large one

Ids = npt.NDArray[np.int32]


@dataclasses.dataclass(frozen=True, slots=True)
class SpecialToken:
    """A token that no merge makes: text in the corpus that spells it is ordinary unless allowed."""

    text: str
    id: int | None  # None only before learned_spec assigns one
    role: str = "plain"


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class MergeTable:
    """What the kernel's encoder needs: see tokcore.kernel.Encoder."""

    left: Ids
    right: Ids
    result: Ids
    priority: npt.NDArray[np.uint32]


@dataclasses.dataclass(frozen=True, eq=False)
class LearnedModel:
    """BPE as we learn it: ids 0 to 255 are the bytes in hf order, 256 + i is merge i.

    merges: int32 [m, 2], pairs of ids. counts: how often each pair occurred when it was merged; () if unknown.
    """

    kind: ClassVar[str] = "learned"
    whole: ClassVar[bool] = False  # every token encodes to itself, so it would change nothing

    merges: Ids
    counts: tuple[int, ...] = ()

    @functools.cached_property
    def tokens(self) -> tuple[bytes, ...]:
        """The ordinary tokens' bytes, in the order of ids."""
        first_unknown = np.arange(256, 256 + len(self.merges)).reshape(-1, 1)
        for i in np.flatnonzero(((self.merges < 0) | (self.merges >= first_unknown)).any(axis=1))[:1].tolist():
            left, right = self.merges[i].tolist()
            raise FormatError(f"merge {i} is of the ids {left} and {right}: expected ids below {256 + i}")
        tokens = [bytes([byte]) for byte in BYTE_OF_ID]
        total = len(tokens)
        # One after the other: few merges can ask for more bytes than there are.
        for left, right in zip(*self.merges.T.tolist(), strict=True):
            token = tokens[left] + tokens[right]
            total += len(token)
            if len(token) > MAX_TOKEN_BYTES or total > MAX_VOCABULARY_BYTES:
                raise _too_long(len(token), total, f"merge {len(tokens) - 256}")
            tokens.append(token)
        return tuple(tokens)

    @property
    def ids(self) -> Ids:
        """The ids of tokens."""
        return np.arange(256 + len(self.merges), dtype=np.int32)

    def merge_table(self) -> MergeTable:
        """The merges for the kernel."""
        order = np.arange(len(self.merges), dtype=np.uint32)
        left, right = np.ascontiguousarray(self.merges.T)
        return MergeTable(left, right, (order + 256).astype(np.int32), order)

    def functional(self) -> dict[str, Any]:
        """The part that decides ids, as JSON."""
        return {"kind": self.kind, "byte_order": "hf", "merges": self.merges.tolist()}

    def informative(self) -> dict[str, Any]:
        """The rest of it, as JSON."""
        return {"counts": list(self.counts)} if self.counts else {}

    @classmethod
    def from_json(cls, value: Any, place: Place) -> LearnedModel:
        """The model whose functional() and informative() are value."""
        read = from_jsonable(_LearnedJson, value, place)
        if read.counts and len(read.counts) != len(read.merges):
            raise place.field("counts").error(f"one for each of {len(read.merges)} merges", len(read.counts))
        return cls(read.merges, read.counts)


@dataclasses.dataclass(frozen=True, eq=False)
class MergesModel:
    """BPE from a list of merges with arbitrary ids, as Hugging Face keeps it.

    tokens, ids: the ordinary tokens, in the order of ids. merges: int32 [m, 2], pairs of ids, first merged first; what
    a pair becomes is the token of the joined bytes. ignore_merges: a pre-token that is a token is emitted as such.
    """

    kind: ClassVar[str] = "merges"

    tokens: tuple[bytes, ...]
    ids: Ids
    merges: Ids
    ignore_merges: bool

    @property
    def whole(self) -> bool:
        return self.ignore_merges

    def merge_table(self) -> MergeTable:
        """The merges for the kernel."""
        token_of_id = dict(zip(self.ids.tolist(), self.tokens, strict=True))
        id_of_token = {token: id for id, token in token_of_id.items()}
        result = np.empty(len(self.merges), np.int32)
        for i, (left, right) in enumerate(self.merges.tolist()):
            if left not in token_of_id or right not in token_of_id:
                raise FormatError(f"merge {i} is of the ids {left} and {right}, of which one is no token")
            joined = id_of_token.get(token_of_id[left] + token_of_id[right])
            if joined is None:
                raise FormatError(f"merge {i}, of {token_of_id[left]!r} and {token_of_id[right]!r}, makes no token")
            result[i] = joined
        left_ids, right_ids = np.ascontiguousarray(self.merges.T)
        return MergeTable(left_ids, right_ids, result, np.arange(len(result), dtype=np.uint32))

    def functional(self) -> dict[str, Any]:
        """The part that decides ids, as JSON."""
        return {
            "kind": self.kind,
            "tokens": _tokens_json(self.tokens, self.ids),
            "merges": self.merges.tolist(),
            "ignore_merges": self.ignore_merges,
        }

    def informative(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_json(cls, value: Any, place: Place) -> MergesModel:
        """The model whose functional() is value."""
        read = from_jsonable(_MergesJson, value, place)
        return cls(*read.tokens, read.merges, read.ignore_merges)


@dataclasses.dataclass(frozen=True, eq=False)
class RanksModel:
    """BPE as tiktoken defines it: two neighbours merge if their joined bytes are a token; the id is the rank.

    tokens, ids: in the order of ids. A pre-token that is a token is emitted as such.
    """

    kind: ClassVar[str] = "ranks"
    whole: ClassVar[bool] = True

    tokens: tuple[bytes, ...]
    ids: Ids

    def merge_table(self) -> MergeTable:
        """Every way to make a token of two tokens, with its rank for the kernel."""
        left, right, result = (self.ids[places] for places in kernel.rank_merges(texts_from_strings(self.tokens)))
        return MergeTable(left, right, result, result.astype(np.uint32))

    def functional(self) -> dict[str, Any]:
        """The part that decides ids, as JSON."""
        return {"kind": self.kind, "tokens": _tokens_json(self.tokens, self.ids)}

    def informative(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_json(cls, value: Any, place: Place) -> RanksModel:
        """The model whose functional() is value."""
        return cls(*from_jsonable(_RanksJson, value, place).tokens)


Model = LearnedModel | MergesModel | RanksModel
_MODELS: dict[str, type[Model]] = {model.kind: model for model in (LearnedModel, MergesModel, RanksModel)}


@dataclasses.dataclass(frozen=True, eq=False)
class TokenizerSpec:
    """A tokenizer by content. Construction checks it; two specs are equal if their fingerprints are.

    normalizer: steps of tokcore.normalize, in order. pattern: Pretokenizer.spec. special: in the order of ids.
    Raises FormatError where ids or texts are not unique, a byte has no token, or a limit is passed.
    """

    normalizer: tuple[str, ...]
    pattern: Mapping[str, str]
    model: Model
    special: tuple[SpecialToken, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "special", tuple(sorted(self.special, key=lambda token: token.id or 0)))
        _check_tokens(self.model.tokens, self.model.ids)
        _check_special(self.special, self.model.ids)
        self.merge_table  # noqa: B018 - checked by being made

    @functools.cached_property
    def merge_table(self) -> MergeTable:
        """The merges, as the kernel's encoder takes them."""
        return self.model.merge_table()

    @functools.cached_property
    def fingerprint(self) -> str:
        """The identity: sha256 of the canonical JSON of everything that decides ids, as lowercase hex."""
        return sha256_hex(canonical_json(self._functional()))

    @property
    def pattern_name(self) -> str:
        """The split pattern for a message: its name, or the start of its text."""
        return self.pattern.get("name") or repr(self.pattern.get("regex", ""))[:80]

    @property
    def vocab_size(self) -> int:
        """The highest id + 1: gaps count."""
        return max(int(self.model.ids.max()), *(_id(token) for token in self.special), 0) + 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TokenizerSpec) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def to_json_bytes(self) -> bytes:
        """The content of tokcore.json: canonical, the same bytes for the same spec."""
        content = self._functional()
        content["model"] |= self.model.informative()
        return canonical_json(content | {"format_version": FORMAT_VERSION, "fingerprint": self.fingerprint})

    @classmethod
    def from_json_bytes(cls, data: bytes, name: str, checked_sha256: str = "") -> TokenizerSpec:
        """The spec whose to_json_bytes is data; name is the file's, for errors.

        Raises VersionError for another format version or other Unicode tables than this release has, ChecksumError
        if the fingerprint is not that of the content, FormatError for anything else that is wrong.
        checked_sha256: of a file that this release has checked before; data must have it, and is not checked again for
        its fingerprint and its one form, which takes longer than the rest.
        """
        if checked_sha256 and sha256_hex(data) != checked_sha256:
            raise ChecksumError(f"{name}: was changed after it was checked: its sha256 is not {checked_sha256}")
        return _from_json_bytes(data, name, bool(checked_sha256))

    def _functional(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "normalizer": list(self.normalizer),
            "pattern": dict(self.pattern),
            "unicode": {"version": unicode.VERSION, "tables_sha256": unicode.TABLES_SHA256},
            "model": self.model.functional(),
            "special": [{"text": token.text, "id": token.id, "role": token.role} for token in self.special],
        }


# A build reads the file that it has just written, and a command prints with what it has built with.
@functools.lru_cache(maxsize=2)
def _from_json_bytes(data: bytes, name: str, is_checked: bool) -> TokenizerSpec:
    value = orjson.loads(data) if is_checked else parse_canonical(data, name)
    require_version(value, name, FORMAT, FORMAT_VERSION)
    read = from_jsonable(_SpecJson, value, name)
    _check_unicode(read.unicode, name)
    place = Place(name, "model")
    kind = read.model.get("kind")
    if type(kind) is not str or kind not in _MODELS:
        raise place.field("kind").error(f"one of {', '.join(_MODELS)}", kind)
    model = _MODELS[kind].from_json(read.model, place)
    special = tuple(SpecialToken(token.text, token.id, token.role) for token in read.special)
    try:
        spec = TokenizerSpec(read.normalizer, read.pattern, model, special)
    except FormatError as error:
        raise FormatError(f"{name}: {error}") from error
    if is_checked:
        spec.__dict__["fingerprint"] = read.fingerprint  # where cached_property keeps it
    elif spec.fingerprint != read.fingerprint:
        raise ChecksumError(
            f"{name}: its content has the fingerprint {spec.fingerprint}, but it says {read.fingerprint}: it was "
            f"changed after it was written. Restore it, or import the tokenizer anew."
        )
    return spec


def learned_spec(
    merges: Sequence[tuple[bytes, bytes, int]],
    pattern: Mapping[str, str],
    normalizer: Sequence[str],
    special: Iterable[SpecialToken],
) -> TokenizerSpec:
    """The spec of a learned tokenizer: bytes, merges in rank order, then special tokens in the given order.

    merges: tokcore.bpe.Merge, that is left, right and how often they were neighbours.
    A special token without id takes the lowest free one after the merges; a pinned id may leave gaps.
    Raises ConfigError for a pinned id that is taken, LearnError if a merge is not of known tokens or a special token
    has the bytes of a learned one.
    """
    id_of_token = {bytes([byte]): id for id, byte in enumerate(BYTE_OF_ID)}
    pairs: list[tuple[int, int]] = []
    for i, (left, right, _) in enumerate(merges):
        left_id, right_id, joined = id_of_token.get(left), id_of_token.get(right), left + right
        if left_id is None or right_id is None or id_of_token.setdefault(joined, 256 + i) != 256 + i:
            raise LearnError(f"merge {i}, of {left!r} and {right!r}, is not of earlier tokens to a new one")
        if len(joined) > MAX_TOKEN_BYTES:
            raise LearnError(
                f"merge {i} makes a token of {len(joined)} bytes, above {MAX_TOKEN_BYTES}: set count.max_pretoken_bytes"
            )
        pairs.append((left_id, right_id))
    special = assigned(special, 256 + len(merges))
    for token in special:
        for name in (token.text.encode(), from_printable(token.text)):
            if name is not None and name in id_of_token:
                raise LearnError(
                    f"special token {token.text!r} has the name of the learned token {id_of_token[name]}: "
                    f"vocabulary files could not tell them apart. Choose another text, such as '<|...|>'."
                )
    model = LearnedModel(np.array(pairs, np.int32).reshape(-1, 2), tuple([int(count) for _, _, count in merges]))
    return TokenizerSpec(tuple(normalizer), dict(pattern), model, tuple(special))


def assigned(special: Iterable[SpecialToken], first: int) -> list[SpecialToken]:
    """The special tokens with ids: pinned ones keep theirs, the others take the lowest free ones from first on.

    Raises ConfigError for a pinned id below first, out of range or given twice.
    """
    special = list(special)
    taken: dict[int, str] = {}
    for token in special:
        if token.id is None:
            continue
        if not first <= token.id < ID_LIMIT:
            raise ConfigError(
                f"special.{token.text!r}.id = {token.id}: ids below {first} belong to bytes and merges, and ids end "
                f"before {ID_LIMIT}. Choose {first} or above."
            )
        if token.id in taken:
            raise ConfigError(f"special.{token.text!r}.id = {token.id}: already the id of {taken[token.id]!r}")
        taken[token.id] = token.text
    assigned, next_id = [], first
    for token in special:
        if token.id is None:
            while next_id in taken:
                next_id += 1
            token = dataclasses.replace(token, id=next_id)
            next_id += 1
        assigned.append(token)
    return assigned


def _id(token: SpecialToken) -> int:
    assert token.id is not None
    return token.id


def _too_long(length: int, total: int, what: str) -> FormatError:
    return FormatError(
        f"{what} makes a token of {length} bytes, {total} in all: the limits are {MAX_TOKEN_BYTES} a token and "
        f"{MAX_VOCABULARY_BYTES} in all"
    )


def _check_tokens(tokens: tuple[bytes, ...], ids: Ids) -> None:
    if len(ids) and int(ids.min()) < 0:
        raise FormatError(f"token id {int(ids.min())}: expected 0 to {ID_LIMIT - 1}")
    if np.any(ids[1:] <= ids[:-1]):
        raise FormatError(f"id {int(ids[1:][ids[1:] <= ids[:-1]][0])} is given twice or out of order")
    lengths = [*map(len, tokens)]
    if max(lengths, default=0) > MAX_TOKEN_BYTES or sum(lengths) > MAX_VOCABULARY_BYTES:
        for token, id, total in zip(tokens, ids.tolist(), accumulate(lengths), strict=True):
            if len(token) > MAX_TOKEN_BYTES or total > MAX_VOCABULARY_BYTES:
                raise _too_long(len(token), total, f"id {id}")
    known = set(tokens)
    if len(known) != len(tokens) or b"" in known:
        seen: dict[bytes, int] = {}
        for token, id in zip(tokens, ids.tolist(), strict=True):
            if not token or token in seen:
                as_is = f"as is id {seen[token]}" if token else "empty"
                raise FormatError(f"id {id} is the token {token!r}, {as_is}")
            seen[token] = id
    for byte in range(256):
        if bytes([byte]) not in known:
            raise FormatError(f"no token for the byte {byte:#04x}: all 256 are needed to encode every text")


def _check_special(special: tuple[SpecialToken, ...], ids: Ids) -> None:
    taken = dict.fromkeys(ids.tolist(), "an ordinary token")
    texts = set()
    for token in special:
        if token.id is None or not 0 <= token.id < ID_LIMIT:
            raise FormatError(f"special token {token.text!r}: its id is {token.id}, expected 0 to {ID_LIMIT - 1}")
        if token.id in taken:
            raise FormatError(f"special token {token.text!r}: its id {token.id} is already {taken[token.id]}")
        if not token.text or token.text in texts:
            raise FormatError(f"special token {token.text!r} " + ("is given twice" if token.text else "is empty"))
        if token.role not in ROLES:
            raise FormatError(f"special token {token.text!r}: its role {token.role!r} is not one of {', '.join(ROLES)}")
        taken[token.id] = repr(token.text)
        texts.add(token.text)


def _check_unicode(made_for: _UnicodeJson, name: str) -> None:
    if (made_for.version, made_for.tables_sha256) != (unicode.VERSION, unicode.TABLES_SHA256):
        raise VersionError(
            f"{name}: made for the tables {made_for.tables_sha256[:12]} of Unicode {made_for.version}, and this "
            f"release has {unicode.TABLES_SHA256[:12]} of {unicode.VERSION}: texts would be split differently. "
            f"Use the release that wrote it."
        )


def _tokens_json(tokens: tuple[bytes, ...], ids: Ids) -> list[list[Any]]:
    return [
        [binascii.b2a_base64(token, newline=False).decode(), id] for token, id in zip(tokens, ids.tolist(), strict=True)
    ]


# ---------------------------------------------------------------------------------------------- tokcore.json, read back
# Long lists have readers of their own, which look at all of a list in C before they look for what is wrong in it.


def _read_pairs(value: Any, place: Place) -> Ids:
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


@dataclasses.dataclass(frozen=True, slots=True)
class _UnicodeJson:
    version: str
    tables_sha256: str


@dataclasses.dataclass(frozen=True, slots=True)
class _SpecialJson:
    text: str
    id: int
    role: str


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class _SpecJson:
    format: str
    format_version: int
    fingerprint: str
    unicode: _UnicodeJson
    normalizer: tuple[str, ...]
    pattern: dict[str, str]
    special: tuple[_SpecialJson, ...]
    model: dict[str, Any]  # read further by the class of its kind
