"""Bytes as they are: the id of a token is the value of its byte. Nothing is learned; the baseline for all that is.

The layout "byt5" is that of ByT5's tokenizer: three special tokens, then the bytes, then 125 special tokens.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from tokcore.count.pretoken_rows import Counts
from tokcore.files.jsonable import Place, from_jsonable
from tokcore.models.bpe import BpeModel, MergesModel
from tokcore.models.defaults import FixedVocabulary, SplittingEncoder
from tokcore.models.model import (
    Decoder,
    Encode,
    Encoder,
    Ids,
    JoinedTokens,
    LearnOptions,
    MergesOfBytes,
    Model,
    ModelType,
    OwnToken,
    Unreachable,
    find_unlike_themselves,
)
from tokcore.text.byte_alphabet import to_printable_tokens
from tokcore.text.texts import Offsets, Texts

BYT5 = "byt5"
_BYT5_OFFSET = 3
_BYT5_TOKENS = {
    "<pad>": OwnToken("padding", 0),
    "</s>": OwnToken("document_end", 1),
    "<unk>": OwnToken("unknown", 2),
} | {f"<extra_id_{i}>": OwnToken("plain", _BYT5_OFFSET + 256 + i) for i in range(125)}

LAYOUTS: Mapping[str, Mapping[str, OwnToken]] = {"": {}, BYT5: _BYT5_TOKENS}


@dataclasses.dataclass(frozen=True, eq=False)
class ByteModel(FixedVocabulary):
    """256 tokens, one for each byte."""

    kind: ClassVar[str] = "byte"

    layout: str = ""

    @property
    def offset(self) -> int:
        """The id of the byte 0."""
        return _BYT5_OFFSET if self.layout else 0

    @functools.cached_property
    def tokens(self) -> tuple[bytes, ...]:
        return tuple(bytes([byte]) for byte in range(256))

    @functools.cached_property
    def ids(self) -> Ids:
        return np.arange(self.offset, self.offset + 256, dtype=np.int32)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(to_printable_tokens(self.tokens))

    @property
    def summary(self) -> str:
        return "256 bytes"

    def encoder(self, pattern: str | None, cache_bytes: int) -> Encoder:
        return ByteEncoder(pattern, self.offset)

    def decoder(self, special: Mapping[int, bytes]) -> Decoder:
        return JoinedTokens(self.tokens, self.ids, special)

    def unreachable(self, encode: Encode) -> list[Unreachable]:
        return find_unlike_themselves(self, encode)

    def as_bpe(self) -> BpeModel:
        return MergesModel(self.tokens, self.ids, np.zeros((0, 2), np.int32), ignore_merges=False)

    @classmethod
    def from_json(cls, value: Any, place: Place) -> ByteModel:
        """The model whose functional() is value."""
        return cls(from_jsonable(_ByteJson, value, place).layout)


@dataclasses.dataclass(frozen=True, slots=True)
class _ByteJson:
    kind: str
    layout: Literal["", "byt5"] = ""


class ByteEncoder(SplittingEncoder):
    """See tokcore.models.model.Encoder. Copying bytes is bound by memory: further threads would not make it faster."""

    def __init__(self, pattern: str | None, offset: int) -> None:
        super().__init__(pattern)
        self._offset = np.int32(offset)

    def encode_pieces(
        self, texts: Texts, ends: Offsets, firsts: Offsets, threads: int = 1
    ) -> tuple[Ids, Offsets, Offsets]:
        start, end = texts.offsets[0], texts.offsets[-1]
        return texts.data[start:end] + self._offset, texts.offsets - start, np.diff(firsts)


class Byte(ModelType):
    """The model type of bytes as they are."""

    text = "a token for each byte, id = its value"
    uses = ("vocab_size", "layout")
    default_size = "256 and the special tokens"
    layouts = LAYOUTS
    models = (ByteModel,)

    def default_vocab_size(self, num_special: int) -> int:
        return 256 + num_special

    def wrong_option(self, options: LearnOptions) -> tuple[str, str] | None:
        exact = self.default_vocab_size(options.num_special)
        if options.vocab_size == exact:
            return None
        return "vocab_size", (
            f"= {options.vocab_size}: a vocabulary of bytes has exactly {exact} tokens (256 for bytes, "
            f"{options.num_special} for special tokens). Set it to {exact}, or remove it."
        )

    def own_form(self, model: MergesOfBytes) -> ByteModel | None:
        forms = (ByteModel(layout) for layout in LAYOUTS)
        return next((o for o in forms if model.tokens == o.tokens and np.array_equal(model.ids, o.ids)), None)

    def learn(self, rows: Callable[[], tuple[Texts, Counts]], options: LearnOptions) -> ByteModel:
        return ByteModel(options.layout)


def find_layout(model: Model) -> str | None:
    """The layout of a model of bytes; None for any other model."""
    return model.layout if isinstance(model, ByteModel) else None
