"""The kernel in plain Python: slow, obvious, and the oracle of the tests. Read this file first.

It goes from simple to complex: split, count, learn, encode; then what else the kernel does. Each of the first four
begins with the algorithm on plain values. After it comes the function or class on batches of texts. It has the name and
the arguments that it has in the native module, and tokcore.kernel says what they mean. Threads, budgets of caches and
the name of an implementation change nothing here.
"""

from __future__ import annotations

import base64
import collections
import functools
import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import regex
import unicodedata2

from tokcore.count.pretoken_rows import CountRows, Counts, list_rows, make_rows
from tokcore.reference.arrays import Ids, join_ids, list_pieces, list_texts
from tokcore.text.bert_characters import load_table, normalize_text
from tokcore.text.mask_presets import MASK_PRESETS
from tokcore.text.patterns import PATTERNS, PATTERNS_OF_STEPS
from tokcore.text.texts import Bytes, Offsets, Texts, make_texts_from_strings
from tokcore.text.unicode import expand

Rows = tuple[Bytes, Offsets, Counts, Counts]  # of tokcore.count.pretoken_rows.CountRows, its arrays

# --------------------------------------------------------------------------------------------------------------- split


def split_text(pattern: str, text: bytes) -> list[bytes]:
    """The pre-tokens of a text: the matches of a named pattern. Joined they are the text.

    A byte outside of every well-formed UTF-8 sequence is a character of its own: not a letter, number or whitespace.

    >>> split_text("gpt2", b"don't stop")
    [b'don', b"'t", b' stop']
    """
    characters = text.decode("utf-8", "surrogateescape")
    return [
        match.group().encode("utf-8", "surrogateescape") for match in _compile_matcher(pattern).finditer(characters)
    ]


@functools.cache
def _compile_matcher(pattern: str) -> Any:
    """The pattern's text, with its classes spelled out from the pinned Unicode tables."""
    return regex.compile(expand((PATTERNS | PATTERNS_OF_STEPS)[pattern]))


def split(pattern: str, data: Bytes, offsets: Offsets, implementation: str = "") -> tuple[Offsets, Offsets]:
    """As tokcore.kernel.split."""
    ends: list[int] = []
    firsts = [0]
    for position, text in zip(offsets.tolist(), list_texts(data, offsets), strict=False):
        for pretoken in split_text(pattern, text):
            position += len(pretoken)
            ends.append(position)
        firsts.append(len(ends))
    return np.array(ends, np.int64), np.array(firsts, np.int64)


class Automaton:
    """As tokcore.kernel.Automaton."""

    def __init__(
        self,
        num_classes: int,
        transitions: npt.NDArray[np.uint16],
        leaf_of_block: npt.NDArray[np.uint16],
        leaves: Bytes,
        byte_classes: Bytes,
        regions: Bytes,
    ) -> None:
        self._end = num_classes - 1
        self._regions = regions.tolist() or [0] * num_classes
        self._table = transitions.reshape(-1, num_classes)
        self._leaf_of_block, self._leaves, self._byte_classes = leaf_of_block, leaves, byte_classes

    def split(self, data: Bytes, offsets: Offsets, bytewise: bool) -> tuple[Offsets, Bytes, Offsets]:
        ends: list[int] = []
        are_matches: list[bool] = []
        firsts = [0]
        for start, text in zip(offsets.tolist(), list_texts(data, offsets), strict=False):
            characters = [text[k : k + 1] for k in range(len(text))] if bytewise else _list_characters(text)
            classes = [self._byte_classes[c[0]] if bytewise else self._find_class(c) for c in characters]
            places = np.cumsum([0, *map(len, characters)]) + start
            begin = done = 0
            while begin < len(characters):
                end = _find_match_end([*classes[begin:], self._end], self._table)
                if end is None:
                    if begin > done and self._regions[classes[begin]] != self._regions[classes[begin - 1]]:
                        ends.append(int(places[begin]))
                        are_matches.append(False)
                        done = begin
                    begin += 1
                    continue
                for piece_end, is_match in ((begin, False), (begin + end, True)):
                    if piece_end > done:
                        ends.append(int(places[piece_end]))
                        are_matches.append(is_match)
                begin = done = begin + end
            if done < len(characters):
                ends.append(int(places[-1]))
                are_matches.append(False)
            firsts.append(len(ends))
        return np.array(ends, np.int64), np.array(are_matches, np.uint8), np.array(firsts, np.int64)

    def _find_class(self, character: bytes) -> int:
        code = ord(character.decode("utf-8", "surrogateescape"))
        return int(self._leaves[int(self._leaf_of_block[code >> 8]) << 8 | code & 255])


def _find_match_end(classes: list[int], table: npt.NDArray[np.uint16]) -> int | None:
    """Where the match ends that begins with the first of these characters; None if there is none."""
    state, end = 1, None
    for position, each in enumerate(classes):
        transition = int(table[state, each])
        if transition & 1:
            end = position
        state = transition >> 1
    return end


def _list_characters(text: bytes) -> list[bytes]:
    return [c.encode("utf-8", "surrogateescape") for c in text.decode("utf-8", "surrogateescape")]


def split_by_chain(
    automata: Sequence[tuple[Automaton, bool]], data: Bytes, offsets: Offsets
) -> tuple[Offsets, Offsets]:
    """As tokcore.kernel.split_by_chain."""
    firsts = np.arange(len(offsets))
    for automaton, bytewise in automata:
        ends, _, further = automaton.split(data, offsets, bytewise)
        offsets, firsts = np.concatenate([offsets[:1], ends]), further[firsts]
    return offsets[1:], firsts


# --------------------------------------------------------------------------------------------------------------- count


