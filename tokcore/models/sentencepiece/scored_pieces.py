"""SentencePiece's models: pieces with scores, over text in which spaces are U+2581.

`sentencepiece-bpe` merges the pair whose text is the piece of the highest score; `unigram` takes the pieces whose
scores have the highest sum. Both normalize text themselves, by a table that is part of the model, and several texts
share their ids (a space and U+2581 at least), so decoding does not give back every text.
Leaves to others: the file (tokcore.formats.tokenizers.sentencepiece) and decoding (sentencepiece_text).
"""

from __future__ import annotations

import binascii
import dataclasses
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.errors import FormatError
from tokcore.files.jsonable import Place, Read, from_jsonable
from tokcore.models.model import Encode, Ids, Model, Unreachable, describe_kind, find_unlike_themselves
from tokcore.models.sentencepiece.piece_text import (
    BYTE,
    BYTE_NAMES,
    NORMAL,
    UNUSED,
    USER_DEFINED,
    SpaceMarkedPieces,
    Types,
)
from tokcore.text.text_steps import PieceRules
from tokcore.text.texts import make_texts_from_strings

_MATCHING = (NORMAL, USER_DEFINED, UNUSED)
_NULL = b"\0"

Scores = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True, eq=False)
class PieceModel(SpaceMarkedPieces):
    """What both kinds have in common.

    tokens, ids, scores, types: of the ordinary pieces, in the order of ids; of a byte piece, the token is its name.
    unknown: id of the special token for text that is no piece; None if bytes spell all of it. control: ids of the
    special tokens that decoding leaves out. text_rules: what is done to texts first. unknown_surface: what the unknown
    token is decoded to. trainer_spec: as the file had it, for export; it decides nothing.
    Raises FormatError for pieces or scores that SentencePiece refuses, too.
    """

    kind: ClassVar[str]
    is_unigram: ClassVar[bool]

    tokens: tuple[bytes, ...]
    ids: Ids
    scores: Scores
    types: Types
    unknown: int | None
    control: tuple[int, ...]
    text_rules: PieceRules
    unknown_surface: str = " \u2047 "
    trainer_spec: bytes = b""

    def __post_init__(self) -> None:
        if bad := np.flatnonzero(~np.isfinite(self.scores)).tolist():
            raise FormatError(f"the score of the piece {self.names[bad[0]]!r} is not a finite number")
        if bad := np.flatnonzero(~np.isin(self.types, [*_MATCHING, BYTE])).tolist():
            raise FormatError(
                f"the piece {self.names[bad[0]]!r} is of the type {self.types[bad[0]]}: expected 1, 4 to 6"
            )
        if NORMAL not in self.types:
            raise FormatError("no piece is of the type NORMAL")
        bytes_found = {token for token, kind in zip(self.tokens, self.types.tolist(), strict=True) if kind == BYTE}
        if bytes_found and bytes_found != set(BYTE_NAMES):
            odd = sorted(bytes_found ^ set(BYTE_NAMES))[0]
            raise FormatError(f"of the 256 byte pieces <0x00> to <0xFF>, {odd!r} is missing, or is none of them")
        if self.unknown is None and not bytes_found:
            raise FormatError("there is no unknown piece, and no byte pieces that would spell unknown text")
        for token, kind in zip(self.tokens, self.types.tolist(), strict=True):
            if b"\0" in token and (token, kind) != (_NULL, UNUSED):
                raise FormatError(f"the piece {token!r} has a zero byte")

    @property
    def byte_ids(self) -> Ids:
        """The ids of the 256 bytes, or none."""
        named = {token: id for token, id in zip(self.tokens, self.ids.tolist(), strict=True) if token in _BYTE_SET}
        is_byte = self.types == BYTE
        return np.array([named[name] for name in BYTE_NAMES] if is_byte.any() else [], np.int32)

    def check(self) -> None:
        super().check()
        if wrong := sorted(set(self.ids.tolist()).intersection(self.control)):
            raise FormatError(f"id {wrong[0]} is an ordinary piece's, and is listed as a control piece's")

    def piece_encoder(self, cache_bytes: int) -> kernel.SentencepieceEncoder:
        matches = np.isin(self.types, _MATCHING) & np.array([token != _NULL for token in self.tokens])
        where = np.flatnonzero(matches)
        try:
            return kernel.SentencepieceEncoder(
                self.is_unigram,
                make_texts_from_strings([self.tokens[i] for i in where.tolist()]),
                self.ids[where],
                self.scores[where],
                self.types[where],
                -1 if self.unknown is None else self.unknown,
                self.byte_ids,
                self.text_rules,
                cache_bytes,
            )
        except ValueError as error:
            raise FormatError(f"normalizer_spec.precompiled_charsmap: {error}") from error

    def unreachable(self, encode: Encode) -> list[Unreachable]:
        by_design = np.isin(self.types, [UNUSED, BYTE])
        no_text = set(self.ids[by_design].tolist())
        return [one for one in find_unlike_themselves(self, encode) if one.id not in no_text]

    def functional(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "lossless": False,
            "pieces": list(self.names),
            "ids": self.ids.tolist(),
            "scores": write_base64(self.scores.astype("<f4").tobytes()),
            "types": write_base64(self.types.tobytes()),
            "unknown": self.unknown,
            "control": list(self.control),
            "unknown_surface": self.unknown_surface,
            "text_rules": self.text_rules._asdict() | {"charsmap": write_base64(self.text_rules.charsmap)},
        }

    def informative(self) -> dict[str, Any]:
        return {"trainer_spec": write_base64(self.trainer_spec)} if self.trainer_spec else {}

    @classmethod
    def from_json(cls, value: Any, place: Place) -> PieceModel:
        """The model whose functional() and informative() are value."""
        read = from_jsonable(_PieceModelJson, value, place)
        pieces = read.pieces
        for name, found in (("ids", len(read.ids)), ("scores", len(read.scores) / 4), ("types", len(read.types))):
            if found != len(pieces):
                raise place.field(name).error(f"one for each of {len(pieces)} pieces", found)
        try:
            return cls(
                tuple(piece.encode() for piece in pieces),
                read.ids,
                np.frombuffer(read.scores, "<f4").astype(np.float32),
                np.frombuffer(read.types, np.uint8),
                read.unknown,
                read.control,
                PieceRules(**dataclasses.asdict(read.text_rules)),
                read.unknown_surface,
                read.trainer_spec,
            )
        except FormatError as error:
            raise FormatError(f"{place}: {error}") from error


