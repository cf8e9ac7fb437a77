"""Code points as they are: the id of a character is its code point. Nothing is learned.

A byte outside of well-formed UTF-8 has the id 0xDC00 + its value, which is no character's. The layout "canine" is that
of CANINE's tokenizer: the same ids, of which 0 and 0xE000 to 0xE004 are special tokens.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from tokcore.count.pretoken_rows import Counts
from tokcore.errors import FormatError, IdentityError
from tokcore.files.jsonable import Place, from_jsonable
from tokcore.models.bpe import BpeModel
from tokcore.models.defaults import FixedVocabulary, SplittingEncoder
from tokcore.models.model import (
    Decoder,
    Encode,
    Encoder,
    Ids,
    LearnOptions,
    ModelType,
    OwnToken,
    Unreachable,
)
from tokcore.models.token_decoders import GivenIds, RowDecoder
from tokcore.text.code_points import NUM_CODE_POINTS, find_code_points, spell_code_point
from tokcore.text.texts import Offsets, Texts

CANINE = "canine"
# CANINE's names for them are [PAD], [CLS], [SEP], [BOS], [MASK] and [RESERVED].
_CANINE_TOKENS = {
    "\0": OwnToken("padding", 0),
    "\ue000": OwnToken("document_begin", 0xE000),
    "\ue001": OwnToken("document_end", 0xE001),
    "\ue002": OwnToken("plain", 0xE002),
    "\ue003": OwnToken("plain", 0xE003),
    "\ue004": OwnToken("plain", 0xE004),
}


@dataclasses.dataclass(frozen=True, eq=False)
class CodepointModel(FixedVocabulary):
    """A token for each code point, and for each byte that belongs to none."""

    kind: ClassVar[str] = "codepoint"

    layout: str = ""

    @functools.cached_property
    def tokens(self) -> tuple[bytes, ...]:
        return tuple(map(spell_code_point, self.ids.tolist()))

    @functools.cached_property
    def ids(self) -> Ids:
        every = np.arange(NUM_CODE_POINTS, dtype=np.int32)
        is_used = (every < 0xD800) | (every >= 0xE000) | ((every >= 0xDC80) & (every < 0xDD00))
        is_used[[token.id for token in LAYOUTS[self.layout].values()]] = False
        return every[is_used]

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(chr(id) if not 0xDC80 <= id < 0xDD00 else f"<0x{id - 0xDC00:02X}>" for id in self.ids.tolist())

    @property
    def summary(self) -> str:
        return "all code points"

    def encoder(self, pattern: str | None, cache_bytes: int) -> Encoder:
        return CodepointEncoder(pattern)

    def decoder(self, special: Mapping[int, bytes]) -> Decoder:
        return JoinedCharacters(special)

    def unreachable(self, encode: Encode) -> list[Unreachable]:
        return []  # each is encoded by itself

    def as_bpe(self) -> BpeModel:
        raise FormatError("the ids are code points, and no merges of bytes give these")

    @classmethod
    def from_json(cls, value: Any, place: Place) -> CodepointModel:
        """The model whose functional() is value."""
        return cls(from_jsonable(_CodepointJson, value, place).layout)


@dataclasses.dataclass(frozen=True, slots=True)
class _CodepointJson:
    kind: str
    layout: Literal["", "canine"] = ""


LAYOUTS: Mapping[str, Mapping[str, OwnToken]] = {"": {}, CANINE: _CANINE_TOKENS}


class CodepointEncoder(SplittingEncoder):
    """See tokcore.models.model.Encoder. ids: of each code point; None: itself."""

    def __init__(self, pattern: str | None, ids: Ids | None = None) -> None:
        super().__init__(pattern)
        self._ids = ids

    def encode_pieces(
        self, texts: Texts, ends: Offsets, firsts: Offsets, threads: int = 1
    ) -> tuple[Ids, Offsets, Offsets]:
        points, offsets = find_code_points(texts)
        ids = points.astype(np.int32) if self._ids is None else self._ids[points]
        return ids, offsets, np.diff(firsts)


class JoinedCharacters(RowDecoder):
    """The decoder of code points: the bytes of each, one after the other. Special tokens give their texts."""

    def __init__(self, special: Mapping[int, bytes]) -> None:
        self._special = special

    def spell(self, id: int) -> bytes:
        return self.spell_all([id], True)[0]

    def spell_all(self, ids: GivenIds, is_start: bool) -> list[bytes]:
        ids = ids if isinstance(ids, list) else ids.tolist()
        try:
            return [self._special[id] if id in self._special else spell_code_point(id) for id in ids]
        except (ValueError, OverflowError) as error:
            wrong = next(i for i, id in enumerate(ids) if id not in self._special and not _is_spelled(id))
            raise IdentityError(
                f"ids[{wrong}] = {ids[wrong]} is no token of this tokenizer (ids are code points): were the ids made "
                f"by another one?"
            ) from error

    def decode(self, ids: GivenIds, is_whole: bool = True, errors: str | None = None) -> Any:
        if isinstance(ids, list) and not set(map(type, ids)) <= {int}:
            return None
        text = b"".join(self.spell_all(ids, True))
        return text if errors is None else text.decode(errors=errors)


def _is_spelled(id: int) -> bool:
    try:
        spell_code_point(id)
    except (ValueError, OverflowError):
        return False
    return True


class Codepoint(ModelType):
    """The model type of code points as they are."""

    text = "a token for each code point, id = its number"
    uses = ("layout",)
    default_size = "all code points and the special tokens"
    layouts = LAYOUTS
    models = (CodepointModel,)

    def default_vocab_size(self, num_special: int) -> int:
        return NUM_CODE_POINTS + num_special

    def wrong_option(self, options: LearnOptions) -> tuple[str, str] | None:
        return None

    def learn(self, rows: Callable[[], tuple[Texts, Counts]], options: LearnOptions) -> CodepointModel:
        return CodepointModel(options.layout)