def cut_pretoken(pretoken: bytes, limit: int) -> list[bytes]:
    """The parts of a pre-token, each as long as it can be without passing limit bytes or dividing a character.

    A byte outside of every well-formed UTF-8 sequence is a character of its own. A limit of 0 never cuts.

    >>> cut_pretoken("aéaéa".encode(), 5)
    [b'a\\xc3\\xa9a', b'\\xc3\\xa9a']
    """
    parts = [b""]
    for character in pretoken.decode("utf-8", "surrogateescape"):
        encoded = character.encode("utf-8", "surrogateescape")
        if limit and len(parts[-1]) + len(encoded) > limit:
            parts.append(b"")
        parts[-1] += encoded
    return [part for part in parts if part]


def check_max_pretoken_bytes(limit: int) -> None:
    """Raise ValueError for a limit that is shorter than some characters."""
    if limit < 0 or 0 < limit < 4:
        raise ValueError(f"max_pretoken_bytes = {limit}: must be 0 (never cut) or at least 4, the longest character")


class Counter:
    """As tokcore.kernel.Counter: two dictionaries.

    >>> counter = Counter("gpt2", max_pretoken_bytes=0)
    >>> counter.add(*make_texts_from_strings(["to be or not to be", "to be"]))
    >>> keys, offsets, counts, documents = counter.take()
    >>> list_texts(keys, offsets), counts.tolist(), documents.tolist()
    ([b' be', b' not', b' or', b' to', b'to'], [3, 1, 1, 1, 2], [2, 1, 1, 1, 2])
    """

    def __init__(self, pattern: str, max_pretoken_bytes: int, implementation: str = "") -> None:
        check_max_pretoken_bytes(max_pretoken_bytes)
        self._pattern = pattern
        self._limit = max_pretoken_bytes
        self._counts: collections.Counter[bytes] = collections.Counter()
        self._documents: collections.Counter[bytes] = collections.Counter()

    def add(self, data: Bytes, offsets: Offsets) -> None:
        self.add_pieces(data, offsets, *split(self._pattern, data, offsets))

    def add_pieces(self, data: Bytes, offsets: Offsets, ends: Offsets, firsts: Offsets) -> None:
        for pieces in list_pieces(data, offsets, ends, firsts):
            words = [part for piece in pieces for part in cut_pretoken(piece, self._limit)]
            self._counts.update(words)
            self._documents.update(set(words))

    @property
    def memory_bytes(self) -> int:
        return sum(len(word) + 16 for word in self._counts)

    @property
    def num_rows(self) -> int:
        return len(self._counts)

    @property
    def num_pretokens(self) -> int:
        return self._counts.total()

    def take(self) -> Rows:
        rows = _make_arrays([(word, self._counts[word], self._documents[word]) for word in sorted(self._counts)])
        self._counts.clear()
        self._documents.clear()
        return rows

    @staticmethod
    def take_all(counters: Sequence[Counter], threads: int) -> list[Rows]:
        if threads < 1:
            raise ValueError(f"threads = {threads}: must be at least 1")
        if len({id(counter) for counter in counters}) < len(counters):
            raise ValueError("counters: one of them is named twice")
        if not counters:
            return []
        for counter in counters[1:]:
            counters[0]._counts.update(counter._counts)
            counters[0]._documents.update(counter._documents)
            counter.take()
        return [counters[0].take()]


def _make_arrays(rows: list[tuple[bytes, int, int]]) -> Rows:
    made = make_rows(rows)
    return *made.keys, made.counts, made.documents


def _list_rows(data: Bytes, offsets: Offsets, counts: Counts, documents: Counts) -> list[tuple[bytes, int, int]]:
    return list_rows(CountRows(Texts(data, offsets), counts, documents))


# --------------------------------------------------------------------------------------------------------------- learn


def merge(word: list[int], pair: tuple[int, int], merged: int) -> list[int]:
    """The word with every occurrence of pair replaced by merged, from left to right without overlap.

    >>> merge([1, 1, 1, 2], (1, 1), 9)
    [9, 1, 2]
    """
    result: list[int] = []
    i = 0
    while i < len(word):
        if tuple(word[i : i + 2]) == pair:
            result.append(merged)
            i += 2
        else:
            result.append(word[i])
            i += 1
    return result


def count_pairs(words: Iterable[tuple[list[int], int]]) -> collections.Counter[tuple[int, int]]:
    """The count of each pair of neighbours: every window that holds it adds its word's count.

    >>> count_pairs([([1, 1, 1], 2), ([1, 7], 5)])
    Counter({(1, 7): 5, (1, 1): 4})
    """
    pairs: collections.Counter[tuple[int, int]] = collections.Counter()
    for word, count in words:
        for pair in pairwise(word):
            pairs[pair] += count
    return pairs


def learn_merges(
    words: list[tuple[list[int], int]],
    num_merges: int,
    min_count: int = 1,
    max_token_bytes: int = 0,
    merges_done: npt.NDArray[np.int64] | None = None,
    lengths: Sequence[int] = (1,) * 256,
    by_score: bool = False,
) -> list[tuple[int, int, int]]:
    """Up to num_merges merges (left, right, count), learned from words of ids and their counts.

    lengths: in bytes, of the ids that words may have, which are 0 to 255 unless said otherwise. Each step counts all
    pairs and merges the best one: the highest count (by_score: the highest count(ab) / (count(a) count(b)), then the
    highest count), then the smaller left id, then the smaller right id. Merge i makes the id len(lengths) + i.
    max_token_bytes: 0 for no limit.

    >>> learn_merges([([7, 7, 7, 8, 3, 7, 7, 7, 8, 7, 2], 1)], 3)  # aaabdaaabac
    [(7, 7, 4), (7, 8, 2), (256, 257, 2)]
    """
    lengths = list(lengths)
    merges: list[tuple[int, int, int]] = []
    while len(merges) < num_merges:
        symbols = collections.Counter[int]()
        for word, count in words if by_score else ():
            for id in word:
                symbols[id] += count
        candidates = [
            (-Fraction(count, symbols[pair[0]] * symbols[pair[1]]) if by_score else 0, -count, pair)
            for pair, count in count_pairs(words).items()
            if count >= max(1, min_count)
            and (not max_token_bytes or lengths[pair[0]] + lengths[pair[1]] <= max_token_bytes)
        ]
        if not candidates:
            break
        _, count, (left, right) = min(candidates)
        words = [(merge(word, (left, right), len(lengths)), count) for word, count in words]
        merges.append((left, right, -count))
        if merges_done is not None:
            merges_done[0] = len(merges)
        lengths.append(lengths[left] + lengths[right])
    return merges


