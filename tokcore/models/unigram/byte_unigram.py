"""Unigram in byte form: the byte strings of a pre-token whose scores have the highest sum. Every byte is a token.

So any split pattern will do, no text is unknown, and texts come back as they were. Sums are float64, from 0 for each
pre-token, as in Hugging Face's tokenizers after ByteLevel.
Leaves to others: learning (learned_pieces), tokenizer.json (tokcore.formats.tokenizers.byte_unigram_json).
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.errors import FormatError
from tokcore.files.jsonable import Place, from_jsonable
from tokcore.models.bpe import BpeModel, TokensAndIds, write_tokens
from tokcore.models.byte_tokens import ByteTokens
from tokcore.models.model import (
    Encode,
    Encoder,
    Model,
    Rules,
    Unreachable,
    find_unlike_themselves,
)
from tokcore.models.sentencepiece.scored_pieces import Base64, write_base64
from tokcore.text.texts import make_texts_from_strings


@dataclasses.dataclass(frozen=True, eq=False)
class ByteUnigramModel(ByteTokens):
    """tokens, ids, scores: in the order of ids. Raises FormatError if a byte is no token, or a score is not finite."""

    kind: ClassVar[str] = "unigram-bytes"

    scores: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        missing = set(range(256)).difference(token[0] for token in self.tokens if len(token) == 1)
        if missing:
            raise FormatError(f"the byte 0x{min(missing):02X} is no token: a Unigram in byte form needs all 256")
        if bad := np.flatnonzero(~(np.abs(self.scores) <= 1e290)).tolist():
            raise FormatError(f"the score of the token {self.names[bad[0]]!r} is not a finite number, up to 1e290")

    @property
    def summary(self) -> str:
        return f"256 bytes, {len(self.tokens) - 256} pieces"

    def check(self) -> None:
        """Everything was checked when it was made."""

    def encoder(self, pattern: str | None, cache_bytes: int) -> Encoder:
        texts = make_texts_from_strings(self.tokens)
        return kernel.ByteUnigramEncoder(pattern, texts, self.ids, self.scores, cache_bytes)

    def facts(self) -> dict[str, Any]:
        return {}

    def rules(self) -> Rules:
        return Rules("piece", [(token,) for token in self.tokens])

    def unreachable(self, encode: Encode) -> list[Unreachable]:
        return find_unlike_themselves(self, encode)

    def as_bpe(self) -> BpeModel:
        raise FormatError("a Unigram takes the pieces of the highest sum of scores: no merges give the same ids")

    def functional(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "tokens": write_tokens(self.tokens, self.ids),
            "scores": write_base64(self.scores.astype("<f8").tobytes()),
        }

    def informative(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_json(cls, value: Any, place: Place) -> ByteUnigramModel:
        """The model whose functional() is value."""
        read = from_jsonable(_ByteUnigramJson, value, place)
        tokens, ids = read.tokens
        if len(read.scores) != 8 * len(tokens):
            raise place.field("scores").error(f"one for each of {len(tokens)} tokens", len(read.scores) / 8)
        try:
            return cls(tokens, ids, np.frombuffer(read.scores, "<f8").astype(np.float64))
        except FormatError as error:
            raise FormatError(f"{place}: {error}") from error


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class _ByteUnigramJson:
    kind: str
    tokens: TokensAndIds
    scores: Base64


def find_byte_unigram(model: Model) -> ByteUnigramModel | None:
    """The model itself, if it is a Unigram in byte form."""
    return model if isinstance(model, ByteUnigramModel) else None