_BYTE_SET = frozenset(BYTE_NAMES)


@dataclasses.dataclass(frozen=True, eq=False)
class SentencepieceBpeModel(PieceModel):
    """Merges of characters, the highest score first."""

    kind: ClassVar[str] = "sentencepiece-bpe"
    is_unigram: ClassVar[bool] = False


@dataclasses.dataclass(frozen=True, eq=False)
class UnigramModel(PieceModel):
    """The pieces whose scores, as float32 and from the start of a text on, have the highest sum."""

    kind: ClassVar[str] = "unigram"
    is_unigram: ClassVar[bool] = True
    bytes_are_pieces: ClassVar[bool] = False
    splits_every_space: ClassVar[bool] = False


def is_piece_model(model: Model) -> bool:
    """Whether a model is one of SentencePiece's."""
    return isinstance(model, PieceModel)


def require_pieces(model: Model, files: str) -> PieceModel:
    """The model itself. Raises FormatError if it is another kind, which these files cannot hold."""
    if not isinstance(model, PieceModel):
        raise FormatError(f"{files} holds SentencePiece's models, and this tokenizer is {describe_kind(model.kind)}")
    return model


# ---------------------------------------------------------------------------------------------- tokcore.json, read back


def write_base64(data: bytes) -> str:
    """The JSON form that Base64 reads."""
    return binascii.b2a_base64(data, newline=False).decode()


def read_base64(value: Any, place: Place) -> bytes:
    """The bytes of a JSON string of base64; empty of an empty one. Raises FormatError."""
    if type(value) is not str:
        raise place.error("base64", value)
    try:
        return binascii.a2b_base64(value, strict_mode=True) if value else b""
    except ValueError:
        raise place.error("base64", value) from None


def _read_ids(value: Any, place: Place) -> Ids:
    if type(value) is not list or set(map(type, value)) - {int}:
        raise place.error("a list of ids", value)
    if value and not (min(value) >= 0 and max(value) < 2**31):
        raise place.error(f"ids below {2**31}", min(value) if min(value) < 0 else max(value))
    return np.array(value, np.int32)


def _read_names(value: Any, place: Place) -> list[str]:
    if type(value) is not list or set(map(type, value)) - {str}:
        raise place.error("a list of str", value)
    return value


Base64 = Annotated[bytes, Read(read_base64)]
IdList = Annotated[Ids, Read(_read_ids)]
Names = Annotated[list[str], Read(_read_names)]


@dataclasses.dataclass(frozen=True, slots=True)
class _RulesJson:
    charsmap: Base64
    add_dummy_prefix: bool
    remove_extra_whitespaces: bool
    escape_whitespaces: bool
    whitespace_is_suffix: bool


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class _PieceModelJson:
    kind: str
    lossless: Literal[False]
    pieces: Names
    ids: IdList
    scores: Base64
    types: Base64
    unknown: int | None
    control: tuple[int, ...]
    unknown_surface: str
    text_rules: _RulesJson
    trainer_spec: Base64 = b""