def learn(
    data: Bytes,
    offsets: Offsets,
    counts: Counts,
    num_merges: int,
    min_count: int,
    max_token_bytes: int,
    threads: int,
    id_of_byte: bytes,
    merges_done: Offsets,
) -> tuple[Ids, Ids, Counts]:
    """As tokcore.kernel.learn_merges. id_of_byte: of the 256 bytes, in their order."""
    words = [
        ([id_of_byte[byte] for byte in row], count)
        for row, count in zip(list_texts(data, offsets), counts.tolist(), strict=True)
    ]
    return _learn_words(words, num_merges, min_count, max_token_bytes, merges_done, (1,) * 256)


def learn_symbols(
    symbols: npt.NDArray[np.uint32],
    offsets: Offsets,
    counts: Counts,
    symbol_bytes: Offsets,
    num_merges: int,
    min_count: int,
    max_token_bytes: int,
    threads: int,
    merges_done: Offsets,
) -> tuple[Ids, Ids, Counts]:
    """As tokcore.kernel.learn_symbol_merges."""
    bounds = zip(pairwise(offsets.tolist()), counts.tolist(), strict=True)
    words = [(symbols[start:end].tolist(), count) for (start, end), count in bounds]
    return _learn_words(words, num_merges, min_count, max_token_bytes, merges_done, symbol_bytes.tolist())


def _learn_words(
    words: list[tuple[list[int], int]],
    num_merges: int,
    min_count: int,
    max_token_bytes: int,
    merges_done: Offsets,
    lengths: Sequence[int],
) -> tuple[Ids, Ids, Counts]:
    if sum(count * max(len(word) - 1, 0) for word, count in words) >= 2**63:
        raise OverflowError("the pairs of the table are more than 2**63 - 1")
    merges = learn_merges(words, num_merges, min_count, max_token_bytes, merges_done, lengths)
    return _make_merges(merges)


def _make_merges(merges: list[tuple[int, int, int]]) -> tuple[Ids, Ids, Counts]:
    left, right, count = list(zip(*merges, strict=True)) or [(), (), ()]
    return np.array(left, np.int32), np.array(right, np.int32), np.array(count, np.uint64)


def list_character_words(data: Bytes, offsets: Offsets, counts: Counts) -> list[tuple[list[tuple[bool, str]], int]]:
    """The words that characters are learned from: (goes on with a word, character) for each, and the count.

    >>> list_character_words(*make_texts_from_strings(["ab", " ", "##c"]), np.array([3, 9, 1], np.uint64))
    [([(False, 'a'), (True, 'b')], 3), ([(False, '#'), (True, '#')], 1), ([(True, 'c')], 1)]
    """
    words = []
    for row, count in zip(list_texts(data, offsets), counts.tolist(), strict=True):
        try:
            text = row.decode()
        except UnicodeDecodeError:
            continue
        if count == 0 or _SPACE.fullmatch(text) or not text:
            continue
        symbols = [(place > 0, character) for place, character in enumerate(text)]
        cuts = [symbols[:2], symbols[2:]] if text.startswith("##") and len(text) > 2 else [symbols]
        words += [(cut, count) for cut in cuts]
    return words


def learn_characters(
    data: Bytes,
    offsets: Offsets,
    counts: Counts,
    num_tokens: int,
    min_count: int,
    max_token_bytes: int,
    threads: int,
    by_score: bool,
    merges_done: Offsets,
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], Ids, Ids, Counts]:
    """As tokcore.kernel.learn_characters."""
    words = list_character_words(data, offsets, counts)
    if sum(count * (len(word) - (not by_score)) for word, count in words) >= 2**63:
        raise OverflowError("the pairs of the table are more than 2**63 - 1")
    first = sorted({character for word, _ in words for _, character in word})
    further = sorted({character for word, _ in words for goes_on, character in word if goes_on})
    symbols = [*((False, character) for character in first), *((True, character) for character in further)]
    id_of = {symbol: id for id, symbol in enumerate(symbols)}
    merges = learn_merges(
        [([id_of[symbol] for symbol in word], count) for word, count in words],
        num_tokens - len(symbols),
        min_count,
        max_token_bytes,
        merges_done,
        [len(character.encode()) for _, character in symbols],
        by_score,
    )
    first_points, further_points = (np.array([*map(ord, characters)], np.uint32) for characters in (first, further))
    return first_points, further_points, *_make_merges(merges)


# -------------------------------------------------------------------------------------------------------------- encode


