"""What the kernel does, said as plainly as Python can: slow, obvious, and the oracle of the tests.

Every class and function has a twin of the same name and signature in tokcore.kernel.
"""

from __future__ import annotations

import collections
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import regex

from tokcore.byte_alphabet import ID_OF_BYTE
from tokcore.mask_presets import MASK_PRESETS
from tokcore.patterns import PATTERNS
from tokcore.pretoken_rows import CountRows, rows_from_tuples, tuples_from_rows
from tokcore.texts import Bytes, Offsets, Texts
from tokcore.unicode import expand

Ids = npt.NDArray[np.int32]


def split(pattern: str, texts: Texts) -> tuple[Offsets, Offsets]:
    """tokcore.kernel.split: the matches of the pattern's published text, with classes of the pinned tables."""
    matcher = regex.compile(expand(PATTERNS[pattern]))
    ends: list[int] = []
    firsts = [0]
    for i in range(texts.num_texts):
        position = int(texts.offsets[i])
        for match in matcher.finditer(texts.text(i).decode("utf-8", "surrogateescape")):
            position += len(match.group().encode("utf-8", "surrogateescape"))
            ends.append(position)
        firsts.append(len(ends))
    return np.array(ends, np.int64), np.array(firsts, np.int64)


class Encoder:
    """tokcore.kernel.Encoder, by the definition of BPE encoding. No cache: cache_bytes and threads are ignored."""

    def __init__(
        self,
        pattern: str | None,
        tokens: Texts,
        token_ids: npt.NDArray[np.int32],
        left: npt.NDArray[np.int32],
        right: npt.NDArray[np.int32],
        result: npt.NDArray[np.int32],
        priority: npt.NDArray[np.uint32],
        whole: bool,
        cache_bytes: int,
    ) -> None:
        self._pattern = pattern
        self._ids = {tokens.text(i): int(id) for i, id in enumerate(token_ids)}
        self._merges = dict(
            zip(
                zip(left.tolist(), right.tolist(), strict=True),
                zip(priority.tolist(), result.tolist(), strict=True),
                strict=True,
            )
        )
        self._whole = whole

    def encode_piece(self, piece: bytes) -> list[int]:
        """The ids of one pre-token: merge the pair of lowest priority number, leftmost first, until none is left."""
        if self._whole and piece in self._ids:
            return [self._ids[piece]]
        ids = [self._ids[bytes([byte])] for byte in piece]
        while True:
            candidates = [(*self._merges[pair], i) for i, pair in enumerate(pairwise(ids)) if pair in self._merges]
            if not candidates:
                return ids
            _, merged, i = min(candidates, key=lambda candidate: (candidate[0], candidate[2]))
            ids[i : i + 2] = [merged]

    def encode(self, texts: Texts, threads: int = 1) -> tuple[npt.NDArray[np.int32], Offsets, Offsets]:
        if self._pattern is None:
            raise ValueError("this encoder has no pattern: split the texts and use encode_pieces")
        return self.encode_pieces(texts, *split(self._pattern, texts), threads)

    def encode_pieces(
        self, texts: Texts, ends: Offsets, firsts: Offsets, threads: int = 1
    ) -> tuple[npt.NDArray[np.int32], Offsets, Offsets]:
        ids: list[int] = []
        offsets = [0]
        for i in range(texts.num_texts):
            begin = texts.offsets[i]
            for end in ends[firsts[i] : firsts[i + 1]]:
                ids += self.encode_piece(texts.data[begin:end].tobytes())
                begin = end
            offsets.append(len(ids))
        return np.array(ids, np.int32), np.array(offsets, np.int64), np.diff(firsts)


