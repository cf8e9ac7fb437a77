"""SentencePiece's .model files: a ModelProto of pieces, and the specs of trainer and normalizer.

The id of a piece is its place. Control pieces become special tokens; those that the trainer's spec names as the end and
begin of texts and as padding get these roles.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from tokcore.errors import FormatError
from tokcore.formats.protobuf import Field, read_message, write_field
from tokcore.models.model import MAX_VOCABULARY_BYTES
from tokcore.models.sentencepiece.piece_text import BYTE, NORMAL, UNUSED
from tokcore.models.sentencepiece.scored_pieces import PieceModel, SentencepieceBpeModel, UnigramModel, require_pieces
from tokcore.text.sentencepiece_tables import check_charsmap
from tokcore.text.text_steps import PieceRules
from tokcore.tokenizer.tokenizer_spec import PLAIN, UNKNOWN, SpecialToken, TokenizerSpec

FILE_NAME = "tokenizer.model"
PATTERN = {"name": "metaspace"}
MAX_PIECE_BYTES = 8000  # SentencePiece refuses longer ones, too

_UNKNOWN_TYPE, _CONTROL_TYPE = 2, 3
_TYPES = {1: "NORMAL", 2: "UNKNOWN", 3: "CONTROL", 4: "USER_DEFINED", 5: "UNUSED", 6: "BYTE"}
_MODEL_TYPES = {1: UnigramModel, 2: SentencepieceBpeModel}
_OTHER_MODEL_TYPES = {3: "WORD", 4: "CHAR"}

_MODEL = {
    1: Field("pieces", "bytes", repeated=True),
    2: Field("trainer_spec", "bytes"),
    3: Field("normalizer_spec", "bytes"),
    5: Field("denormalizer_spec", "bytes"),
}
_PIECE = {1: Field("piece", "bytes"), 2: Field("score", "float"), 3: Field("type", "int")}
_TRAINER = {
    3: Field("model_type", "int"),
    24: Field("treat_whitespace_as_suffix", "bool"),
    35: Field("byte_fallback", "bool"),
    44: Field("unk_surface", "str"),
    46: Field("bos_piece", "str"),
    47: Field("eos_piece", "str"),
    48: Field("pad_piece", "str"),
}
_NORMALIZER = {
    1: Field("name", "str"),
    2: Field("precompiled_charsmap", "bytes"),
    3: Field("add_dummy_prefix", "bool"),
    4: Field("remove_extra_whitespaces", "bool"),
    5: Field("escape_whitespaces", "bool"),
    6: Field("normalization_rule_tsv", "skip"),
}


def is_sentencepiece_model(data: bytes) -> bool:
    """Whether a file begins as a .model does: with a message that begins with a string."""
    if data[:1] != b"\n":
        return False
    inner = 2 if data[1:2] < b"\x80" else 3
    return data[inner : inner + 1] == b"\n" and data[inner + 1 : inner + 2] != b"\n"


def read_sentencepiece_model(data: bytes, name: str) -> TokenizerSpec:
    """The tokenizer of a .model file; name is the file's, for errors.

    Raises FormatError, naming the field, for a damaged file and for what is not taken exactly as SentencePiece does.
    """
    model = read_message(memoryview(data), _MODEL, name)
    trainer = read_message(model.get("trainer_spec", memoryview(b"")), _TRAINER, f"{name}: trainer_spec")
    pieces = _read_pieces(model.get("pieces", []), bool(trainer.get("byte_fallback")), name)
    kind = trainer.get("model_type", 1)
    if kind not in _MODEL_TYPES:
        found = _OTHER_MODEL_TYPES.get(kind, kind)
        raise FormatError(f"{name}: trainer_spec.model_type is {found}: only UNIGRAM and BPE are supported")
    denormalizer = read_message(model.get("denormalizer_spec", b""), _NORMALIZER, f"{name}: denormalizer_spec")
    if denormalizer.get("precompiled_charsmap"):
        raise FormatError(f"{name}: denormalizer_spec.precompiled_charsmap is not supported: remove it")
    place = f"{name}: normalizer_spec"
    normalizer = read_message(model.get("normalizer_spec", memoryview(b"")), _NORMALIZER, place)
    charsmap = bytes(normalizer.get("precompiled_charsmap", b""))
    check_charsmap(charsmap, f"{place}.precompiled_charsmap")
    rules = PieceRules(
        charsmap,
        normalizer.get("add_dummy_prefix", True),
        normalizer.get("remove_extra_whitespaces", True),
        normalizer.get("escape_whitespaces", True),
        trainer.get("treat_whitespace_as_suffix", False),
    )
    special = _make_special_tokens(pieces, trainer)
    ordinary = [piece for piece in pieces if piece.type not in (_UNKNOWN_TYPE, _CONTROL_TYPE)]
    unknown = [piece.id for piece in pieces if piece.type == _UNKNOWN_TYPE]
    if len(unknown) > 1:
        raise FormatError(f"{name}: pieces[{unknown[1]}].type is UNKNOWN, as is that of pieces[{unknown[0]}]")
    try:
        read = _MODEL_TYPES[kind](
            tuple(piece.text for piece in ordinary),
            np.array([piece.id for piece in ordinary], np.int32),
            np.array([piece.score for piece in ordinary], np.float32),
            np.array([piece.type for piece in ordinary], np.uint8),
            unknown[0] if unknown else None,
            tuple(piece.id for piece in pieces if piece.type == _CONTROL_TYPE),
            rules,
            trainer.get("unk_surface", " \u2047 "),
            bytes(model.get("trainer_spec", b"")),
        )
        read.piece_encoder(0)  # checks the charsmap
        return TokenizerSpec((), PATTERN, read, special)
    except FormatError as error:
        raise FormatError(f"{name}: {error}") from error


@dataclasses.dataclass(frozen=True, slots=True)
class _Piece:
    id: int
    text: bytes
    score: float
    type: int


def _read_pieces(messages: Iterable[memoryview], has_bytes: bool, name: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    seen: dict[bytes, int] = {}
    total = 0
    for id, message in enumerate(messages):
        place = f"{name}: pieces[{id}]"
        values = read_message(message, _PIECE, place)
        text, kind = bytes(values.get("piece", b"")), values.get("type", NORMAL)
        total += len(text)
        if not text or len(text) >= MAX_PIECE_BYTES or total > MAX_VOCABULARY_BYTES:
            raise FormatError(f"{place}.piece has {len(text)} bytes: expected 1 to {MAX_PIECE_BYTES - 1}")
        if kind not in _TYPES:
            raise FormatError(f"{place}.type is {kind}: expected 1 to 6")
        if text in seen:
            raise FormatError(f"{place}.piece is {text.decode(errors='replace')!r}, as is that of pieces[{seen[text]}]")
        if kind == BYTE and not has_bytes:
            raise FormatError(f"{place}.type is BYTE, but trainer_spec.byte_fallback is false")
        if text == b"\0" and has_bytes:
            kind = UNUSED  # some converters leave it beside <0x00>
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"{place}.piece is not UTF-8: {text!r:.80}") from error
        seen[text] = id
        pieces.append(_Piece(id, text, values.get("score", 0.0), kind))
    if not pieces:
        raise FormatError(f"{name}: pieces: there is none")
    if has_bytes and not any(piece.type == BYTE for piece in pieces):
        raise FormatError(f"{name}: trainer_spec.byte_fallback is true, but no piece is of the type BYTE")
    return pieces


def _make_special_tokens(pieces: Iterable[_Piece], trainer: dict[str, Any]) -> tuple[SpecialToken, ...]:
    role_of = {
        trainer.get("pad_piece") or "<pad>": "padding",
        trainer.get("bos_piece") or "<s>": "document_begin",
        trainer.get("eos_piece") or "</s>": "document_end",
    }
    return tuple(
        SpecialToken(
            piece.text.decode(),
            piece.id,
            UNKNOWN if piece.type == _UNKNOWN_TYPE else role_of.get(piece.text.decode(), PLAIN),
        )
        for piece in pieces
        if piece.type in (_UNKNOWN_TYPE, _CONTROL_TYPE)
    )


def write_sentencepiece_model(spec: TokenizerSpec) -> bytes:
    """The .model file: SentencePiece gives the same ids with it.

    Raises FormatError for another model, an unused id, and a special token that the file's readers would not know.
    """
    model = require_pieces(spec.model, "a .model file")
    if spec.vocab_size != len(model.tokens) + len(spec.special):
        raise FormatError("in a .model file the id of a piece is its place, and some ids of this tokenizer are unused")
    if spec.normalizer:
        raise FormatError(f"a .model file cannot hold the normalizer {', '.join(spec.normalizer)}")
    pieces: dict[int, tuple[bytes, float, int]] = {
        token.id or 0: (token.text.encode(), 0.0, _UNKNOWN_TYPE if token.id == model.unknown else _CONTROL_TYPE)
        for token in spec.special
    }
    columns = (model.ids.tolist(), model.tokens, model.scores.tolist(), model.types.tolist())
    pieces |= {id: (text, score, kind) for id, text, score, kind in zip(*columns, strict=True)}
    written = [write_field(1, _write_piece(*pieces[id])) for id in range(len(pieces))]
    rules = model.text_rules
    normalizer = b"".join(
        [
            *([write_field(2, rules.charsmap)] if rules.charsmap else []),
            write_field(3, rules.add_dummy_prefix),
            write_field(4, rules.remove_extra_whitespaces),
            write_field(5, rules.escape_whitespaces),
        ]
    )
    return b"".join([*written, write_field(2, _write_trainer_spec(model, spec)), write_field(3, normalizer)])


def _write_piece(text: bytes, score: float, kind: int) -> bytes:
    named = write_field(1, text) + write_field(2, score)
    return named if kind == NORMAL else named + write_field(3, kind)


def _write_trainer_spec(model: PieceModel, spec: TokenizerSpec) -> bytes:
    if model.trainer_spec:
        return model.trainer_spec
    ids = {
        40: model.unknown,
        **{
            number: next((token.id for token in spec.special if token.role == role), None)
            for number, role in ((41, "document_begin"), (42, "document_end"), (43, "padding"))
        },
    }
    texts = {token.id: token.text for token in spec.special}
    fields = [
        write_field(3, 1 if model.is_unigram else 2),
        write_field(4, len(model.tokens) + len(spec.special)),
        write_field(24, model.text_rules.whitespace_is_suffix),
        write_field(35, bool(len(model.byte_ids))),
        *(write_field(number, -1 if id is None else id) for number, id in ids.items()),
        write_field(44, model.unknown_surface.encode()),
        *(write_field(number + 5, texts[id].encode()) for number, id in ids.items() if id is not None),
    ]
    return b"".join(fields)


def describe_left_out(spec: TokenizerSpec) -> str:
    """What a reader of the file does not learn from it: nothing."""
    return ""