def encode_pretoken(
    pretoken: bytes, id_of_token: Mapping[bytes, int], merges: Mapping[tuple[int, int], tuple[int, int]]
) -> list[int]:
    """The ids of one pre-token. Each step merges the pair of lowest priority (if several are equal, the leftmost).

    id_of_token: token -> id, the 256 single bytes among them. merges: (left, right) -> (priority, id of the result).

    >>> ids = {bytes([byte]): byte for byte in range(256)}
    >>> merges = {(ord("b"), ord("c")): (0, 256), (ord("a"), ord("b")): (1, 257)}
    >>> encode_pretoken(b"abcab", ids, merges)  # bc goes before ab
    [97, 256, 257]
    """
    ids = [id_of_token[bytes([byte])] for byte in pretoken]
    while True:
        candidates = [(merges[pair][0], i) for i, pair in enumerate(pairwise(ids)) if pair in merges]
        if not candidates:
            return ids
        _, i = min(candidates)
        ids[i : i + 2] = [merges[ids[i], ids[i + 1]][1]]


class TextEncoder(ABC):
    """What all encoders have in common."""

    @abstractmethod
    def encode_piece(self, piece: bytes) -> list[int]:
        """The ids of one pre-token."""

    @abstractmethod
    def encode(self, data: Bytes, offsets: Offsets, threads: int) -> tuple[Ids, Offsets, Offsets]: ...

    def encode_pieces(
        self, data: Bytes, offsets: Offsets, ends: Offsets, firsts: Offsets, threads: int
    ) -> tuple[Ids, Offsets, Offsets]:
        split_texts = list_pieces(data, offsets, ends, firsts)
        rows = [[id for piece in pieces for id in self.encode_piece(piece)] for pieces in split_texts]
        return *join_ids(rows), np.diff(firsts)

    def encode_strings(self, texts: Sequence[str | bytes], threads: int) -> tuple[Ids, Offsets, Offsets]:
        return self.encode(*make_texts_from_strings(texts), threads)

    def encode_text(self, text: str | bytes) -> Ids:
        return self.encode_strings([text], 1)[0]

    def count_text(self, text: str | bytes) -> int:
        return len(self.encode_text(text))


class PretokenEncoder(TextEncoder):
    """An encoder of texts that it splits first. pattern: empty if they come in pieces."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def encode(self, data: Bytes, offsets: Offsets, threads: int) -> tuple[Ids, Offsets, Offsets]:
        if not self._pattern:
            raise ValueError("this encoder has no pattern: split the texts and use encode_pieces")
        return self.encode_pieces(data, offsets, *split(self._pattern, data, offsets), threads)


class NormalizingEncoder(TextEncoder):
    """An encoder that rewrites texts before it looks for pieces."""

    @abstractmethod
    def normalize_text(self, text: bytes) -> bytes:
        """The text as pieces are looked for in it."""

    def normalize(self, data: Bytes, offsets: Offsets) -> tuple[Bytes, Offsets]:
        return make_texts_from_strings([self.normalize_text(text) for text in list_texts(data, offsets)])

    def count_words(self, text: bytes) -> int:
        """Into how many words the kernel cuts a normalized text; the reference need not cut."""
        return 0

    def encode(self, data: Bytes, offsets: Offsets, threads: int) -> tuple[Ids, Offsets, Offsets]:
        normalized = [self.normalize_text(text) for text in list_texts(data, offsets)]
        num_words = np.array([self.count_words(text) for text in normalized], np.int64)
        return *join_ids([self.encode_piece(text) for text in normalized]), num_words


class BpeEncoder(PretokenEncoder):
    """As tokcore.kernel.BpeEncoder."""

    def __init__(
        self,
        pattern: str,
        data: Bytes,
        offsets: Offsets,
        token_ids: Ids,
        left: Ids,
        right: Ids,
        result: Ids,
        priority: npt.NDArray[np.uint32],
        whole: bool,
    ) -> None:
        super().__init__(pattern)
        self._ids = dict(zip(list_texts(data, offsets), token_ids.tolist(), strict=True))
        pairs = zip(left.tolist(), right.tolist(), strict=True)
        self._merges = dict(zip(pairs, zip(priority.tolist(), result.tolist(), strict=True), strict=True))
        self._whole = whole

    def encode_piece(self, piece: bytes) -> list[int]:
        """The ids of one pre-token; if whole, a pre-token that is a token becomes that token."""
        if self._whole and piece in self._ids:
            return [self._ids[piece]]
        return encode_pretoken(piece, self._ids, self._merges)


def encode_wordpiece(
    pretoken: bytes, first: Mapping[bytes, int], further: Mapping[bytes, int], unknown_id: int, max_characters: int
) -> list[int]:
    """The ids of a pre-token: of its longest start that is a token, then of the longest one that goes on, and so on.

    first, further: tokens that begin a word, and that continue one. max_characters: 0 for no limit.

    >>> encode_wordpiece(b"hugs", {b"hug": 5, b"hu": 6}, {b"s": 7}, unknown_id=1, max_characters=100)
    [5, 7]
    >>> encode_wordpiece(b"hugb", {b"hug": 5, b"hu": 6}, {b"s": 7}, unknown_id=1, max_characters=100)
    [1]
    """
    if max_characters and len(pretoken.decode("utf-8", "surrogateescape")) > max_characters:
        return [unknown_id]
    ids: list[int] = []
    start = 0
    while start < len(pretoken):
        known = further if start else first
        ends = [end for end in range(start + 1, len(pretoken) + 1) if pretoken[start:end] in known]
        if not ends:
            return [unknown_id]
        ids.append(known[pretoken[start : ends[-1]]])
        start = ends[-1]
    return ids


class WordpieceEncoder(PretokenEncoder):
    """As tokcore.kernel.WordpieceEncoder."""

    def __init__(
        self,
        pattern: str,
        data: Bytes,
        offsets: Offsets,
        token_ids: Ids,
        continues: Bytes,
        unknown_id: int,
        max_characters: int,
        drops_space: bool,
    ) -> None:
        super().__init__(pattern)
        self._known: tuple[dict[bytes, int], dict[bytes, int]] = ({}, {})
        rows = zip(list_texts(data, offsets), token_ids.tolist(), continues.tolist(), strict=True)
        for i, (token, id, goes_on) in enumerate(rows):
            known = self._known[goes_on]
            if not token or token in known:
                raise ValueError(f"token {i}: it is empty, or an earlier one has the same bytes")
            known[token] = id
        self._unknown_id = unknown_id
        self._max_characters = max_characters
        self._drops_space = drops_space

    def encode_piece(self, piece: bytes) -> list[int]:
        if self._drops_space and _SPACE.fullmatch(piece.decode("utf-8", "surrogateescape")):
            return []
        return encode_wordpiece(piece, *self._known, self._unknown_id, self._max_characters)


_SPACE = regex.compile(expand(r"\s+"))


def list_unlike_nfc(data: Bytes, offsets: Offsets) -> list[int]:
    """As tokcore.kernel.list_unlike_nfc."""
    return list_strings_unlike_nfc(list_texts(data, offsets))


def list_strings_unlike_nfc(strings: Sequence[str | bytes]) -> list[int]:
    """The same of Python's strings."""
    return [i for i, string in enumerate(strings) if not _is_nfc(string)]


