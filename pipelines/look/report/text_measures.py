"""What drawn texts measure: bytes, characters, words, and tokens by each tokenizer, text by text and by script.

A word is what stands between white space, as str.split cuts; a character is a code point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.kernel import Ids
from tokcore.look.odd_tokens import find_partial_characters
from tokcore.text.scripts import SCRIPTS, find_scripts
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer

Amounts = npt.NDArray[np.int64]

_BATCH_BYTES = 4_000_000

# What str.split takes for white space.
_SPACES = np.array([code for code in range(0x10000) if chr(code).isspace()], np.uint32)


class Measured(NamedTuple):
    """n texts. by_script: int64 [n, scripts] of bytes, characters and words; of tokens where the tokenizer tells.

    A token is of the script of the character that holds its first byte. tokens_by_script is None for a tokenizer whose
    tokens do not spell the text byte by byte.
    """

    text_bytes: Amounts
    characters: Amounts
    words: Amounts
    tokens: list[Amounts]  # of each tokenizer
    partial: list[Amounts]  # of them, tokens that are parts of characters
    by_script: tuple[Amounts, Amounts, Amounts]
    tokens_by_script: list[Amounts | None]


def measure_texts(texts: Sequence[bytes], tokenizers: Sequence[Tokenizer], advance: Callable[[int], None]) -> Measured:
    """Measure texts. advance: told bytes of text measured."""
    num = len(texts)
    amounts = np.zeros((3, num), np.int64)
    tokens: list[Amounts] = [np.zeros(num, np.int64) for _ in tokenizers]
    partial: list[Amounts] = [np.zeros(num, np.int64) for _ in tokenizers]
    by_script: list[Amounts] = [np.zeros((num, len(SCRIPTS)), np.int64) for _ in range(3)]
    tells = [_tells_bytes(one) for one in tokenizers]
    tokens_by_script: list[Amounts | None] = [
        np.zeros((num, len(SCRIPTS)), np.int64) if told else None for told in tells
    ]
    parts = [np.array(find_partial_characters(one), np.int64) for one in tokenizers]
    for start, end in _cut_into_batches(texts):
        batch = texts[start:end]
        told = _Characters(batch)
        amounts[:, start:end] = told.add_up()
        for table, found in zip(by_script, told.add_up_by_script(), strict=True):
            table[start:end] = found
        packed = make_texts_from_strings(batch)
        for i, tokenizer in enumerate(tokenizers):
            encoded = tokenizer.encode_texts(packed)
            lengths = np.diff(encoded.offsets)
            text_of_token = np.repeat(np.arange(len(batch)), lengths)
            tokens[i][start:end] = lengths
            partial[i][start:end] = np.bincount(text_of_token[np.isin(encoded.ids, parts[i])], minlength=len(batch))
            table_of_tokens = tokens_by_script[i]
            if table_of_tokens is not None:
                table_of_tokens[start:end] = told.count_tokens(encoded.ids, text_of_token, tokenizer)
        advance(sum(map(len, batch)))
    return Measured(
        amounts[0],
        amounts[1],
        amounts[2],
        tokens,
        partial,
        (by_script[0], by_script[1], by_script[2]),
        tokens_by_script,
    )


def _tells_bytes(tokenizer: Tokenizer) -> bool:
    """Whether the tokens of every text, joined, are the text."""
    return tokenizer.spec.keeps_text


def _cut_into_batches(texts: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    start = size = 0
    for end, text in enumerate(texts, 1):
        size += len(text)
        if size >= _BATCH_BYTES or end == len(texts):
            yield start, end
            start, size = end, 0


class _Characters:
    """The characters of a batch of texts: where each is, its text, its script, whether a word begins with it."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        decoded = [text.decode("utf-8", "surrogateescape") for text in texts]
        self._num_texts = len(texts)
        self._words = np.array([len(one.split()) for one in decoded], np.int64)
        joined = "".join(decoded)
        codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint32)
        widths = 1 + (codes >= 0x80) + (codes >= 0x800).astype(np.int64) + (codes >= 0x10000)
        widths[(codes >= 0xD800) & (codes < 0xE000)] = 1  # a byte on its own
        lengths = np.array([len(one) for one in decoded], np.int64)
        self._text = np.repeat(np.arange(self._num_texts), lengths)
        self._widths = widths
        self._first_bytes = np.cumsum(widths) - widths
        starts = (np.cumsum(lengths) - lengths)[lengths > 0]
        self._scripts = find_scripts(codes, starts) if len(codes) else np.zeros(0, np.int64)
        space = np.isin(codes, _SPACES)
        begins = np.zeros(len(codes), bool)
        begins[starts] = True
        after_space = np.concatenate([[True], space[:-1]]) if len(codes) else space
        self._begins_word = ~space & (after_space | begins)

    def add_up(self) -> tuple[Amounts, Amounts, Amounts]:
        """Bytes, characters and words of each text."""
        num = self._num_texts
        return (
            np.bincount(self._text, self._widths, num).astype(np.int64),
            np.bincount(self._text, minlength=num),
            self._words,
        )

    def add_up_by_script(self) -> tuple[Amounts, Amounts, Amounts]:
        """The same for each text and script; a word is of the script of its first character."""
        return (
            self._tabulate(self._text, self._scripts, self._widths),
            self._tabulate(self._text, self._scripts, None),
            self._tabulate(self._text[self._begins_word], self._scripts[self._begins_word], None),
        )

    def count_tokens(self, ids: Ids, text_of_token: Amounts, tokenizer: Tokenizer) -> Amounts:
        """Tokens of each text and script. The tokens of all texts, joined, are these texts."""
        model = tokenizer.spec.model
        sizes = model.sizes[np.searchsorted(model.ids, ids)].astype(np.int64)
        first_bytes = np.cumsum(sizes) - sizes
        characters = np.searchsorted(self._first_bytes, first_bytes, side="right") - 1
        return self._tabulate(text_of_token, self._scripts[characters], None)

    def _tabulate(self, texts: Amounts, scripts: Amounts, weights: Amounts | None) -> Amounts:
        cells = np.bincount(texts * len(SCRIPTS) + scripts, weights, self._num_texts * len(SCRIPTS))
        return cells.astype(np.int64).reshape(self._num_texts, len(SCRIPTS))
