"""Models of a tokenizer.json that was made from a SentencePiece model: pieces, over text with U+2581 for spaces.

They are close to SentencePiece's, but not the same: `unigram-words` adds up scores as float64, for each word by itself;
`bpe-pieces` merges by a list of pairs; and other steps come before. Both do what Hugging Face's tokenizers does.
Leaves to others: the file (tokcore.formats.tokenizers.converted_json) and decoding (sentencepiece_text).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.errors import ConfigError, FormatError
from tokcore.files.jsonable import Place, Read, from_jsonable
from tokcore.models.bpe import Pairs
from tokcore.models.model import Encode, Ids, Model, Unreachable, describe_kind, find_unlike_themselves
from tokcore.models.sentencepiece.piece_text import BYTE, BYTE_NAMES, NORMAL, SpaceMarkedPieces, Types
from tokcore.models.sentencepiece.scored_pieces import Base64, IdList, Names, UnigramModel, read_base64, write_base64
from tokcore.text.text_steps import STEP_KINDS, PieceRules, TextStep
from tokcore.text.texts import make_texts_from_strings

M = TypeVar("M", bound="ConvertedModel")

_PREFIXING = ("prepend", "metaspace-first", "metaspace-start", "words", "ascii-words")


@dataclasses.dataclass(frozen=True, eq=False)
class ConvertedModel(SpaceMarkedPieces):
    """What both kinds have in common.

    tokens, ids: of the ordinary pieces, in the order of ids. spells_bytes: unknown text becomes the pieces <0x00> to
    <0xFF>, all of which are there. unknown: id of the special token for unknown text; None if bytes spell all of it.
    steps: what is done to texts first. splits_every_space: each U+2581 begins a word; otherwise a text is one word.
    Raises FormatError for a vocabulary that cannot encode every text.
    """

    tokens: tuple[bytes, ...]
    ids: Ids
    spells_bytes: bool
    unknown: int | None
    unknown_surface: str
    steps: tuple[TextStep, ...]
    splits_every_space: bool
    types: Types = dataclasses.field(init=False, repr=False)
    control: tuple[int, ...] = dataclasses.field(init=False, repr=False, default=())
    text_rules: PieceRules = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.spells_bytes and (missing := sorted(set(BYTE_NAMES).difference(self.tokens))):
            raise FormatError(f"byte_fallback is set, and {missing[0].decode()!r} is no ordinary token")
        if self.unknown is None and not self.spells_bytes:
            raise FormatError("there is no unknown token, and no byte tokens that would spell unknown text")

        names = frozenset(BYTE_NAMES) if self.spells_bytes else frozenset()
        types = np.array([BYTE if token in names else NORMAL for token in self.tokens], np.uint8)
        object.__setattr__(self, "types", types)
        puts_space_first = any(step.kind in _PREFIXING for step in self.steps)
        object.__setattr__(self, "text_rules", PieceRules(b"", puts_space_first, False, True, False))

    def piece_encoder(self, cache_bytes: int) -> kernel.ConvertedEncoder:
        named = dict(zip(self.tokens, self.ids.tolist(), strict=True))
        try:
            return kernel.ConvertedEncoder(
                make_texts_from_strings(self.tokens),
                self.ids,
                self.list_scores(),
                self.list_merges(),
                -1 if self.unknown is None else self.unknown,
                np.array([named[name] for name in BYTE_NAMES] if self.spells_bytes else [], np.int32),
                self.steps,
                self.splits_every_space,
                cache_bytes,
            )
        except ValueError as error:
            raise FormatError(f"normalizer.precompiled_charsmap: {error}") from error

    def list_scores(self) -> npt.NDArray[np.float64] | None:
        """The scores of pieces, in the order of ids; None if it merges pairs."""
        return None

    def list_merges(self) -> npt.NDArray[np.uint32]:
        """uint32 [m, 3], places among the pieces: two that are merged, the first listed first, and what they make."""
        return np.zeros((0, 3), np.uint32)

    def unreachable(self, encode: Encode) -> list[Unreachable]:
        no_text = set(self.ids[self.types == BYTE].tolist())
        return [one for one in find_unlike_themselves(self, encode) if one.id not in no_text]

    def functional(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "lossless": False,
            "pieces": list(self.names),
            "ids": self.ids.tolist(),
            "spells_bytes": self.spells_bytes,
            "unknown": self.unknown,
            "unknown_surface": self.unknown_surface,
            "steps": [
                {"kind": step.kind, "pattern": step.pattern, "text": write_base64(step.text)} for step in self.steps
            ],
            "splits_every_space": self.splits_every_space,
        }


@dataclasses.dataclass(frozen=True, eq=False)
class WordUnigramModel(ConvertedModel):
    """The pieces of each word whose scores, as float64, have the highest sum. scores: in the order of ids."""

    kind: ClassVar[str] = "unigram-words"
    bytes_are_pieces: ClassVar[bool] = True  # text that spells the name of one becomes it

    scores: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        super().__post_init__()
        if bad := np.flatnonzero(~np.isfinite(self.scores)).tolist():
            raise FormatError(f"the score of the piece {self.names[bad[0]]!r} is not a finite number")

    def list_scores(self) -> npt.NDArray[np.float64]:
        return self.scores

    def functional(self) -> dict[str, Any]:
        return super().functional() | {"scores": write_base64(self.scores.astype("<f8").tobytes())}

    @classmethod
    def from_json(cls, value: Any, place: Place) -> WordUnigramModel:
        """The model whose functional() is value."""
        read = from_jsonable(_UnigramJson, value, place)
        if len(read.scores) != 8 * len(read.pieces):
            raise place.field("scores").error(f"one for each of {len(read.pieces)} pieces", len(read.scores) / 8)
        return _make(cls, read, place, scores=np.frombuffer(read.scores, "<f8").astype(np.float64))


def is_converted_model(model: Model) -> bool:
    """Whether a model is one of a tokenizer.json that was made from a SentencePiece model."""
    return isinstance(model, ConvertedModel)


def rename_steps(model: Model, kind: str, to: str) -> Model:
    """The model with steps of another kind in place of these; itself if it has none."""
    if not isinstance(model, ConvertedModel) or all(step.kind != kind for step in model.steps):
        return model
    steps = (step._replace(kind=to) if step.kind == kind else step for step in model.steps)
    return dataclasses.replace(model, steps=tuple(steps))


def find_model_within(model: Model) -> ConvertedModel | None:
    """The model for parts that do not begin their text, if that is another one: those have no U+2581 before them."""
    renamed = rename_steps(model, "metaspace-start", "metaspace")
    return None if renamed is model else require_converted(renamed)


def require_converted(model: Model) -> ConvertedModel:
    """The model itself. Raises FormatError if it is another kind."""
    if not isinstance(model, ConvertedModel):
        raise FormatError(f"expected a model of SentencePiece's pieces, and this one is {describe_kind(model.kind)}")
    return model


def require_unigram(model: Model, what: str) -> UnigramModel | WordUnigramModel:
    """The model itself. what: needs it, for the error. Raises ConfigError if it is another kind."""
    if not isinstance(model, UnigramModel | WordUnigramModel):
        raise ConfigError(f"{what} needs a Unigram, and this tokenizer is {describe_kind(model.kind)}")
    return model


@dataclasses.dataclass(frozen=True, eq=False)
class PieceBpeModel(ConvertedModel):
    """Merges of pairs of pieces, the first listed first. merges: int32 [m, 2], pairs of ids, each once."""

    kind: ClassVar[str] = "bpe-pieces"

    merges: Ids

    def __post_init__(self) -> None:
        super().__post_init__()
        self.list_merges()

    def list_merges(self) -> npt.NDArray[np.uint32]:
        return self._listed_merges

    @functools.cached_property
    def _listed_merges(self) -> npt.NDArray[np.uint32]:
        types = self.types.tolist()
        place_of = {id: place for place, id in enumerate(self.ids.tolist())}
        place_of_token = {token: place for place, token in enumerate(self.tokens)}
        found: list[tuple[int, int, int]] = []
        seen: set[tuple[int, int]] = set()
        for i, (left, right) in enumerate(self.merges.tolist()):
            if left not in place_of or right not in place_of:
                raise FormatError(f"merge {i} is of the ids {left} and {right}, of which one is no ordinary token")
            parts = place_of[left], place_of[right]
            joined = self.tokens[parts[0]] + self.tokens[parts[1]]
            if joined not in place_of_token:
                raise FormatError(f"merge {i} makes {joined.decode(errors='replace')!r:.80}, which is no token")
            if parts in seen or types[parts[0]] == BYTE or types[parts[1]] == BYTE:
                what = "is listed twice" if parts in seen else "is of a byte token"
                raise FormatError(f"merge {i}, which makes {joined.decode(errors='replace')!r:.80}, {what}")
            seen.add(parts)
            found.append((*parts, place_of_token[joined]))
        return np.array(found, np.uint32).reshape(-1, 3)

    def functional(self) -> dict[str, Any]:
        return super().functional() | {"merges": self.merges.tolist()}

    @classmethod
    def from_json(cls, value: Any, place: Place) -> PieceBpeModel:
        """The model whose functional() is value."""
        read = from_jsonable(_BpeJson, value, place)
        return _make(cls, read, place, merges=read.merges)


# ---------------------------------------------------------------------------------------------- tokcore.json, read back


def _make(cls: type[M], read: _ConvertedJson, place: Place, **own: Any) -> M:
    if len(read.ids) != len(read.pieces):
        raise place.field("ids").error(f"one for each of {len(read.pieces)} pieces", len(read.ids))
    try:
        return cls(
            tuple(piece.encode() for piece in read.pieces),
            read.ids,
            read.spells_bytes,
            read.unknown,
            read.unknown_surface,
            tuple(TextStep(step.kind, step.pattern, step.text) for step in read.steps),
            read.splits_every_space,
            **own,
        )
    except FormatError as error:
        raise FormatError(f"{place}: {error}") from error


def _read_kind(value: Any, place: Place) -> str:
    if value not in STEP_KINDS:
        raise place.error(" or ".join(STEP_KINDS), value)
    return str(value)


@dataclasses.dataclass(frozen=True, slots=True)
class _StepJson:
    kind: Annotated[str, Read(_read_kind)]
    pattern: str
    text: Annotated[bytes, Read(read_base64)]


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class _ConvertedJson:
    kind: str
    lossless: Literal[False]
    pieces: Names
    ids: IdList
    spells_bytes: bool
    unknown: int | None
    unknown_surface: str
    steps: tuple[_StepJson, ...]
    splits_every_space: bool


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class _UnigramJson(_ConvertedJson):
    scores: Base64


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class _BpeJson(_ConvertedJson):
    merges: Pairs
