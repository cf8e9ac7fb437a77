"""TokenizerSpec: everything that decides which ids a text becomes, and its one file form, tokcore.json.

The fingerprint is the sha256 of the canonical JSON of all that decides ids. The file also holds the counts of learned
merges and a chat template; the fingerprint leaves these out.
Leaves to others: encoding (tokcore.tokenizer.tokenizer) and foreign formats (tokcore.formats).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from tokcore.errors import ChecksumError, ConfigError, FormatError, LearnError, VersionError
from tokcore.files.canonical_json import hash_sha256, write_canonical_json
from tokcore.files.garbage import no_collection
from tokcore.files.jsonable import Place, from_jsonable, require_version
from tokcore.models import KINDS, Model, find_kind
from tokcore.models.bpe import parse_model_file
from tokcore.models.defaults import FixedVocabulary
from tokcore.models.model import (
    ID_LIMIT,
    MAX_TOKEN_BYTES,
    MAX_VOCABULARY_BYTES,
    Ids,
    make_too_long_error,
)
from tokcore.text import bert_characters as bert
from tokcore.text import unicode
from tokcore.text.byte_alphabet import from_printable
from tokcore.text.normalize import BERT_STEPS
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.sentencepiece_data import CHARSMAP_SHA256
from tokcore.text.sentencepiece_tables import NORMALIZER

FORMAT = "tokcore-tokenizer"
FORMAT_VERSION = 1
FILE_NAME = "tokcore.json"
PLAIN = "plain"
UNKNOWN = "unknown"
MASK = "mask"
ROLES = ("document_end", "document_begin", "padding", UNKNOWN, MASK, "separator", "classifier", PLAIN)


@dataclasses.dataclass(frozen=True, slots=True)
class SpecialToken:
    """A token that no model makes: text in the corpus that spells it is ordinary unless allowed.

    is_special: False of an added token of a tokenizer.json that is not special: text that spells it always becomes it.
    normalized: whether it is looked for in normalized text, by its own normalized form, and after all that are not.
    lstrip, rstrip: white space before or after it is part of it, where text spells it. single_word: it is only found
    where no letter, digit or the like is next to it.
    """

    text: str
    id: int | None  # None only before make_learned_spec assigns one
    role: str = PLAIN
    is_special: bool = True
    normalized: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


FLAGS = ("normalized", "lstrip", "rstrip", "single_word")  # of special tokens, most often False


@dataclasses.dataclass(frozen=True, eq=False)
class TokenizerSpec:
    """A tokenizer by content. Construction checks it; two specs are equal if their fingerprints are.

    normalizer: steps of tokcore.text.normalize, in order. pattern: Pretokenizer.spec. special: in the order of ids.
    chat_template: Jinja, for readers of our exports; it decides no ids, so it is no part of the fingerprint.
    post_processor, decoder: JSON, for exports: how the imported tokenizer.json puts tokens around texts, and makes
        text of tokens. Neither is part of the fingerprint. Empty: there was none, or nothing was imported.
    max_length: tokens that a model takes at once, for exports; None: not said. No part of the fingerprint.
    Raises FormatError if ids or texts are not unique, a limit is passed, or the model is not valid.
    """

    normalizer: tuple[str, ...]
    pattern: Mapping[str, str]
    model: Model
    special: tuple[SpecialToken, ...] = ()
    chat_template: str = ""
    post_processor: str = ""
    max_length: int | None = None
    decoder: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "special", tuple(sorted(self.special, key=lambda token: token.id or 0)))
        if not isinstance(self.model, FixedVocabulary):
            _check_tokens(self.model.tokens, self.model.ids)
        _check_special(self.special, self.shared_ids, self.model.ids)
        self.model.check()
        if self.model.unknown is not None and self.model.unknown not in {token.id for token in self.special}:
            raise FormatError(f"id {self.model.unknown} stands for unknown text, and is no special token's")

    @functools.cached_property
    def shared_ids(self) -> frozenset[int]:
        """The ids of added tokens that are ordinary tokens, too: merges make them, or make others of them."""
        added = {token.id: token.text.encode() for token in self.special if not token.is_special}
        if not added:
            return frozenset()
        where = np.flatnonzero(np.isin(self.model.ids, [id for id in added if id is not None]))
        return frozenset(int(self.model.ids[i]) for i in where if self.model.tokens[i] == added[int(self.model.ids[i])])

    @functools.cached_property
    def fingerprint(self) -> str:
        """The identity: sha256 of the canonical JSON of everything that decides ids, as lowercase hex."""
        return hash_sha256(write_canonical_json(self._functional()))

    @property
    def pattern_name(self) -> str:
        """The split pattern for a message: its name, or the start of its text or of its steps."""
        return self.pattern.get("name") or repr(self.pattern.get("regex") or self.pattern.get("steps", ""))[:80]

    @property
    def keeps_text(self) -> bool:
        """Whether the tokens of every text, joined, are the text itself: nothing of it is normalized or left out."""
        strips = any(token.lstrip or token.rstrip for token in self.special)
        keeps = Pretokenizer.from_spec(self.pattern).keeps_text
        return self.model.lossless and not self.normalizer and keeps and not strips

    @property
    def vocab_size(self) -> int:
        """The highest id + 1: gaps count."""
        return max(int(self.model.ids.max()), *(_find_id(token) for token in self.special), 0) + 1

    def require_all_special(self, file: str) -> None:
        """Raise FormatError if there is an added token that text always becomes. file: what cannot hold it."""
        for token in self.special:
            if not token.is_special:
                raise FormatError(
                    f"added token {token.text!r} is not special, so that text always becomes it: {file} cannot say "
                    f"that. Export to huggingface instead"
                )

    def texts_of(self, role: str) -> tuple[str, ...]:
        """The special tokens of a role, in the order of ids."""
        return tuple(token.text for token in self.special if token.role == role)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TokenizerSpec) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def to_json_bytes(self) -> bytes:
        """The content of tokcore.json: canonical, the same bytes for the same spec."""
        content = self._functional()
        content["model"] |= self.model.informative()
        if self.chat_template:
            content["chat_template"] = self.chat_template
        if self.post_processor:
            content["post_processor"] = self.post_processor
        if self.decoder:
            content["decoder"] = self.decoder
        if self.max_length is not None:
            content["max_length"] = self.max_length
        return write_canonical_json(content | {"format_version": FORMAT_VERSION, "fingerprint": self.fingerprint})

    @classmethod
    @no_collection()
    def from_json_bytes(cls, data: bytes, name: str, checked_sha256: str = "") -> TokenizerSpec:
        """The spec whose to_json_bytes is data; name is the file's, for errors.

        Raises VersionError for another format version or other Unicode tables than this release has, ChecksumError
        if the fingerprint is not that of the content, FormatError for anything else that is wrong.
        checked_sha256: of a file that this release has checked before; data must have it, and is not checked again for
        its fingerprint and its one form, which takes longer than the rest.
        """
        if checked_sha256 and hash_sha256(data) != checked_sha256:
            raise ChecksumError(f"{name}: was changed after it was checked: its sha256 is not {checked_sha256}")
        return _parse_json_bytes(data, name, bool(checked_sha256))

    def _functional(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "normalizer": list(self.normalizer),
            "pattern": dict(self.pattern),
            "unicode": {"version": unicode.VERSION, "tables_sha256": unicode.TABLES_SHA256} | self._name_more_tables(),
            "model": self.model.functional(),
            "special": [_write_token(token) for token in self.special],
        }

    def _name_more_tables(self) -> dict[str, str]:
        """BERT's and SentencePiece's own tables, of a tokenizer whose steps use them."""
        uses_bert = self.pattern.get("name") == "bert" or not BERT_STEPS.keys().isdisjoint(self.normalizer)
        named = {"bert_sha256": bert.TABLES_SHA256} if uses_bert else {}
        return named | ({"nmt_nfkc_sha256": CHARSMAP_SHA256} if NORMALIZER in self.normalizer else {})


# A build reads the file that it has just written, and a command prints with what it has built with.
@functools.lru_cache(maxsize=2)
def _parse_json_bytes(data: bytes, name: str, is_checked: bool) -> TokenizerSpec:
    value = parse_model_file(data, name, is_checked)
    require_version(value, name, FORMAT, FORMAT_VERSION)
    read = from_jsonable(_SpecJson, value, name)
    _check_unicode(read.unicode, name)
    place = Place(name, "model")
    kind = read.model.get("kind")
    if type(kind) is not str or (read_model := find_kind(kind)) is None:
        raise place.field("kind").error(f"one of {', '.join(KINDS)}", kind)
    model = read_model(read.model, place)
    special = tuple(
        SpecialToken(*(token.text, token.id, token.role, token.special, *(getattr(token, flag) for flag in FLAGS)))
        for token in read.special
    )
    try:
        spec = TokenizerSpec(
            *(read.normalizer, read.pattern, model, special, read.chat_template, read.post_processor, read.max_length),
            read.decoder,
        )
    except FormatError as error:
        raise FormatError(f"{name}: {error}") from error
    if is_checked:
        spec.__dict__["fingerprint"] = read.fingerprint  # where cached_property keeps it
    elif spec.fingerprint != read.fingerprint:
        raise ChecksumError(
            f"{name}: its content has the fingerprint {spec.fingerprint}, but it says {read.fingerprint}: it was "
            f"changed after it was written. Restore it, or import the tokenizer again."
        )
    return spec


def make_learned_spec(
    model: Model, pattern: Mapping[str, str], normalizer: Sequence[str], special: Iterable[SpecialToken]
) -> TokenizerSpec:
    """The spec of a learned model, with the special tokens in the given order after its ids.

    A special token without id takes the lowest free one after the model's; a pinned id may leave gaps, or fill those
    of the model. Raises ConfigError for a pinned id that is taken, LearnError if a special token has the bytes of a
    learned one.
    """
    id_of_token = dict(zip(model.tokens, model.ids.tolist(), strict=True))
    first = int(model.ids[-1]) + 1
    gaps = frozenset(range(first)).difference(id_of_token.values()) if len(model.ids) < first else frozenset()
    special = assign_ids(special, first, gaps)
    for token in special:
        for name in (token.text.encode(), from_printable(token.text)):
            if name is not None and name in id_of_token:
                raise LearnError(
                    f"special token {token.text!r} has the name of the learned token {id_of_token[name]}: "
                    f"vocabulary files could not tell them apart. Choose another text, such as '<|...|>'."
                )
    return TokenizerSpec(tuple(normalizer), dict(pattern), model, tuple(special))


def parse_special_tokens(special: Mapping[str, str] | Iterable[str | SpecialToken]) -> list[SpecialToken]:
    """Special tokens as a caller gives them: texts and their roles, or a list of texts, which are plain, and tokens.

    Raises ConfigError for an unknown role, TypeError for what is neither.

    >>> [(token.text, token.role) for token in parse_special_tokens({"<|end|>": "document_end"})]
    [('<|end|>', 'document_end')]
    """
    if isinstance(special, str | bytes):
        raise TypeError(f"special = {special!r:.80}: expected a list of texts, or texts and their roles")
    if not isinstance(special, Mapping):
        special = list(special)
        for i, token in enumerate(special):
            if not isinstance(token, str | SpecialToken):
                raise TypeError(f"special[{i}] = {token!r:.80}: expected a str or a SpecialToken")
        return [SpecialToken(token, None) if isinstance(token, str) else token for token in special]
    for text, role in special.items():
        if role not in ROLES:
            raise ConfigError(f"special[{text!r}] = {role!r:.80}: expected one of the roles {', '.join(ROLES)}")
    return [SpecialToken(text, None, role) for text, role in special.items()]


def assign_ids(special: Iterable[SpecialToken], first: int, gaps: frozenset[int] = frozenset()) -> list[SpecialToken]:
    """The special tokens with ids: pinned ones keep theirs, the others take the lowest free ones from first on.

    gaps: ids below first that may be pinned. Raises ConfigError for any other pinned id below first, one that is out of
    range or given twice.
    """
    special = list(special)
    taken: dict[int, str] = {}
    for token in special:
        if token.id is None:
            continue
        if token.id not in gaps and not first <= token.id < ID_LIMIT:
            raise ConfigError(
                f"special.{token.text!r}.id = {token.id}: ids below {first} belong to ordinary tokens, and ids end "
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


def _write_token(token: SpecialToken) -> dict[str, Any]:
    """Its JSON form. What most tokens are is left out, as in files of releases that knew no other."""
    more = {} if token.is_special else {"special": False}
    more |= {flag: True for flag in FLAGS if getattr(token, flag)}
    return {"text": token.text, "id": token.id, "role": token.role, **more}


def _find_id(token: SpecialToken) -> int:
    assert token.id is not None
    return token.id


def _check_tokens(tokens: tuple[bytes, ...], ids: Ids) -> None:
    if len(ids) and int(ids.min()) < 0:
        raise FormatError(f"token id {int(ids.min())}: expected 0 to {ID_LIMIT - 1}")
    if np.any(ids[1:] <= ids[:-1]):
        raise FormatError(f"id {int(ids[1:][ids[1:] <= ids[:-1]][0])} is given twice or out of order")
    lengths = [*map(len, tokens)]
    if max(lengths, default=0) > MAX_TOKEN_BYTES or sum(lengths) > MAX_VOCABULARY_BYTES:
        for token, id, total in zip(tokens, ids.tolist(), accumulate(lengths), strict=True):
            if len(token) > MAX_TOKEN_BYTES or total > MAX_VOCABULARY_BYTES:
                raise make_too_long_error(len(token), total, f"id {id}")
    known = set(tokens)
    if len(known) != len(tokens) or b"" in known:
        seen: dict[bytes, int] = {}
        for token, id in zip(tokens, ids.tolist(), strict=True):
            if not token or token in seen:
                as_is = f"as is id {seen[token]}" if token else "empty"
                raise FormatError(f"id {id} is the token {token!r}, {as_is}")
            seen[token] = id


def _check_special(special: tuple[SpecialToken, ...], shared: frozenset[int], ids: Ids) -> None:
    wanted = np.array([token.id for token in special if token.id is not None and 0 <= token.id < ID_LIMIT], np.int32)
    taken = {id: "an ordinary token" for id in ids[np.isin(ids, wanted)].tolist() if id not in shared}
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
    for whose, table, own in (
        ("BERT's tables", made_for.bert_sha256, bert.TABLES_SHA256),
        ("SentencePiece's nmt_nfkc", made_for.nmt_nfkc_sha256, CHARSMAP_SHA256),
    ):
        if table != own:
            raise VersionError(
                f"{name}: made for {whose} {table[:12]}, and this release has {own[:12]}: texts would be split "
                f"differently. Use the release that wrote it."
            )


# ---------------------------------------------------------------------------------------------- tokcore.json, read back


@dataclasses.dataclass(frozen=True, slots=True)
class _UnicodeJson:
    version: str
    tables_sha256: str
    bert_sha256: str = bert.TABLES_SHA256
    nmt_nfkc_sha256: str = CHARSMAP_SHA256


@dataclasses.dataclass(frozen=True, slots=True)
class _SpecialJson:
    text: str
    id: int
    role: str
    special: bool = True
    normalized: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


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
    chat_template: str = ""
    post_processor: str = ""
    max_length: int | None = None
    decoder: str = ""
