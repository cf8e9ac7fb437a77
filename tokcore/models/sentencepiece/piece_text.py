"""Pieces in which spaces are U+2581: what models of them have in common, and decoding as SentencePiece does it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tokcore.errors import FormatError
from tokcore.kernel import NormalizingEncoder, TokenTable
from tokcore.models.bpe import BpeModel
from tokcore.models.defaults import ListedVocabulary
from tokcore.models.model import Decoder, Encoder, Ids
from tokcore.models.token_decoders import TableDecoder
from tokcore.text.text_steps import PieceRules

SPACE = "\u2581"
_SPACE = SPACE.encode()
NORMAL, USER_DEFINED, UNUSED, BYTE = 1, 4, 5, 6  # SentencePiece's numbers for the types of ordinary pieces
BYTE_NAMES = tuple(f"<0x{byte:02X}>".encode() for byte in range(256))

Types = npt.NDArray[np.uint8]


class SpaceMarkedPieces(ListedVocabulary, ABC):
    """A model of such pieces.

    types: SentencePiece's number for the type of each piece. control: ids of the special tokens that decoding leaves
    out. unknown_surface: what the unknown token is decoded to. text_rules: what was done to spaces, for decoding.
    """

    noun: ClassVar[str] = "piece"

    types: Types
    control: tuple[int, ...]
    unknown_surface: str
    text_rules: PieceRules

    @property
    def summary(self) -> str:
        return f"{len(self.tokens)} pieces"

    @property
    def sizes(self) -> Ids:
        return measure_pieces(self.tokens, self.types == BYTE)

    def encoder(self, pattern: str | None, cache_bytes: int) -> Encoder:
        return self.piece_encoder(cache_bytes)

    @abstractmethod
    def piece_encoder(self, cache_bytes: int) -> NormalizingEncoder:
        """The encoder, which can also normalize. Raises FormatError for a charsmap that is damaged."""

    def decoder(self, special: Mapping[int, bytes]) -> Decoder:
        return SpaceMarkedTokens(self, special)

    def as_bpe(self) -> BpeModel:
        raise FormatError(f"{self.kind} works on characters, with spaces as {SPACE}: byte-level merges differ from it")


def measure_pieces(pieces: Sequence[bytes], are_bytes: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    """How many bytes of text each piece stands for; those that stand for a byte are marked.

    >>> measure_pieces(["▁low".encode(), b"<0x0A>"], np.array([False, True])).tolist()
    [4, 1]
    """
    sizes = np.array([len(piece) - 2 * piece.count(_SPACE) for piece in pieces], np.int32)
    sizes[are_bytes] = 1
    return sizes


class SpaceMarkedTokens(TableDecoder):
    """The decoder of SentencePiece's models.

    A space that the model has put before a text is left out again, as are control pieces; unknown text is the model's
    mark. Bytes come back as they are, where SentencePiece puts U+FFFD for those that are not UTF-8.
    """

    def __init__(self, model: SpaceMarkedPieces, special: Mapping[int, bytes]) -> None:
        are_bytes = model.types == BYTE
        tokens = [
            bytes([int(piece[3:5], 16)]) if is_byte else piece.replace(_SPACE, b" ")
            for piece, is_byte in zip(model.tokens, are_bytes.tolist(), strict=True)
        ]
        rules = model.text_rules
        flags = np.zeros(len(tokens) + len(model.control), np.uint8)
        if rules.add_dummy_prefix or rules.remove_extra_whitespaces:
            flags[: len(tokens)] = [TokenTable.MARKED * (piece[:3] == _SPACE) for piece in model.tokens]
        flags[len(tokens) :] = TokenTable.SILENT
        self._special = dict(special)
        others = {id: text for id, text in special.items() if id not in model.control}
        if model.unknown is not None:
            others[model.unknown] = model.unknown_surface.encode()
        ids = np.concatenate([model.ids, np.array(model.control, np.int32)])
        silent = [b""] * len(model.control)
        super().__init__([*tokens, *silent], ids, others, flags, rules.remove_extra_whitespaces)

    def spell(self, id: int) -> bytes:
        return self._special[id] if id in self._special else super().spell(id)