def _is_nfc(string: str | bytes) -> bool:
    try:
        text = string if isinstance(string, str) else bytes(string).decode()
    except UnicodeDecodeError:
        return False
    is_same: bool = unicodedata2.normalize("NFC", text) == text
    return is_same


def normalize_bert(data: Bytes, offsets: Offsets, cased: bool) -> tuple[Bytes, Offsets]:
    """As tokcore.kernel.normalize_bert."""
    table = load_table(cased)
    texts = list_texts(data, offsets)
    return make_texts_from_strings([normalize_text(text.decode("utf-8", "surrogateescape"), table) for text in texts])


# ------------------------------------------------------------------------------------------------------- count tables


class RowMerger:
    """As tokcore.kernel.RowMerger: takes the smallest first key of all runs and adds up the rows that have it."""

    def __init__(self, num_runs: int, multipliers: Sequence[int] | None) -> None:
        self._runs: list[list[tuple[bytes, int, int]]] = [[] for _ in range(num_runs)]
        self._multipliers = [1] * num_runs if multipliers is None else list(multipliers)
        if len(self._multipliers) != num_runs:
            raise ValueError(f"{len(self._multipliers)} multipliers for {num_runs} runs")
        self._last: bytes | None = None
        self._finished = [False] * num_runs

    @property
    def hungry(self) -> list[int]:
        return [i for i, run in enumerate(self._runs) if not run and not self._finished[i]]

    def feed(self, run: int, data: Bytes, offsets: Offsets, counts: Counts, documents: Counts) -> None:
        if run not in self.hungry:
            raise ValueError(f"run {run} is not hungry")
        self._runs[run] = _list_rows(data, offsets, counts, documents)

    def finish(self, run: int) -> None:
        self._finished[run] = True

    def merge(self, max_rows: int) -> Rows | None:
        merged: list[tuple[bytes, int, int]] = []
        while len(merged) < max_rows and not self.hungry and any(self._runs):
            key = min(run[0][0] for run in self._runs if run)
            count = documents = 0
            for run, multiplier in zip(self._runs, self._multipliers, strict=True):
                if run and run[0][0] == key:
                    count += run[0][1] * multiplier
                    documents += run[0][2]
                    del run[0]
            if self._last is not None and key <= self._last:
                raise ValueError(f"a run is not sorted: {key[:40]!r} comes after {self._last[:40]!r}")
            self._last = key
            if max(count, documents) >= 2**64:
                raise OverflowError(f"the count of {key[:40]!r} passes 2**64 - 1")
            merged.append((key, count, documents))
        if not merged and not any(self._runs) and all(self._finished):
            return None
        return _make_arrays(merged)


def hash_bytes(key: bytes) -> int:
    """The 64-bit hash that kernel/memory/hash.h defines."""
    mask = 2**64 - 1

    def fold(a: int, b: int) -> int:
        product = a * b
        return (product >> 64) ^ (product & mask)

    state = (len(key) * 0x9E3779B97F4A7C15 + 0xD6E8FEB86659FD93) & mask
    for start in range(0, max(len(key), 1), 16):
        block = key[start : start + 16].ljust(16, b"\0")
        low, high = int.from_bytes(block[:8], "little"), int.from_bytes(block[8:], "little")
        state = fold(low ^ state ^ 0xA0761D6478BD642F, high ^ 0xE7037ED1A0B428DB ^ (state >> 32))
    return fold(state ^ 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3)


def assign_partitions(data: Bytes, offsets: Offsets, num_partitions: int) -> Offsets:
    """As tokcore.kernel.assign_partitions: the top bits of each key's hash."""
    hashes = map(hash_bytes, list_texts(data, offsets))
    return np.array([value * num_partitions >> 64 for value in hashes], np.int64)


def pack_rows(data: Bytes, offsets: Offsets, counts: Counts, documents: Counts) -> bytes:
    """As tokcore.kernel.pack_rows: for each row u32 key length, key, u64 count, u64 documents; little-endian."""
    return b"".join(
        struct.pack("<I", len(key)) + key + struct.pack("<QQ", count, documents)
        for key, count, documents in _list_rows(data, offsets, counts, documents)
    )


# ------------------------------------------------------------------------------------ masks, ids, ranks and JSON lines


