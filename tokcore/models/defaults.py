"""What most models and encoders answer: they derive from these classes and state what differs.

tokcore.models.model says what each name means.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from tokcore import kernel
from tokcore.errors import FormatError
from tokcore.models.model import Encoder, Ids, Rules
from tokcore.text.texts import Offsets, Texts


class FixedVocabulary(ABC):
    """A model whose tokens and ids follow from its kind and layout: there is nothing in them to check or compare."""

    kind: ClassVar[str]
    lossless: ClassVar[bool] = True

    layout: str

    @property
    @abstractmethod
    def tokens(self) -> tuple[bytes, ...]:
        """See Model."""

    @property
    def sizes(self) -> Ids:
        return np.array([*map(len, self.tokens)], np.int32)

    @property
    def unknown(self) -> None:
        return None

    def check(self) -> None:  # noqa: B027 - nothing can be wrong
        """See Model."""

    def facts(self) -> dict[str, Any]:
        return {}

    def rules(self) -> Rules:
        return Rules("", [])

    def functional(self) -> dict[str, Any]:
        return {"kind": self.kind} | ({"layout": self.layout} if self.layout else {})

    def informative(self) -> dict[str, Any]:
        return {}


class SplittingEncoder(Encoder):
    """An encoder that splits texts by a pattern and then encodes the pieces; without a pattern it only does the second.

    Raises ValueError from encode() if there is no pattern.
    """

    def __init__(self, pattern: str | None) -> None:
        self._pattern = pattern

    def encode(self, texts: Texts, threads: int = 1) -> tuple[Ids, Offsets, Offsets]:
        if self._pattern is None:
            raise ValueError("this encoder has no pattern: split the texts and use encode_pieces")
        return self.encode_pieces(texts, *kernel.split(self._pattern, texts), threads)


class ListedVocabulary:
    """A model with a list of tokens, each of them text, and an unknown token for other text: so it is not lossless."""

    kind: ClassVar[str]
    lossless: ClassVar[bool] = False
    noun: ClassVar[str] = "token"  # what messages call a token

    tokens: tuple[bytes, ...]
    ids: Ids
    unknown: int | None

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        try:
            return tuple(token.decode() for token in self.tokens)
        except UnicodeDecodeError as error:
            raise FormatError(f"the {self.noun} {error.object!r} is not UTF-8") from error

    def check(self) -> None:
        if self.unknown in set(self.ids.tolist()):
            raise FormatError(
                f"id {self.unknown} is an ordinary {self.noun}'s, and the unknown {self.noun} must be a special token"
            )

    def facts(self) -> dict[str, Any]:
        return {"lossless": False}

    def rules(self) -> Rules:
        return Rules(self.noun, [(token,) for token in self.tokens])

    def informative(self) -> dict[str, Any]:
        return {}