class Counter:
    """tokcore.kernel.Counter: two dictionaries."""

    def __init__(self, pattern: str, max_pretoken_bytes: int) -> None:
        check_max_pretoken_bytes(max_pretoken_bytes)
        self._pattern = pattern
        self._limit = max_pretoken_bytes
        self._counts: collections.Counter[bytes] = collections.Counter()
        self._documents: collections.Counter[bytes] = collections.Counter()

    def add(self, texts: Texts) -> None:
        self.add_pieces(texts, *split(self._pattern, texts))

    def add_pieces(self, texts: Texts, ends: Offsets, firsts: Offsets) -> None:
        for i in range(texts.num_texts):
            start = texts.offsets[i]
            words: list[bytes] = []
            for end in ends[firsts[i] : firsts[i + 1]]:
                words += cut_pretoken(texts.data[start:end].tobytes(), self._limit)
                start = end
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

    def take(self) -> CountRows:
        rows = rows_from_tuples([(word, self._counts[word], self._documents[word]) for word in sorted(self._counts)])
        self._counts.clear()
        self._documents.clear()
        return rows

    @staticmethod
    def take_all(counters: Sequence[Counter], threads: int) -> list[CountRows]:
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


class IdCounter:
    """tokcore.kernel.IdCounter: a dictionary."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[int, int, int]] = {}

    def add(self, ids: npt.NDArray[np.int32], offsets: Offsets) -> None:
        if (ids[offsets[0] : offsets[-1]] < 0).any():
            raise ValueError("ids: one is negative")
        for start, end in pairwise(offsets.tolist()):
            for id, number in collections.Counter(ids[start:end].tolist()).items():
                count, documents, most = self._rows.get(id, (0, 0, 0))
                self._rows[id] = (count + number, documents + 1, max(most, number))

    def take(self) -> tuple[npt.NDArray[np.int32], *tuple[npt.NDArray[np.uint64], ...]]:
        rows, self._rows = sorted(self._rows.items()), {}
        columns = [np.array([row[i] for _, row in rows], np.uint64) for i in range(3)]
        return np.array([id for id, _ in rows], np.int32), *columns


def check_max_pretoken_bytes(limit: int) -> None:
    """Raise ValueError for a limit into which not every character fits."""
    if limit < 0 or 0 < limit < 4:
        raise ValueError(f"max_pretoken_bytes = {limit}: must be 0 (never cut) or at least 4, the longest character")


def cut_pretoken(word: bytes, limit: int) -> list[bytes]:
    """The parts of a pre-token: each as long as it can be without passing limit bytes or dividing a character.

    A byte that belongs to no well-formed UTF-8 sequence is a character of its own; a limit of 0 never cuts.

    >>> cut_pretoken("aéaéa".encode(), 5)
    [b'a\\xc3\\xa9a', b'\\xc3\\xa9a']
    """
    parts = [b""]
    for character in word.decode("utf-8", "surrogateescape"):
        encoded = character.encode("utf-8", "surrogateescape")
        if limit and len(parts[-1]) + len(encoded) > limit:
            parts.append(b"")
        parts[-1] += encoded
    return [part for part in parts if part]


class RowMerger:
    """tokcore.kernel.RowMerger: look at the first row of each run, take the smallest key, add up its equals."""

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

    def feed(self, run: int, rows: CountRows) -> None:
        if run not in self.hungry:
            raise ValueError(f"run {run} is not hungry")
        self._runs[run] = tuples_from_rows(rows)

    def finish(self, run: int) -> None:
        self._finished[run] = True

    def merge(self, max_rows: int) -> CountRows | None:
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
                raise ValueError(f"a run is not sorted: {key[:40]!r} comes behind {self._last[:40]!r}")
            self._last = key
            if max(count, documents) >= 2**64:
                raise OverflowError(f"the count of {key[:40]!r} passes 2**64 - 1")
            merged.append((key, count, documents))
        if not merged and not any(self._runs) and all(self._finished):
            return None
        return rows_from_tuples(merged)


def learn(
    rows: Texts,
    counts: npt.NDArray[np.uint64],
    num_merges: int,
    min_count: int,
    max_token_bytes: int = 0,
    threads: int = 1,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.uint64]]:
    """tokcore.kernel.learn, by the definition: count all pairs anew, merge the best one, repeat."""
    words = [[ID_OF_BYTE[byte] for byte in rows.text(i)] for i in range(rows.num_texts)]
    weights = [int(count) for count in counts]
    if sum(weight * max(len(word) - 1, 0) for word, weight in zip(words, weights, strict=True)) >= 2**63:
        raise OverflowError("the pairs of the table are more than 2**63 - 1")
    lengths = [1] * 256
    merges: list[tuple[int, int, int]] = []
    while len(merges) < num_merges:
        pairs: collections.Counter[tuple[int, int]] = collections.Counter()
        for word, weight in zip(words, weights, strict=True):
            for pair in pairwise(word):
                pairs[pair] += weight
        candidates = [
            (-count, pair)
            for pair, count in pairs.items()
            if count >= max(1, min_count)
            and (not max_token_bytes or lengths[pair[0]] + lengths[pair[1]] <= max_token_bytes)
        ]
        if not candidates:
            break
        count, (left, right) = min(candidates)
        merges.append((left, right, -count))
        lengths.append(lengths[left] + lengths[right])
        words = [_merged(word, (left, right), len(lengths) - 1) for word in words]
    columns = list(zip(*merges, strict=True)) or [(), (), ()]
    return np.array(columns[0], np.int32), np.array(columns[1], np.int32), np.array(columns[2], np.uint64)


def _merged(word: list[int], pair: tuple[int, int], merged: int) -> list[int]:
    """The word with every non-overlapping occurrence of pair replaced, from left to right."""
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


def find_masked(presets: Sequence[str], texts: Texts) -> tuple[Offsets, Offsets, npt.NDArray[np.uint8], Offsets]:
    """tokcore.kernel.find_masked: the matches of the presets' regular expressions with the right check digits."""
    spans: list[tuple[int, int, int]] = []
    firsts = [0]
    for i in range(texts.num_texts):
        start = int(texts.offsets[i])
        found = [
            (start + match.start(), number, start + match.end())
            for number, (name, preset) in enumerate(MASK_PRESETS.items())
            if name in presets
            for match in preset.pattern.finditer(texts.text(i))
            if preset.valid is None or preset.valid(match.group())
        ]
        spans += sorted(found)
        firsts.append(len(spans))
    starts, numbers, ends = zip(*spans, strict=True) if spans else ((), (), ())
    return np.array(starts, np.int64), np.array(ends, np.int64), np.array(numbers, np.uint8), np.array(firsts, np.int64)


