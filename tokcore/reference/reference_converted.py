"""A tokenizer.json made from a SentencePiece model, in plain Python: slow, obvious, and the oracle of the tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import regex

from tokcore.reference.arrays import Ids, list_texts
from tokcore.reference.reference import NormalizingEncoder, PretokenEncoder
from tokcore.reference.reference_sentencepiece import count_character_bytes, find_rule, split_characters
from tokcore.text.text_steps import STEP_KINDS
from tokcore.text.texts import Bytes, Offsets

SPACE = "\u2581"
_WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_MAX_GRAPHEME_BYTES = 5


def list_replacements(charsmap: bytes, text: str) -> list[tuple[str, str]]:
    """The parts of the text and what each becomes, by the shortest rule: a grapheme of up to five bytes as one, or else
    its characters one by one.
    """

    def replace(part: str) -> str | None:
        data = part.encode().partition(b"\0")[0]
        found = (find_rule(charsmap, data[:size]) for size in range(1, len(data) + 1))
        return next((by.decode() for size, by in found if size), None)

    out: list[tuple[str, str]] = []
    for grapheme in regex.findall(r"\X", text):
        whole = replace(grapheme) if len(grapheme.encode()) <= _MAX_GRAPHEME_BYTES else None
        if whole is not None:
            out.append((grapheme, whole))
        else:
            out += [(c, c if (by := replace(c)) is None else by) for c in grapheme]
    return out


def apply_charsmap(charsmap: bytes, text: str) -> str:
    """The text after its replacements."""
    return "".join(by for _, by in list_replacements(charsmap, text))


def follow_charsmap(charsmap: bytes, text: str, stands_for: list[int]) -> list[int]:
    """Of each character after the replacements, which one of the raw text it stands for, as tokenizers aligns them.

    stands_for: the same of the text. Where there are more new characters than old ones, the last ones stand for the
    last old one; where there are fewer, the last one before takes the rest. At the start of a text there is none.
    """
    changes: list[int] = []  # of each new character: 1 if it is added; else 0, less the old ones that it takes
    for old, new in list_replacements(charsmap, text):
        more = len(new) - len(old)
        changes += [0] * (len(new) - max(more, 0)) + [1] * max(more, 0)
        if more < 0 and changes:
            changes[-1] += more
    found, place = [], 0
    for change in changes:
        found.append(stands_for[max(place - 1, 0)] if change > 0 else stands_for[place])
        place += 1 - change if change <= 0 else 0
    return found


def follow_step(kind: str, pattern: str, by: bytes, text: str, stands_for: list[int]) -> list[int]:
    """Of each character after one step, which one of the raw text it stands for. stands_for: the same of the text."""
    if kind == "prepend":
        return stands_for[:1] * len(by.decode()) + stands_for
    if kind in ("replace", "replace-spans"):
        found = []
        for part in re.finditer(f"{re.escape(pattern) if kind == 'replace' else ' {2,}'}|(.)", text, re.DOTALL):
            found += [stands_for[part.end() - 1]] * (1 if part[1] else len(by.decode()))
        return found
    if kind == "strip-left":
        return stands_for[len(text) - len(apply_step(kind, "", b"", text)) :]
    if kind == "strip-right":
        return stands_for[: len(apply_step(kind, "", b"", text))]
    return follow_charsmap(by, text, stands_for) if kind == "charsmap" else stands_for


def apply_step(kind: str, pattern: str, by: bytes, text: str) -> str:
    """The text after one step; the steps are those of tokcore.text.text_steps.TextStep."""
    if kind == "prepend":
        return by.decode() + text if text else ""
    if kind == "replace":
        return text.replace(pattern, by.decode())
    if kind == "replace-spans":
        return re.sub(" {2,}", lambda match: by.decode(), text)
    if kind == "strip-left":
        return re.sub(rf"\A[{_WHITE}]+", "", text)
    if kind == "strip-right":
        return re.sub(rf"[{_WHITE}]+\Z", "", text)
    if kind == "charsmap":
        return apply_charsmap(by, text)
    if kind == "ascii-words":
        return "".join(SPACE + word for word in re.split(f"[\t-\r {SPACE}]+", text) if word)
    words = [word for word in re.split(rf"[{_WHITE}]+", text) if word] if kind == "words" else [text] * bool(text)
    marked = [word.replace(" ", SPACE) for word in words]
    return "".join(word if kind == "metaspace" or word.startswith(SPACE) else SPACE + word for word in marked)


def encode_unigram(word: bytes, scores: dict[bytes, float]) -> list[bytes]:
    """The pieces of the highest sum of scores, in float64. A character that is no piece stands alone.

    >>> encode_unigram(b"newer", {b"n": -4, b"e": -3, b"w": -4, b"r": -3.5, b"ne": -3, b"new": -1.5, b"er": -1.5})
    [b'new', b'er']
    """
    unknown = min(scores.values(), default=0.0) - 10
    best: list[tuple[float, int] | None] = [(0.0, 0), *[None] * len(word)]
    start = 0
    while start < len(word):
        here = best[start]
        width = count_character_bytes(word[start:])
        ends = [end for end in range(start + 1, len(word) + 1) if word[start:end] in scores]
        for end in ends if start + width in ends else [*ends, start + width]:
            assert here is not None
            total = scores.get(word[start:end], unknown) + here[0]
            known = best[end]
            if known is None or total > known[0]:
                best[end] = (total, start)
        start += width
    parts = []
    end = len(word)
    while end:
        found = best[end]
        assert found is not None
        parts.append(word[found[1] : end])
        end = found[1]
    return parts[::-1]


def encode_bpe(word: bytes, ranks: dict[tuple[bytes, bytes], int]) -> list[bytes]:
    """The parts after all merges, the lowest rank first, the leftmost of several.

    >>> encode_bpe(b"abab", {(b"b", b"a"): 0, (b"a", b"b"): 1})
    [b'a', b'ba', b'b']
    """
    parts = split_characters(word)
    while pairs := [(ranks[pair], i) for i, pair in enumerate(pairwise(parts)) if pair in ranks]:
        _, i = min(pairs)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts


class ConvertedEncoder(NormalizingEncoder):
    """As tokcore.kernel.ConvertedEncoder. steps: of each its place in STEP_KINDS, a pattern, and what that becomes."""

    def __init__(
        self,
        is_unigram: bool,
        data: Bytes,
        offsets: Offsets,
        ids: Ids,
        scores: npt.NDArray[np.float64],
        unknown_id: int,
        byte_ids: Ids,
        left: npt.NDArray[np.uint32],
        right: npt.NDArray[np.uint32],
        result: npt.NDArray[np.uint32],
        steps: Sequence[tuple[int, bytes, bytes]],
        splits_every_space: bool,
    ) -> None:
        texts = list_texts(data, offsets)
        self._ids = dict(zip(texts, ids.tolist(), strict=True))
        self._scores = dict(zip(texts, scores.tolist(), strict=True)) if is_unigram else None
        pairs = zip(left.tolist(), right.tolist(), strict=True)
        self._ranks = {(texts[one], texts[other]): rank for rank, (one, other) in enumerate(pairs)}
        self._unknown, self._byte_ids = unknown_id, byte_ids.tolist()
        self._steps = [(STEP_KINDS[kind], pattern.decode(), by) for kind, pattern, by in steps]
        self._splits = splits_every_space

    def normalize_text(self, text: bytes) -> bytes:
        by_kind = "" if any(kind == "ascii-words" for kind, _, _ in self._steps) else "\ufffd"
        characters = text.decode(errors="surrogateescape")
        now = "".join(by_kind if "\udc80" <= c <= "\udcff" else c for c in characters)
        stands_for = [*range(len(now))]
        for kind, pattern, by in self._steps:
            if kind == "metaspace-start":
                kind = "metaspace" if stands_for[:1] != [0] else "metaspace-first"
            stands_for = follow_step(kind, pattern, by, now, stands_for)
            now = apply_step(kind, pattern, by, now)
        return now.encode()

    def encode_piece(self, piece: bytes) -> list[int]:
        space = SPACE.encode()
        first, *rest = piece.split(space) if self._splits else [piece]
        ids = []
        for word in [first, *(space + part for part in rest)]:
            was_unknown = False
            for part in encode_bpe(word, self._ranks) if self._scores is None else encode_unigram(word, self._scores):
                if part in self._ids:
                    ids.append(self._ids[part])
                elif self._byte_ids:
                    ids += [self._byte_ids[byte] for byte in part]
                elif not was_unknown:
                    ids.append(self._unknown)
                was_unknown = part not in self._ids
        return ids


class ByteUnigramEncoder(PretokenEncoder):
    """As tokcore.kernel.ByteUnigramEncoder."""

    def __init__(
        self, pattern: str, data: Bytes, offsets: Offsets, token_ids: Ids, scores: npt.NDArray[np.float64]
    ) -> None:
        super().__init__(pattern)
        # As text in which each byte is a character of ASCII or of two bytes: so no byte is part of a character.
        texts = [token.decode("latin-1").encode() for token in list_texts(data, offsets)]
        self._ids = dict(zip(texts, token_ids.tolist(), strict=True))
        self._scores = dict(zip(texts, scores.tolist(), strict=True))

    def encode_piece(self, piece: bytes) -> list[int]:
        return [self._ids[part] for part in encode_unigram(piece.decode("latin-1").encode(), self._scores)]


class SymbolBpeEncoder(PretokenEncoder):
    """As tokcore.kernel.SymbolBpeEncoder."""

    def __init__(
        self,
        pattern: str,
        data: Bytes,
        offsets: Offsets,
        token_ids: Ids,
        characters: npt.NDArray[np.uint32],
        places: Bytes,
        symbols: npt.NDArray[np.uint32],
        bytewise: bool,
        byte_symbols: Ids,
        unknown: int,
        fuses_unknown: bool,
        left: npt.NDArray[np.uint32],
        right: npt.NDArray[np.uint32],
        result: npt.NDArray[np.uint32],
        whole_symbols: npt.NDArray[np.uint32],
    ) -> None:
        super().__init__(pattern)
        keys = zip(characters.tolist(), places.tolist(), strict=True)
        self._characters = dict(zip(keys, symbols.tolist(), strict=True))
        pairs = zip(left.tolist(), right.tolist(), strict=True)
        self._merges = {pair: (i, merged) for i, (pair, merged) in enumerate(zip(pairs, result.tolist(), strict=True))}
        self._whole = dict(zip(list_texts(data, offsets), whole_symbols.tolist(), strict=True))
        self._ids, self._byte_symbols = token_ids.tolist(), byte_symbols.tolist()
        self._bytewise, self._unknown, self._fuses_unknown = bytewise, unknown, fuses_unknown

    def encode_piece(self, piece: bytes) -> list[int]:
        symbols = [self._whole[piece]] if piece in self._whole else self._merge(self._split(piece))
        return [self._ids[symbol] for symbol in symbols]

    def _split(self, piece: bytes) -> list[int]:
        characters = [*piece] if self._bytewise else [ord(c) for c in piece.decode("utf-8", "surrogateescape")]
        found: list[int] = []
        waiting: list[int] = []  # an unknown symbol that is not written yet
        for i, c in enumerate(characters):
            is_first, is_last = i == 0, i + 1 == len(characters)
            place = (0 if is_last else 1) if is_first else (3 if is_last else 2)
            symbol = self._characters.get((c, place))
            data = bytes([c]) if self._bytewise else chr(c).encode("utf-8", "surrogateescape")
            spelled = [self._byte_symbols[byte] for byte in data] if self._byte_symbols else [-1]
            if symbol is not None:
                found += [*waiting, symbol]
                waiting = []
            elif min(spelled) >= 0:
                found += spelled
            elif self._unknown >= 0:
                found += [] if self._fuses_unknown else waiting
                waiting = [self._unknown]
        return [*found, *waiting]

    def _merge(self, symbols: list[int]) -> list[int]:
        while True:
            candidates = [
                (self._merges[pair][0], i) for i, pair in enumerate(pairwise(symbols)) if pair in self._merges
            ]
            if not candidates:
                return symbols
            _, i = min(candidates)
            symbols[i : i + 2] = [self._merges[symbols[i], symbols[i + 1]][1]]