def find_masked(presets: int, data: Bytes, offsets: Offsets) -> tuple[Offsets, Offsets, Bytes, Offsets]:
    """As tokcore.kernel.find_masked: the matches of the presets' regular expressions whose check digits are right.

    presets: a bit for each, that of the first in MASK_PRESETS is the lowest.
    """
    spans: list[tuple[int, int, int]] = []
    firsts = [0]
    for start, text in zip(offsets.tolist(), list_texts(data, offsets), strict=False):
        found = [
            (start + match.start(), number, start + match.end())
            for number, preset in enumerate(MASK_PRESETS.values())
            if presets >> number & 1
            for match in preset.pattern.finditer(text)
            if preset.valid is None or preset.valid(match.group())
        ]
        spans += sorted(found)
        firsts.append(len(spans))
    starts, numbers, ends = zip(*spans, strict=True) if spans else ((), (), ())
    return np.array(starts, np.int64), np.array(ends, np.int64), np.array(numbers, np.uint8), np.array(firsts, np.int64)


class StringFinder:
    """As tokcore.kernel.StringFinder: every string is tried at every place, the longest first."""

    def __init__(self, data: Bytes, offsets: Offsets) -> None:
        strings = list_texts(data, offsets)
        for i, string in enumerate(strings):
            if not string or string in strings[:i]:
                raise ValueError(f"string {i}: is empty, or an earlier one is equal")
        self._numbers = {string: number for number, string in enumerate(strings)}
        self._sizes = sorted({*map(len, strings)}, reverse=True)

    def find(self, data: Bytes, offsets: Offsets) -> tuple[Offsets, Offsets, Offsets, Offsets]:
        """(starts, ends, numbers of strings, numbers of texts)."""
        found: list[tuple[int, int, int, int]] = []
        for number, (offset, text) in enumerate(zip(offsets.tolist(), list_texts(data, offsets), strict=False)):
            start = 0
            while start < len(text):
                parts = (text[start : start + size] for size in self._sizes)
                spelled = next((part for part in parts if part in self._numbers), None)
                end = start + len(spelled or b"x")
                if spelled is not None:
                    found.append((offset + start, offset + end, self._numbers[spelled], number))
                start = end
        starts, ends, strings, texts = np.array(found, np.int64).reshape(-1, 4).T.copy()
        return starts, ends, strings, texts


class IdCounter:
    """As tokcore.kernel.IdCounter: a dictionary."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[int, int, int]] = {}

    def add(self, ids: Ids, offsets: Offsets) -> None:
        if (ids[offsets[0] : offsets[-1]] < 0).any():
            raise ValueError("ids: one is negative")
        for start, end in pairwise(offsets.tolist()):
            for id, number in collections.Counter(ids[start:end].tolist()).items():
                count, documents, most = self._rows.get(id, (0, 0, 0))
                self._rows[id] = (count + number, documents + 1, max(most, number))

    def take(self) -> tuple[Ids, Counts, Counts, Counts]:
        rows, self._rows = sorted(self._rows.items()), {}
        counts, documents, most = (np.array([row[i] for _, row in rows], np.uint64) for i in range(3))
        return np.array([id for id, _ in rows], np.int32), counts, documents, most


class MuHash:
    """As tokcore.kernel.MuHash: Python's integers."""

    PRIME = 2**3072 - 1103717

    def __init__(self, value: bytes) -> None:
        self._numerator, self._denominator = self._read(value), 1

    def add(self, keys: Bytes) -> None:
        for number in self._expand(keys):
            self._numerator = self._numerator * number % self.PRIME

    def subtract(self, keys: Bytes) -> None:
        for number in self._expand(keys):
            self._denominator = self._denominator * number % self.PRIME

    def add_value(self, value: bytes) -> None:
        self._numerator = self._numerator * self._read(value) % self.PRIME

    def subtract_value(self, value: bytes) -> None:
        self._denominator = self._denominator * self._read(value) % self.PRIME

    def value(self) -> bytes:
        return (self._numerator * pow(self._denominator, self.PRIME - 2, self.PRIME) % self.PRIME).to_bytes(
            384, "little"
        )

    @staticmethod
    def _read(value: bytes) -> int:
        if len(value) != 384:
            raise ValueError(f"value: {len(value)} bytes, expected 384")
        return int.from_bytes(value, "little")

    @staticmethod
    def _expand(keys: Bytes) -> list[int]:
        """The number of each member: the first six blocks of ChaCha20 under its key."""
        if len(keys) % 32:
            raise ValueError(f"keys: {len(keys)} bytes, expected 32 of each")
        rows = keys.reshape(-1, 32)
        return [int.from_bytes(b"".join(chacha20_block(row.tobytes(), i) for i in range(6)), "little") for row in rows]


def highway_hash(key: Counts, data: Bytes, offsets: Offsets) -> Counts:
    """As tokcore.kernel.highway_hash."""
    ranges = _list_ranges("offsets", offsets, len(data))
    return np.array([highway_hash_bytes(key.tolist(), data[start:end].tobytes()) for start, end in ranges], np.uint64)


def _list_ranges(name: str, offsets: Offsets, limit: int) -> list[tuple[int, int]]:
    if not len(offsets) or offsets[0] < 0 or offsets[-1] > limit or (np.diff(offsets) < 0).any():
        raise ValueError(f"{name}: expected ascending positions up to {limit}")
    return list(pairwise(offsets.tolist()))