def hash_bytes(key: bytes) -> int:
    """The 64-bit hash of kernel/memory/hash.h, by its definition there."""
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


class JsonLines:
    """tokcore.kernel.JsonLines: refuses every line, so that its caller's own reader, the oracle, reads them all."""

    def __init__(self, *settings: object) -> None:
        pass

    def know_lang(self, lang: str) -> int:
        return 0

    def read(self, data: Bytes, start: int, end: int, max_bytes: int, max_documents: int) -> tuple[Any, ...]:
        line_end = start + data[start:end].tobytes().find(b"\n")
        none, zero = np.zeros(0, np.uint8), np.zeros(1, np.int64)
        return start, start < end, line_end if line_end >= start else end, none, zero, none, zero, none.view(np.int32)


def rank_merges(tokens: Texts) -> tuple[Ids, Ids, Ids]:
    """tokcore.kernel.rank_merges: every cut of every token."""
    number_of = {tokens.text(i): i for i in range(tokens.num_texts)}
    rows = [
        (number_of[token[:cut]], number_of[token[cut:]], i)
        for token, i in number_of.items()
        for cut in range(1, len(token))
        if token[:cut] in number_of and token[cut:] in number_of
    ]
    left, right, result = np.array(rows, np.int32).reshape(-1, 3).T.copy()
    return left, right, result


def rank_parts(tokens: Texts) -> tuple[Ids, Ids, Ids]:
    """tokcore.kernel.rank_parts: merge the bytes of each token, by lower ranks only."""
    number_of = {tokens.text(i): i for i in range(tokens.num_texts)}
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


def partition_of(keys: Texts, num_partitions: int) -> npt.NDArray[np.int64]:
    """tokcore.kernel.partition_of: the top bits of each key's hash."""
    hashes = (hash_bytes(keys.text(i)) for i in range(keys.num_texts))
    return np.array([value * num_partitions >> 64 for value in hashes], np.int64)


def pack_rows(rows: CountRows) -> bytes:
    """tokcore.kernel.pack_rows: of each row, u32 key length, key, u64 count, u64 documents; little-endian."""
    return b"".join(
        struct.pack("<I", len(key)) + key + struct.pack("<QQ", count, documents)
        for key, count, documents in tuples_from_rows(rows)
    )
