"""What is put around a text, or around two: the post_processor of a tokenizer.json, as pieces.

Its other job there, to trim the offsets of tokens that begin or end with white space, is noted and left to others.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from tokcore.errors import FormatError

FIRST, SECOND = -1, -2  # what stands for the texts, where other pieces are ids


class Piece(NamedTuple):
    """A text, or a special token."""

    id: int  # FIRST, SECOND, or that of the token
    type_id: int


class TextTemplate(NamedTuple):
    """The pieces of one text and of two.

    >>> template = TextTemplate.parse('{"type": "BertProcessing", "cls": ["[CLS]", 7], "sep": ["[SEP]", 8]}')
    >>> [piece.id for piece in template.single], template.num_added(pair=True)
    ([7, -1, 8], 3)
    """

    single: tuple[Piece, ...] = (Piece(FIRST, 0),)
    pair: tuple[Piece, ...] = (Piece(FIRST, 0), Piece(SECOND, 1))
    trims: bool = False  # whether spans of tokens leave out the white space that these begin or end with
    keeps_prefix: bool = False  # but for a blank that was put before the text

    def num_added(self, pair: bool) -> int:
        """How many special tokens there are."""
        return sum(piece.id >= 0 for piece in (self.pair if pair else self.single))

    def without_added(self) -> TextTemplate:
        """The texts alone."""
        single, pair = (tuple(piece for piece in pieces if piece.id < 0) for pieces in (self.single, self.pair))
        return self._replace(single=single, pair=pair)

    @classmethod
    @functools.lru_cache(maxsize=64)
    def parse(cls, post_processor: str) -> TextTemplate:
        """The template of a post_processor, as JSON; empty or null: nothing is added. Raises FormatError for others."""
        return _read(orjson.loads(post_processor)) if post_processor else cls()


def _read(value: Mapping[str, Any] | None) -> TextTemplate:
    if value is None:
        return TextTemplate()
    kind = value.get("type")
    if kind == "Sequence":
        parts = [_read(one) for one in value["processors"]]
        adding = [part for part in parts if part.single != TextTemplate().single or part.pair != TextTemplate().pair]
        if len(adding) > 1:
            raise FormatError("post_processor: several of its processors put tokens around a text")
        found = adding[0] if adding else TextTemplate()
        trims = any(part.trims for part in parts)
        return found._replace(trims=trims, keeps_prefix=any(part.keeps_prefix for part in parts))
    if kind == "ByteLevel":
        return TextTemplate(trims=value.get("trim_offsets", True), keeps_prefix=value.get("add_prefix_space", True))
    if kind == "BertProcessing":
        first, end = value["cls"][1], value["sep"][1]
        single = (Piece(first, 0), Piece(FIRST, 0), Piece(end, 0))
        return TextTemplate(single, (*single, Piece(SECOND, 1), Piece(end, 1)))
    if kind == "RobertaProcessing":
        first, end = value["cls"][1], value["sep"][1]
        single = (Piece(first, 0), Piece(FIRST, 0), Piece(end, 0))
        pair = (*single, Piece(end, 0), Piece(SECOND, 0), Piece(end, 0))
        how = value.get("trim_offsets", True), value.get("add_prefix_space", True)
        return TextTemplate(single, pair, *how)
    if kind == "TemplateProcessing":
        tokens = value.get("special_tokens", {})
        return TextTemplate(_read_pieces(value["single"], tokens), _read_pieces(value["pair"], tokens))
    raise FormatError(f"post_processor {kind} is not supported: use what it adds as special tokens of your own")


def _read_pieces(pieces: Sequence[Mapping[str, Any]], tokens: Mapping[str, Any]) -> tuple[Piece, ...]:
    found: list[Piece] = []
    for piece in pieces:
        if (text := piece.get("Sequence")) is not None:
            found.append(Piece(FIRST if text["id"] == "A" else SECOND, text["type_id"]))
        else:
            special = piece["SpecialToken"]
            found += [Piece(id, special["type_id"]) for id in tokens[special["id"]]["ids"]]
    return tuple(found)