class IdParts:
    """As tokcore.kernel.IdParts."""

    def __init__(self, sources: Sequence[npt.NDArray[Any]], which: Offsets, starts: Offsets, ends: Offsets) -> None:
        if any(source.dtype not in (np.uint16, np.uint32, np.int32) for source in sources):
            raise ValueError("sources: expected arrays of uint16, uint32 or int32")
        self._parts = []
        for number, start, end in zip(which.tolist(), starts.tolist(), ends.tolist(), strict=True):
            if not (0 <= number < len(sources) and 0 <= start <= end <= len(sources[number])):
                raise ValueError(f"part {start} to {end} of source {number}: it is not within it")
            self._parts.append(sources[number][start:end])

    def copy(self, first: int, last: int, ids: Ids) -> None:
        found = [id for part in self._parts[first:last] for id in part.tolist()]
        if not 0 <= first <= last <= len(self._parts) or len(found) != len(ids):
            raise ValueError(f"parts {first} to {last}: {len(found)} ids, room for {len(ids)}")
        ids[:] = found


class IdReplacer:
    """As tokcore.kernel.IdReplacer."""

    def __init__(self, ids: Ids, offsets: Offsets) -> None:
        self._lists = [ids[start:end].tolist() for start, end in _list_ranges("offsets", offsets, len(ids))]

    def replace(self, ids: Ids, offsets: Offsets) -> tuple[Ids, Offsets]:
        found, bounds = [], [0]
        for start, end in _list_ranges("offsets", offsets, len(ids)):
            for id in ids[start:end].tolist():
                if not 0 <= id < len(self._lists) or not self._lists[id]:
                    raise ValueError(f"ids: {id}: there is no such id")
                found += self._lists[id]
            bounds.append(len(found))
        return np.array(found, np.int32), np.array(bounds, np.int64)


def pack_varints(values: Ids, offsets: Offsets) -> tuple[Bytes, Offsets]:
    """As tokcore.kernel.pack_varints."""
    data, bounds = bytearray(), [0]
    for start, end in _list_ranges("offsets", offsets, len(values)):
        for value in values[start:end].tolist():
            if value < 0:
                raise ValueError("a negative integer")
            while value >= 0x80:
                data.append(value & 0x7F | 0x80)
                value >>= 7
            data.append(value)
        bounds.append(len(data))
    return np.frombuffer(data, np.uint8), np.array(bounds, np.int64)


def unpack_varints(data: Bytes, bounds: Offsets) -> tuple[Offsets, Offsets]:
    """As tokcore.kernel.unpack_varints."""
    values: list[int] = []
    counts = []
    for start, end in _list_ranges("bounds", bounds, len(data)):
        before = len(values)
        if start < end and data[end - 1] >= 0x80:
            raise ValueError("a part ends within an integer")
        value = width = 0
        for byte in data[start:end].tolist():
            value |= (byte & 0x7F) << (7 * width)
            width += 1
            if width == 9 and byte >= 0x80:
                raise ValueError("an integer of more than 9 bytes")
            if byte < 0x80:
                values.append(value)
                value = width = 0
        counts.append(len(values) - before)
    return np.array(values, np.int64), np.array(counts, np.int64)


_HIGHWAY_FIRST = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3)
_HIGHWAY_SECOND = (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)
_HIGHWAY_ZIPPED = (3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7)


def highway_hash_bytes(key: Sequence[int], data: bytes) -> int:
    """HighwayHash64 of some bytes. key: four integers of 64 bits."""
    low, all_bits = 2**32 - 1, 2**64 - 1
    mul0, mul1 = list(_HIGHWAY_FIRST), list(_HIGHWAY_SECOND)
    v0 = [a ^ b for a, b in zip(mul0, key, strict=True)]
    v1 = [a ^ (b >> 32 | (b & low) << 32) for a, b in zip(mul1, key, strict=True)]

    def add_zipped(source: list[int], target: list[int]) -> None:
        for i in (0, 2):
            pair = struct.pack("<2Q", *source[i : i + 2])
            zipped = struct.unpack("<2Q", bytes(pair[place] for place in _HIGHWAY_ZIPPED))
            target[i : i + 2] = [(a + b) & all_bits for a, b in zip(target[i : i + 2], zipped, strict=True)]

    def take(lanes: Sequence[int]) -> None:
        for i in range(4):
            v1[i] = (v1[i] + mul0[i] + lanes[i]) & all_bits
            mul0[i] ^= (v1[i] & low) * (v0[i] >> 32)
            v0[i] = (v0[i] + mul1[i]) & all_bits
            mul1[i] ^= (v0[i] & low) * (v1[i] >> 32)
        add_zipped(v1, v0)
        add_zipped(v0, v1)

    whole = len(data) // 32 * 32
    for lanes in struct.iter_unpack("<4Q", data[:whole]):
        take(lanes)
    if rest := data[whole:]:
        num = len(rest)
        v0[:] = [(value + (num << 32 | num)) & all_bits for value in v0]
        halves = [(half << num | half >> (32 - num)) & low for half in struct.unpack("<8I", struct.pack("<4Q", *v1))]
        v1[:] = struct.unpack("<4Q", struct.pack("<8I", *halves))
        words, odd = rest[: num // 4 * 4], rest[num // 4 * 4 :]
        packet = bytearray(words.ljust(32, b"\0"))
        if num & 16:
            packet[28:] = rest[-4:]
        elif odd:
            packet[16:19] = odd[0], odd[len(odd) // 2], odd[-1]
        take(struct.unpack("<4Q", packet))
    for _ in range(4):
        take([v0[i] >> 32 | (v0[i] & low) << 32 for i in (2, 3, 0, 1)])
    return (v0[0] + v1[0] + mul0[0] + mul1[0]) & all_bits


def chacha20_block(key: bytes, number: int) -> bytes:
    """64 bytes of the keystream of ChaCha20 (RFC 8439) with a nonce of zeros.

    >>> chacha20_block(bytes(32), 0)[:8].hex()
    '76b8e0ada0f13d90'
    """
    start = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), number, 0, 0, 0]
    x = list(start)

    def step(a: int, b: int, d: int, distance: int) -> None:
        x[a] = (x[a] + x[b]) % 2**32
        mixed = x[d] ^ x[a]
        x[d] = (mixed << distance | mixed >> (32 - distance)) % 2**32

    columns = [(i, i + 4, i + 8, i + 12) for i in range(4)]
    diagonals = [(i, (i + 1) % 4 + 4, (i + 2) % 4 + 8, (i + 3) % 4 + 12) for i in range(4)]
    for a, b, c, d in (columns + diagonals) * 10:
        step(a, b, d, 16)
        step(c, d, b, 12)
        step(a, b, d, 8)
        step(c, d, b, 7)
    return struct.pack("<16I", *((one + other) % 2**32 for one, other in zip(x, start, strict=True)))


