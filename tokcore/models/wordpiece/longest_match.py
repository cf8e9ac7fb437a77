"""WordPiece: the longest token that matches, from left to right; one unknown token where nothing does.

Tokens that go on with a word have a prefix in files, `##` in BERT's. The bytes of a token are those of its name.
Pre-tokens of white space alone become nothing, so texts do not come back as they were. Leaves to others: vocab.txt and
tokenizer.json (tokcore.formats.tokenizers.bert, huggingface).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.errors import FormatError
from tokcore.files.jsonable import Place, from_jsonable
from tokcore.kernel import TokenTable
from tokcore.models.bpe import BpeModel, TokensAndIds, write_tokens
from tokcore.models.defaults import ListedVocabulary
from tokcore.models.model import (
    Decoder,
    Encode,
    Encoder,
    Ids,
    Model,
    Unreachable,
    describe_kind,
    find_unlike_themselves,
)
from tokcore.models.token_decoders import GivenIds, TableDecoder
from tokcore.text.texts import Offsets, Texts, make_texts_from_strings

PREFIX = "##"
MAX_CHARACTERS = 100


@dataclasses.dataclass(frozen=True, eq=False)
class WordpieceModel(ListedVocabulary):
    """A vocabulary of words and parts of words.

    tokens, ids: in the order of ids. unknown: id of the special token that stands for a pre-token that nothing
    matches, or that has more than max_characters (0: no limit). Raises FormatError for a token that is not UTF-8.
    """

    kind: ClassVar[str] = "wordpiece"

    tokens: tuple[bytes, ...]
    ids: Ids
    unknown: int
    prefix: str = PREFIX
    max_characters: int = MAX_CHARACTERS

    def __post_init__(self) -> None:
        if not self.prefix:
            raise FormatError("the prefix of tokens that go on with a word is empty: expected one such as ##")
        if self.max_characters < 0:
            raise FormatError(f"max_characters = {self.max_characters}: expected 0 (no limit) or more")
        self.names  # noqa: B018 - checked by being made

    @functools.cached_property
    def _further(self) -> dict[bytes, int]:
        """The tokens that go on with a word, without their prefix."""
        prefix = self.prefix.encode()
        return {
            token[len(prefix) :]: id
            for token, id in zip(self.tokens, self.ids.tolist(), strict=True)
            if token.startswith(prefix) and token != prefix
        }

    @property
    def summary(self) -> str:
        return f"{len(self.tokens)} word pieces"

    @property
    def sizes(self) -> Ids:
        return np.array([len(self._strip(token)) for token in self.tokens], np.int32)

    def encoder(self, pattern: str | None, cache_bytes: int) -> Encoder:
        return kernel.WordpieceEncoder(
            pattern, *self._list_by_place(), self.unknown, self.max_characters, True, cache_bytes
        )

    def dropout_encoder(self) -> kernel.DropoutWordpiece:
        """What passes tokens over by chance."""
        return kernel.DropoutWordpiece(*self._list_by_place(), self.unknown, self.max_characters, True)

    def _list_by_place(self) -> tuple[Texts, Ids, npt.NDArray[np.uint8]]:
        """(texts, ids, whether they go on with a word) of tokens as they match."""
        # A name with the prefix also matches a word that is spelled so.
        texts = make_texts_from_strings([*self.tokens, *self._further])
        ids = np.fromiter(chain(self.ids.tolist(), self._further.values()), np.int32, texts.num_texts)
        return texts, ids, (np.arange(texts.num_texts) >= len(self.tokens)).astype(np.uint8)

    def decoder(self, special: Mapping[int, bytes]) -> Decoder:
        return SpacedTokens(self, special)

    def unreachable(self, encode: Encode) -> list[Unreachable]:
        too_long = [
            Unreachable(id, (self.unknown,))
            for token, id in self._further.items()
            if self.max_characters and len(token.decode()) >= self.max_characters
        ]
        further = set(self._further.values())
        first = [one for one in find_unlike_themselves(self, encode) if one.id not in further]
        return sorted([*first, *too_long])

    def as_bpe(self) -> BpeModel:
        raise FormatError("WordPiece takes the longest token that matches: no merges give the same ids")

    def functional(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "lossless": False,
            "tokens": write_tokens(self.tokens, self.ids),
            "unknown": self.unknown,
            "prefix": self.prefix,
            "max_characters": self.max_characters,
        }

    @classmethod
    def from_json(cls, value: Any, place: Place) -> WordpieceModel:
        """The model whose functional() is value."""
        read = from_jsonable(_WordpieceJson, value, place)
        try:
            return cls(*read.tokens, read.unknown, read.prefix, read.max_characters)
        except FormatError as error:
            raise FormatError(f"{place}: {error}") from error

    def _strip(self, token: bytes) -> bytes:
        prefix = self.prefix.encode()
        return token[len(prefix) :] if token.startswith(prefix) and token != prefix else token


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class _WordpieceJson:
    kind: str
    lossless: Literal[False]
    tokens: TokensAndIds
    unknown: int
    prefix: str
    max_characters: int


# What a blank and a token become together, in Hugging Face's decoder.
_TIGHT = {" .": ".", " ?": "?", " !": "!", " ,": ",", " n't": "n't", " 'm": "'m", " 's": "'s", " 've": "'ve"}
_TIGHT |= {" 're": "'re"}


class SpacedTokens(TableDecoder):
    """The decoder of WordPiece, as Hugging Face's: blanks between words, but not before a full stop and its like."""

    def __init__(self, model: WordpieceModel, special: Mapping[int, bytes]) -> None:
        prefix = model.prefix
        named = dict(zip(model.ids.tolist(), model.names, strict=True))
        named |= {id: text.decode() for id, text in special.items()}
        further = [name[len(prefix) :] if name.startswith(prefix) else _tighten(f" {name}") for name in named.values()]
        # The first word of a text has no blank before it; these tokens are otherwise there, too.
        self._first = {
            id: name.encode() for (id, name), other in zip(named.items(), further, strict=True) if other != f" {name}"
        }
        flags = np.array([TokenTable.MARKED * (id not in self._first) for id in named], np.uint8)
        super().__init__([one.encode() for one in further], np.array([*named], np.int32), {}, flags)

    def spell(self, id: int) -> bytes:
        return self.spell_all([id], True)[0]

    def spell_all(self, ids: GivenIds, is_start: bool) -> list[bytes]:
        found = super().spell_all(ids, is_start)
        if is_start and (first := self._find_first(ids)) is not None:
            found = [first, *super().spell_all(ids, False)[1:]]
        return found

    def decode(self, ids: GivenIds, is_whole: bool = True, errors: str | None = None) -> Any:
        if not is_whole or (first := self._find_first(ids)) is None:
            return super().decode(ids, is_whole, errors)
        if (text := super().decode(ids, False)) is None:
            return None
        text = first + text[len(super().spell_all(ids[:1], False)[0]) :]
        return text if errors is None else text.decode(errors=errors)

    def list_lists(self, rows: list[Any], errors: str | None = None) -> list[Any] | None:
        return None  # one by one

    def list_rows(self, ids: Ids, offsets: Offsets, errors: str | None = None) -> list[Any]:
        rows = super().list_rows(ids, offsets, errors)
        for i, text in enumerate(rows):
            row = ids[offsets[i] : offsets[i + 1]]
            rows[i] = text if self._find_first(row) is None else self.decode(row, True, errors)
        return rows

    def decode_rows(self, ids: Ids, offsets: Offsets) -> Texts:
        return make_texts_from_strings(self.list_rows(ids, offsets))

    def _find_first(self, ids: GivenIds) -> bytes | None:
        """The bytes of the first id, where a text does not begin with those that it has elsewhere."""
        return self._first.get(int(ids[0])) if len(ids) and isinstance(ids[0], int | np.integer) else None


def _tighten(text: str) -> str:
    for spaced, tight in _TIGHT.items():
        text = text.replace(spaced, tight)
    return text


def find_wordpiece(model: Model) -> WordpieceModel | None:
    """The model itself, if it is a WordPiece."""
    return model if isinstance(model, WordpieceModel) else None


def require_wordpiece(model: Model, files: str) -> WordpieceModel:
    """The model itself. Raises FormatError if it is another kind, which these files cannot hold."""
    if not isinstance(model, WordpieceModel):
        raise FormatError(f"{files} hold WordPiece, and this tokenizer is {describe_kind(model.kind)}")
    return model
