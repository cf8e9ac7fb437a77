"""Pieces in which spaces are U+2581: what models of them have in common, and decoding as SentencePiece does it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tokcore.errors import FormatError, IdentityError
from tokcore.kernel import NormalizingEncoder
from tokcore.models.bpe import BpeModel
from tokcore.models.defaults import ListedVocabulary
from tokcore.models.model import Decoder, Encoder, Ids
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


class SpaceMarkedTokens:
    """The decoder of SentencePiece's models.

    A space that the model has put before a text is left out again, as are control pieces; unknown text is the model's
    mark. Bytes come back as they are, where SentencePiece puts U+FFFD for those that are not UTF-8.
    """

    def __init__(self, model: SpaceMarkedPieces, special: Mapping[int, bytes]) -> None:
        self._alone: dict[int, bytes] = {}
        self._bytes: set[int] = set()
        for piece, id, kind in zip(model.tokens, model.ids.tolist(), model.types.tolist(), strict=True):
            if kind == BYTE:
                self._alone[id] = bytes([int(piece[3:5], 16)])
                self._bytes.add(id)
            else:
                self._alone[id] = piece.replace(_SPACE, b" ")
        self._special = dict(special)
        self._in_text = self._alone | self._special | dict.fromkeys(model.control, b"")
        if model.unknown is not None:
            self._in_text[model.unknown] = model.unknown_surface.encode()
        self._control = frozenset(model.control)
        self._marked = {id for piece, id in zip(model.tokens, model.ids.tolist(), strict=True) if piece[:3] == _SPACE}
        rules = model.text_rules
        self._drops_space = rules.add_dummy_prefix or rules.remove_extra_whitespaces
        self._drops_all = rules.remove_extra_whitespaces

    def spell(self, id: int) -> bytes:
        found = self._alone.get(id, self._special.get(id))
        if found is None:
            raise self._make_error([id], id)
        return found

    def spell_all(self, ids: list[int], is_start: bool) -> list[bytes]:
        try:
            found = [*map(self._in_text.__getitem__, ids)]
        except KeyError as error:
            raise self._make_error(ids, error.args[0]) from error
        if not is_start or not self._drops_space:
            return found
        for i, id in enumerate(ids):
            if id in self._control:
                continue
            if id in self._marked:
                found[i] = found[i][1:]
                if not self._drops_all:
                    break
            if found[i]:
                break
        return found

    def decode(self, ids: list[int]) -> bytes:
        return b"".join(self.spell_all(ids, True))

    def _make_error(self, ids: list[int], wrong: int) -> IdentityError:
        return IdentityError(
            f"ids[{ids.index(wrong)}] = {wrong} is no token of this tokenizer (ids are below "
            f"{max(self._in_text, default=-1) + 1}): were the ids made by another one?"
        )