def rank_merges(data: Bytes, offsets: Offsets) -> tuple[Ids, Ids, Ids]:
    """As tokcore.kernel.rank_merges: tries every cut of every token."""
    number_of = {token: i for i, token in enumerate(list_texts(data, offsets))}
    rows = [
        (number_of[token[:cut]], number_of[token[cut:]], i)
        for token, i in number_of.items()
        for cut in range(1, len(token))
        if token[:cut] in number_of and token[cut:] in number_of
    ]
    left, right, result = np.array(rows, np.int32).reshape(-1, 3).T.copy()
    return left, right, result


def rank_parts(data: Bytes, offsets: Offsets) -> tuple[Ids, Ids, Ids]:
    """As tokcore.kernel.rank_parts: merges the bytes of each token by lower ranks only."""
    number_of = {token: i for i, token in enumerate(list_texts(data, offsets))}
    rows = []
    for token, rank in number_of.items():
        parts = [token[i : i + 1] for i in range(len(token))]
        while len(parts) > 2:
            ranks = [number_of.get(a + b, rank) for a, b in pairwise(parts)]
            if min(ranks) >= rank:
                break
            i = ranks.index(min(ranks))
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        if len(token) > 1:
            left, right = (number_of.get(part, -1) for part in parts) if len(parts) == 2 else (-1, -1)
            rows.append((left, right, rank))
    left_parts, right_parts, made = np.array(rows, np.int32).reshape(-1, 3).T.copy()
    return left_parts, right_parts, made


def skip_json(data: bytes, begin: int) -> int:
    """As tokcore.kernel.skip_json: by Python's parser."""
    try:
        text = data[begin:].decode()
        return begin + len(text[: json.JSONDecoder().raw_decode(text)[1]].encode())
    except ValueError:
        return 0


def read_named_bpe(
    data: bytes, vocabulary_at: int, merges_at: int, left_out: Sequence[str]
) -> tuple[tuple[bytes, ...], Ids, Ids] | None:
    """As tokcore.kernel.read_named_bpe: takes no file, so that the caller's slower reader, the oracle, reads all."""
    return None


def read_id_pairs(data: bytes, begin: int) -> tuple[Ids, int] | None:
    """As tokcore.kernel.read_id_pairs: takes none, likewise."""
    return None


def read_base64_tokens(data: bytes, begin: int) -> tuple[tuple[bytes, ...], Ids, int] | None:
    """As tokcore.kernel.read_base64_tokens: takes none, likewise."""
    return None


def write_id_pairs(ids: Ids) -> bytes:
    """As tokcore.kernel.write_id_pairs."""
    return json.dumps(ids.reshape(-1, 2).tolist(), separators=(",", ":")).encode()


def write_base64_tokens(data: Bytes, offsets: Offsets, ids: Ids) -> bytes:
    """As tokcore.kernel.write_base64_tokens."""
    rows = zip(list_texts(data, offsets), ids.tolist(), strict=True)
    pairs = [[base64.b64encode(token).decode(), id] for token, id in rows]
    return json.dumps(pairs, separators=(",", ":")).encode()


def join_merges(byte_order: bytes, merges: Ids, max_token: int, max_all: int) -> tuple[bytes, ...] | None:
    """As tokcore.kernel.join_merges: one after the other, as few merges can ask for more bytes than there are."""
    tokens = [bytes([byte]) for byte in byte_order]
    total = len(tokens)
    for left, right in merges.reshape(-1, 2).tolist():
        if not (0 <= left < len(tokens) and 0 <= right < len(tokens)):
            return None
        tokens.append(tokens[left] + tokens[right])
        total += len(tokens[-1])
        if len(tokens[-1]) > max_token or total > max_all:
            return None
    return tuple(tokens)


def join_pairs(data: Bytes, offsets: Offsets, ids: Ids, pairs: Ids) -> Ids:
    """As tokcore.kernel.join_pairs."""
    token_of = dict(zip(ids.tolist(), list_texts(data, offsets), strict=True))
    id_of = {token: id for id, token in token_of.items()}
    return np.array(
        [
            id_of.get(token_of[left] + token_of[right], -1) if left in token_of and right in token_of else -1
            for left, right in pairs.reshape(-1, 2).tolist()
        ],
        np.int32,
    )


class JsonLines:
    """As tokcore.kernel.JsonLines: refuses every line, so that the caller's slower reader, the oracle, reads all."""

    def __init__(self, *settings: object) -> None:
        pass

    def know_lang(self, lang: str) -> int:
        return 0

    def read(self, data: Bytes, start: int, end: int, max_bytes: int, max_documents: int) -> tuple[Any, ...]:
        line_end = start + data[start:end].tobytes().find(b"\n")
        none, zero = np.zeros(0, np.uint8), np.zeros(1, np.int64)
        columns = none, zero, none, zero, none.view(np.int32), none
        return start, start < end, line_end if line_end >= start else end, *columns
