"""Chunks of documents for retrieval: parts of a text within a budget of tokens, cut where text ends something.

A cut is where a pre-token and a token end, so it is never inside of a character. Where the end of a paragraph, a line
or a sentence is near, it is there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.errors import ConfigError, FormatError
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.texts import Offsets, make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer

LEAST_TOKENS = 8  # of a budget: a character may take four
_NEAR = 4  # an end is near if it is in the last quarter of a budget
_ENDS = (  # what stands before a cut, the best last
    re.compile(rb"(?:[.!?]|\xe3\x80\x82|\xef\xbc\x81|\xef\xbc\x9f|\xe2\x80\xa6|\xe0\xa5\xa4|\xd8\x9f)[\"')\]]*\s*\Z"),
    re.compile(rb"\n[ \t]*\Z"),
    re.compile(rb"\n[ \t\r]*\n[ \t]*\Z"),
)
_LOOK_BACK = 16  # bytes before a cut that are looked at

Grades = npt.NDArray[np.int8]


class Chunk(NamedTuple):
    """A part of a document."""

    text: bytes
    start: int  # first byte in the document
    end: int  # after the last one
    first_token: int  # of the document's tokens, the first that begins in the chunk
    last_token: int  # after the last one
    num_tokens: int  # that the chunk's text has by itself


class Chunker:
    """Cuts documents into chunks of at most so many tokens, which overlap by at most so many.

    >>> from tokcore.tokenizer.tokenizer import Tokenizer
    >>> chunker = Chunker(Tokenizer.load("out/first"), tokens=8, overlap=0)
    >>> [chunk.text for chunk in chunker.cut([b"low lower. low low lower low"])[0]]
    [b'low lower. low low lower', b' low']
    """

    def __init__(self, tokenizer: Tokenizer, tokens: int = 512, overlap: int = 64) -> None:
        """Raises ConfigError for numbers that do not fit together, and for a tokenizer whose tokens change the text."""
        if tokens < LEAST_TOKENS:
            raise ConfigError(f"tokens = {tokens}: expected at least {LEAST_TOKENS}, as a character may take four")
        if not 0 <= overlap <= tokens // 2:
            raise ConfigError(f"overlap = {overlap}: expected 0 to {tokens // 2}, half of tokens")
        if not tokenizer.spec.keeps_text:
            raise ConfigError(
                "the tokenizer normalizes text, or leaves some of it out, so its tokens do not say where they are in "
                "the text. Use a byte-level BPE without a normalizer."
            )
        self._tokenizer = tokenizer
        self._pretokenizer = Pretokenizer.from_spec(tokenizer.spec.pattern)
        self.most, self.overlap = tokens, overlap
        spec = tokenizer.spec
        sizes = {token.id: len(token.text.encode()) for token in spec.special if token.id is not None}
        sizes |= dict(zip(spec.model.ids.tolist(), spec.model.sizes.tolist(), strict=True))
        self._ids = np.array(sorted(sizes), np.int32)
        self._sizes = np.array([sizes[id] for id in self._ids.tolist()], np.int64)  # bytes of each token

    @property
    def fingerprint(self) -> str:
        """Of the tokenizer."""
        return self._tokenizer.fingerprint

    def cut(self, documents: Sequence[bytes]) -> list[list[Chunk]]:
        """The chunks of each document, in order; none of an empty one. Joined without overlaps they are the document.

        No chunk has more tokens than the budget, neither those of the document nor those that its text has by itself.
        Raises FormatError, naming the document, for bytes that are no UTF-8.
        """
        texts = make_texts_from_strings(documents)
        for i, document in enumerate(documents):
            try:
                document.decode()
            except UnicodeDecodeError as error:
                raise FormatError(f"document {i}: byte {error.start} is not UTF-8, so it has no characters") from error
        ids, offsets, _ = self._tokenizer.encode_texts(texts)
        ends, firsts = self._pretokenizer.split(texts)
        planned = []
        for i, document in enumerate(documents):
            lengths = self._sizes[np.searchsorted(self._ids, ids[offsets[i] : offsets[i + 1]])]
            of_pretokens = ends[firsts[i] : firsts[i + 1]] - texts.offsets[i]
            planned.append(_Cuts(document, np.concatenate([[0], np.cumsum(lengths)]), of_pretokens))
        found = [self._cut_one(cuts) for cuts in planned]
        return [
            chunks if all(chunk.num_tokens <= self.most for chunk in chunks) else self._cut_slowly(cuts)
            for cuts, chunks in zip(planned, self._measure(planned, found), strict=True)
        ]

    def _measure(self, planned: Sequence[_Cuts], found: Sequence[Sequence[tuple[int, int]]]) -> list[list[Chunk]]:
        """The chunks of each document between these bytes."""
        parts = [cuts.text[start:end] for cuts, own in zip(planned, found, strict=True) for start, end in own]
        sizes = iter(np.diff(self._tokenizer.encode_texts(make_texts_from_strings(parts)).offsets).tolist())
        return [
            [cuts.make_chunk(start, end, next(sizes)) for start, end in own]
            for cuts, own in zip(planned, found, strict=True)
        ]

    def _cut_one(self, cuts: _Cuts) -> list[tuple[int, int]]:
        """The bytes of each chunk, by the tokens of the document."""
        found: list[tuple[int, int]] = []
        start = end = 0
        while end < len(cuts.text):
            new_end = cuts.find_end(start, end, self.most)
            if new_end <= end and start < end:  # the next pre-token does not fit beside an overlap
                start = end
                new_end = cuts.find_end(start, end, self.most)
            if new_end <= start:
                new_end = self._find_character_end(cuts, start, self.most)
            found.append((start, new_end))
            end = new_end
            start = cuts.find_start(start, end, self.overlap)
        return found

    def _cut_slowly(self, cuts: _Cuts) -> list[Chunk]:
        """As _cut_one, of a document of which some chunk's text has more tokens by itself than within it."""
        chunks: list[Chunk] = []
        start = end = 0
        while end < len(cuts.text):
            most = self.most
            while True:
                new_end = cuts.find_end(start, end, most) if most else 0
                if new_end <= end and start < end:
                    start, most = end, self.most
                    continue
                if new_end <= start:
                    new_end = self._find_character_end(cuts, start, self.most)
                (chunk,) = self._measure([cuts], [[(start, new_end)]])[0]
                if chunk.num_tokens <= self.most:
                    break
                most -= 1
            chunks.append(chunk)
            end = new_end
            start = cuts.find_start(start, end, self.overlap)
        return chunks

    def _find_character_end(self, cuts: _Cuts, start: int, most: int) -> int:
        """Where a part of a pre-token ends that has no more tokens, by itself and in the document, after whole ones."""
        text = cuts.text[start : cuts.find_token_end(start, most)]
        low, high = 1, len(characters := text.decode(errors="ignore"))
        while low < high:  # not all shorter parts have fewer tokens, but one character has at most four
            middle = (low + high + 1) // 2
            if self._tokenizer.count_tokens(characters[:middle]) <= most:
                low = middle
            else:
                high = middle - 1
        return start + len((characters[:low] or cuts.text[start:].decode()[:1]).encode())


