"""What models over bytes share: every byte is a token, so no text is unknown, and texts come back as they were."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from tokcore.models.model import Decoder, Ids, JoinedTokens
from tokcore.text.byte_alphabet import to_printable_tokens


@dataclasses.dataclass(frozen=True, eq=False)
class ByteTokens:
    """tokens, ids: the ordinary tokens, in the order of ids."""

    lossless: ClassVar[bool] = True

    tokens: tuple[bytes, ...]
    ids: Ids

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(to_printable_tokens(self.tokens))

    @property
    def sizes(self) -> Ids:
        return np.array([*map(len, self.tokens)], np.int32)

    @property
    def unknown(self) -> None:
        return None

    def decoder(self, special: Mapping[int, bytes]) -> Decoder:
        return JoinedTokens(self.tokens, self.ids, special)
