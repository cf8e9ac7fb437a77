"""Words, and characters: a token for each of the most frequent ones, and one unknown token for all others.

Words are pre-tokens, looked up whole. The unknown token is `[UNK]`; texts that hold it do not come back.
Leaves to others: tokenizer.json (tokcore.formats.tokenizers.word_level_json).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa

from tokcore import kernel
from tokcore.count.pretoken_rows import Counts
from tokcore.errors import FormatError, LearnError
from tokcore.files.jsonable import Place, from_jsonable
from tokcore.models.bpe import BpeModel, TokensAndIds, write_tokens
from tokcore.models.codepoint import CodepointEncoder
from tokcore.models.defaults import ListedVocabulary
from tokcore.models.model import (
    MAX_TOKEN_BYTES,
    Decoder,
    Encode,
    Encoder,
    Ids,
    JoinedTokens,
    LearnOptions,
    Model,
    ModelType,
    Unreachable,
    find_free_ids,
    find_pinned,
    find_unlike_themselves,
)
from tokcore.models.wordpiece.learned_wordpiece import UNKNOWN_TEXT
from tokcore.text.code_points import NUM_CODE_POINTS, find_code_points, spell_code_point
from tokcore.text.texts import Texts, make_texts_from_strings

_BATCH_ROWS = 1 << 20


@dataclasses.dataclass(frozen=True, eq=False)
class WordModel(ListedVocabulary):
    """A vocabulary of pre-tokens. tokens, ids: in the order of ids. unknown: the id of all others.

    Raises FormatError for a token that is not UTF-8.
    """

    kind: ClassVar[str] = "word"
    what: ClassVar[str] = "words"

    tokens: tuple[bytes, ...]
    ids: Ids
    unknown: int

    def __post_init__(self) -> None:
        self.names  # noqa: B018 - checked by being made

    @property
    def summary(self) -> str:
        return f"{len(self.tokens)} {self.what}"

    @property
    def sizes(self) -> Ids:
        return np.array([*map(len, self.tokens)], np.int32)

    def encoder(self, pattern: str | None, cache_bytes: int) -> Encoder:
        texts = make_texts_from_strings(self.tokens)
        none = np.zeros(texts.num_texts, np.uint8)
        return kernel.WordpieceEncoder(pattern, texts, self.ids, none, self.unknown, 0, False, cache_bytes)

    def decoder(self, special: Mapping[int, bytes]) -> Decoder:
        return JoinedTokens(self.tokens, self.ids, special)

    def unreachable(self, encode: Encode) -> list[Unreachable]:
        return find_unlike_themselves(self, encode)

    def as_bpe(self) -> BpeModel:
        raise FormatError(f"the tokens are {self.what}, and no merges of bytes give these")

    def functional(self) -> dict[str, Any]:
        tokens = write_tokens(self.tokens, self.ids)
        return {"kind": self.kind, "lossless": False, "tokens": tokens, "unknown": self.unknown}

    @classmethod
    def from_json(cls, value: Any, place: Place) -> Self:
        """The model whose functional() is value."""
        read = from_jsonable(_WordJson, value, place)
        try:
            return cls(*read.tokens, read.unknown)
        except FormatError as error:
            raise FormatError(f"{place}: {error}") from error


@dataclasses.dataclass(frozen=True, eq=False)
class CharacterModel(WordModel):
    """A vocabulary of characters. Raises FormatError for a token that is not one character."""

    kind: ClassVar[str] = "character"
    what: ClassVar[str] = "characters"

    def __post_init__(self) -> None:
        if long := [name for name in self.names if len(name) != 1]:
            raise FormatError(f"the token {long[0]!r:.80} is not one character")

    def encoder(self, pattern: str | None, cache_bytes: int) -> Encoder:
        ids = np.full(NUM_CODE_POINTS, self.unknown, np.int32)
        ids[[*map(ord, self.names)]] = self.ids
        return CodepointEncoder(pattern, ids)


def is_word_level(model: Model) -> bool:
    """Whether a model is of words or of characters."""
    return isinstance(model, WordModel)


def is_of_characters(model: Model) -> bool:
    """Whether a model is of characters."""
    return isinstance(model, CharacterModel)


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class _WordJson:
    kind: str
    lossless: Literal[False]
    tokens: TokensAndIds
    unknown: int


_OWN_SPECIAL = {UNKNOWN_TEXT: "unknown"}


class Word(ModelType):
    """The model type of words."""

    text = "the most frequent pre-tokens, whole"
    uses = ("vocab_size", "allow_smaller", "min_count", "min_documents")
    default_size = "32,768"
    own_special = _OWN_SPECIAL
    models = (WordModel,)

    def learn(self, rows: Callable[[], tuple[Texts, Counts]], options: LearnOptions) -> WordModel:
        """The words of the highest counts; between equal ones, the smaller bytes come first."""
        num = options.vocab_size - options.num_special
        tokens: list[bytes] = []
        for words in _rank_words(*rows(), max(1, options.min_count)):
            tokens += [word for word in words.to_pylist() if 0 < len(word) <= MAX_TOKEN_BYTES and _is_utf8(word)]
            if len(tokens) >= num:
                break
        del tokens[num:]
        if not tokens:
            raise LearnError("the count table holds no pre-token that is frequent enough: there is nothing to learn")
        pinned = find_pinned(options, self.own_special)
        return WordModel(tuple(tokens), find_free_ids(len(tokens), pinned.values()), pinned[UNKNOWN_TEXT])


class Character(ModelType):
    """The model type of characters."""

    text = "the most frequent characters, as many as character_coverage asks for"
    uses = ("character_coverage", "min_documents")
    default_size = "follows from character_coverage"
    own_special = _OWN_SPECIAL
    models = (CharacterModel,)

    def default_vocab_size(self, num_special: int) -> int:
        return num_special  # the least that there can be: it follows from the text

    def wrong_option(self, options: LearnOptions) -> tuple[str, str] | None:
        return None

    def learn(self, rows: Callable[[], tuple[Texts, Counts]], options: LearnOptions) -> CharacterModel:
        """The characters of the highest counts, the smaller code point first, until they are that share of the text."""
        counts = _count_characters(*rows())
        wanted = Fraction(Decimal(options.character_coverage)) * sum(counts.values())
        chosen: list[int] = []
        seen = 0
        for code_point, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
            if seen >= wanted:
                break
            chosen.append(code_point)
            seen += count
        if not chosen:
            raise LearnError("the count table is empty: there is nothing to learn from")
        pinned = find_pinned(options, self.own_special)
        tokens = tuple(map(spell_code_point, chosen))
        return CharacterModel(tokens, find_free_ids(len(tokens), pinned.values()), pinned[UNKNOWN_TEXT])


def _rank_words(pretokens: Texts, counts: Counts, min_count: int) -> Iterator[pa.Array]:
    """The pre-tokens with at least that count, the most frequent first, in blocks. Rows may repeat a pre-token."""
    import pyarrow.compute as pc  # takes long, and few builds learn such a model

    if sum(np.add.reduce(half, dtype=np.uint64).item() << shift for half, shift in _halve(counts)) >= 2**63:
        raise LearnError("the counts of the table are too large: they pass 2**63 - 1. Divide them by a common factor.")
    offsets = np.ascontiguousarray(pretokens.offsets)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(pretokens.data))]
    words = pa.Array.from_buffers(pa.large_binary(), pretokens.num_texts, buffers)
    table = pa.table({"word": words, "count": pa.array(counts)}).group_by("word").aggregate([("count", "sum")])
    table = table.filter(pc.greater_equal(table["count_sum"], pa.scalar(min(min_count, 2**63), pa.uint64())))
    order = pc.sort_indices(table, [("count_sum", "descending"), ("word", "ascending")])
    for first in range(0, len(order), _BATCH_ROWS):
        yield table["word"].take(order[first : first + _BATCH_ROWS])


def _halve(counts: Counts) -> list[tuple[Counts, int]]:
    """(upper 32 bits, 32), (lower 32 bits, 0): their sums cannot pass 64 bits."""
    return [(counts >> np.uint64(32), 32), (counts & np.uint64(0xFFFFFFFF), 0)]


def _count_characters(pretokens: Texts, counts: Counts) -> dict[int, int]:
    """Code point -> its weighted count. Bytes outside of well-formed UTF-8 are no characters."""
    sums: dict[int, int] = {}
    for first in range(0, pretokens.num_texts, _BATCH_ROWS):
        part = Texts(pretokens.data, pretokens.offsets[first : first + _BATCH_ROWS + 1])
        points, offsets = find_code_points(part)
        weights = np.repeat(counts[first : first + _BATCH_ROWS], np.diff(offsets))
        order = np.argsort(points, kind="stable")
        points, weights = points[order], weights[order]
        starts = np.flatnonzero(np.diff(points, prepend=np.uint32(NUM_CODE_POINTS)))
        for half, shift in _halve(weights):
            added = np.add.reduceat(half, starts) if len(starts) else half
            for point, count in zip(points[starts].tolist(), added.tolist(), strict=True):
                sums[point] = sums.get(point, 0) + (count << shift)
    return {point: count for point, count in sums.items() if count and not 0xDC80 <= point < 0xDD00}


def _is_utf8(word: bytes) -> bool:
    try:
        word.decode()
    except UnicodeDecodeError:
        return False
    return True