class _Cuts:
    """Where a document may be cut."""

    def __init__(self, text: bytes, token_bounds: Offsets, pretoken_ends: Offsets) -> None:
        """token_bounds: where each token begins, and the end. pretoken_ends: the same of ends of pre-tokens."""
        self.text = text
        self._token_bounds = token_bounds
        # Added tokens may reach over ends of pre-tokens.
        self._at = np.intersect1d(pretoken_ends, token_bounds)
        self._tokens = np.searchsorted(token_bounds, self._at)  # before each cut

    def grade(self, low: int, high: int) -> Grades:
        """How good cuts are."""
        return np.array([_find_grade(self.text, end) for end in self._at[low:high].tolist()], np.int8)

    def count_before(self, place: int) -> int:
        """How many tokens begin before a byte."""
        return (
            int(np.searchsorted(self._token_bounds, place)) if place < len(self.text) else len(self._token_bounds) - 1
        )

    def find_token_end(self, start: int, most: int) -> int:
        """Where so many tokens end from a byte on, at least one."""
        return int(self._token_bounds[min(self.count_before(start) + most, len(self._token_bounds) - 1)])

    def find_end(self, start: int, after: int, most: int) -> int:
        """The best cut after a byte with at most so many tokens since start; 0 if there is none."""
        first = self.count_before(start)
        low = int(np.searchsorted(self._at, max(start, after), side="right"))
        high = int(np.searchsorted(self._tokens, first + most, side="right"))
        if low >= high:
            return 0
        if high == len(self._at):
            return len(self.text)
        near = max(low, int(np.searchsorted(self._tokens, first + most - most // _NEAR)))
        grades = self.grade(near if near < high else low, high)
        # The last one of the best.
        return int(self._at[high - 1 - int(np.argmax(grades[::-1]))])

    def find_start(self, before: int, end: int, overlap: int) -> int:
        """Where the next chunk begins: the first of the best cuts with at most so many tokens up to the end."""
        low = int(np.searchsorted(self._tokens, self.count_before(end) - overlap))
        low = max(low, int(np.searchsorted(self._at, before, side="right")))
        high = int(np.searchsorted(self._at, end, side="left"))
        if low >= high or not overlap:
            return end
        return int(self._at[low + int(np.argmax(self.grade(low, high)))])

    def make_chunk(self, start: int, end: int, num_tokens: int) -> Chunk:
        return Chunk(self.text[start:end], start, end, self.count_before(start), self.count_before(end), num_tokens)


def _find_grade(text: bytes, end: int) -> int:
    """How good a cut is: 3 after a paragraph, 2 after a line, 1 after a sentence, else 0."""
    before = text[max(0, end - _LOOK_BACK) : end]
    grade = 0
    for number, pattern in enumerate(_ENDS, 1):
        if pattern.search(before):
            grade = number
    # "3.14" is no end of a sentence, and "e.g.x" is none, either.
    return 0 if grade == 1 and text[end : end + 1].isalnum() and before[-1:] in b".!?" else grade


def join_chunks(chunks: Sequence[Chunk]) -> bytes:
    """The document that chunks are of.

    >>> join_chunks([Chunk(b"a b", 0, 3, 0, 2, 2), Chunk(b" b c", 1, 5, 1, 3, 2)])
    b'a b c'
    """
    bounds = [(chunk, max(0, before.end - chunk.start)) for before, chunk in pairwise(chunks)]
    return b"".join([*(chunk.text for chunk in chunks[:1]), *(chunk.text[skip:] for chunk, skip in bounds)])
