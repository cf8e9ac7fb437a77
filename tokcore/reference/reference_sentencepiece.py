"""SentencePiece in plain Python: slow, obvious, and the oracle of the tests.

tokcore.reference.reference has the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.reference.arrays import Ids, list_texts
from tokcore.reference.reference import NormalizingEncoder
from tokcore.text.text_steps import PieceRules
from tokcore.text.texts import Bytes, Offsets

SPACE = "\u2581".encode()
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
MAX_RULES, MAX_USER_DEFINED, MAX_DEPTH = 32, 64, 100
MAX_SUM = np.float32(100_000)


def find_rule(charsmap: bytes, text: bytes) -> tuple[int, bytes]:
    """(how many bytes of the start of text are replaced, by what), or (0, b"").

    charsmap: the size of a double array in bytes, its units, and the texts that replace, each ended by a zero.
    """
    if not charsmap:
        return 0, b""
    (size,) = struct.unpack_from("<I", charsmap)
    texts = charsmap[4 + size :]

    def read_unit(at: int) -> int:
        unit: int = struct.unpack_from("<I", charsmap, 4 + 4 * at)[0]
        return unit

    def compute_offset(unit: int) -> int:
        return (unit >> 10) << ((unit & 0x200) >> 6)

    found = (0, b"")
    at, num_rules = compute_offset(read_unit(0)), 0
    for i, byte in enumerate(text):
        at ^= byte
        unit = read_unit(at)
        if unit & 0x8000_00FF != byte or num_rules == MAX_RULES:
            break
        at ^= compute_offset(unit)
        if unit >> 8 & 1:
            num_rules += 1
            start = read_unit(at) & 0x7FFF_FFFF
            found = (i + 1, texts[start : texts.index(b"\0", start)])
    return found


def measure_character(text: bytes) -> int:
    """The bytes of the well-formed character that text begins with; 0 if there is none."""
    for size in range(1, 5):
        try:
            text[:size].decode()
        except UnicodeDecodeError:
            continue
        return size
    return 0


def find_longest(pieces: Mapping[bytes, int], text: bytes, limit: int) -> bytes:
    """The longest piece at the start of text, of the `limit` shortest; b"" if there is none."""
    longest = max(map(len, pieces), default=0)
    found = [text[:size] for size in range(1, min(longest, len(text)) + 1) if text[:size] in pieces]
    return found[:limit][-1] if found else b""


def normalize_text(text: bytes, rules: PieceRules, user_defined: Mapping[bytes, int]) -> bytes:
    """The text as pieces are looked for in it."""
    steps: list[bytes] = []
    while text:
        kept = find_longest(user_defined, text, MAX_USER_DEFINED)
        size, becomes = (len(kept), kept) if kept else find_rule(rules.charsmap, text)
        if not size:
            size = measure_character(text)
            becomes = text[:size]
        if not size:
            size, becomes = 1, "\ufffd".encode()
        steps.append(becomes)
        text = text[size:]
    removes = rules.remove_extra_whitespaces
    while removes and steps and steps[0] == b" ":
        del steps[0]
    if not steps:
        return b""
    space = SPACE if rules.escape_whitespaces else b" "
    parts = [space] if rules.add_dummy_prefix and not rules.whitespace_is_suffix else []
    was_space = removes
    for step in steps:
        left = step.lstrip(b" ") if was_space else step
        if left:
            parts.append(left.replace(b" ", space))
            was_space = removes and left.endswith(b" ")
    joined = b"".join(parts)
    while removes and joined.endswith(space):
        joined = joined.removesuffix(space)
    return joined + (space if rules.add_dummy_prefix and rules.whitespace_is_suffix else b"")


def count_character_bytes(text: bytes) -> int:
    """What the first byte says, or less if the text ends."""
    return min(len(text), (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4)[text[0] >> 4])


class Vocabulary(NamedTuple):
    """Pieces by text."""

    ids: dict[bytes, int]
    scores: dict[bytes, np.float32]
    types: dict[bytes, int]
    user_defined: dict[bytes, int]
    unknown: int
    byte_ids: Sequence[int]  # 256 or none


def encode_bpe(text: bytes, vocabulary: Vocabulary) -> list[tuple[bytes, bool]]:
    """The parts that a normalized text is cut into, and whether each is a piece."""
    symbols: list[tuple[bytes, bool]] = []  # text, and whether it stays as it is
    at = 0
    while at < len(text):
        kept = find_longest(vocabulary.user_defined, text[at:], MAX_USER_DEFINED)
        part = kept or text[at : at + count_character_bytes(text[at:])]
        symbols.append((part, bool(kept)))
        at += len(part)
    parts_of: dict[bytes, tuple[bytes, bytes]] = {}

    def look_at(i: int) -> None:
        if i >= 0 and i + 1 < len(symbols):
            joined = symbols[i][0] + symbols[i + 1][0]
            if is_pair(i) and vocabulary.types[joined] == UNUSED:
                parts_of[joined] = (symbols[i][0], symbols[i + 1][0])

    def is_pair(i: int) -> bool:
        (left, left_stays), (right, right_stays) = symbols[i], symbols[i + 1]
        return left + right in vocabulary.ids and not left_stays and not right_stays

    for i in range(len(symbols)):
        look_at(i)
    while pairs := [i for i in range(len(symbols) - 1) if is_pair(i)]:
        best = max(pairs, key=lambda i: (make_sortable(vocabulary.scores[symbols[i][0] + symbols[i + 1][0]]), -i))
        symbols[best : best + 2] = [(symbols[best][0] + symbols[best + 1][0], False)]
        look_at(best - 1)
        look_at(best)

    def fall_apart(part: bytes, depth: int) -> list[tuple[bytes, bool]]:
        if part not in vocabulary.ids:
            return [(part, False)]
        if vocabulary.types[part] != UNUSED or depth > MAX_DEPTH:
            return [(part, True)]
        if part not in parts_of:
            return [(part, False)]
        left, right = parts_of[part]
        return fall_apart(left, depth + 1) + fall_apart(right, depth + 1)

    return [one for part, _ in symbols for one in fall_apart(part, 0)]


def make_sortable(score: np.float32) -> tuple[float, bool]:
    """A score in the order of scores, in which -0 comes before 0."""
    return float(score), not np.signbit(score)


def encode_unigram(text: bytes, vocabulary: Vocabulary) -> list[tuple[bytes, bool]]:
    """The same by the highest sum of scores, in float32, from left to right."""
    longest = max(map(len, vocabulary.ids), default=0)
    lowest = min(score for piece, score in vocabulary.scores.items() if vocabulary.types[piece] == NORMAL)
    unknown = np.float32(lowest - np.float32(10))
    sums: list[np.float32] = [np.float32(0)] * (len(text) + 1)
    found: list[tuple[int, bool] | None] = [None] * (len(text) + 1)
    start = 0
    while start < len(text):
        if abs(sums[start]) > MAX_SUM:
            offset = sums[start]
            for i in range(start, len(text) + 1):
                if i == start or found[i] is not None:
                    sums[i] = np.float32(sums[i] - offset)
        width = count_character_bytes(text[start:])
        has_character = False
        offers = []
        for size in range(1, min(longest, len(text) - start) + 1):
            piece = text[start : start + size]
            kind = vocabulary.types.get(piece, UNUSED)
            if kind != UNUSED:
                own = np.float32(0.1 * (size - 1)) if kind == USER_DEFINED else vocabulary.scores[piece]
                offers.append((start + size, own, True))
                has_character |= size == width
        if not has_character:
            offers.append((start + width, unknown, False))
        for end, score, is_piece in offers:
            candidate = np.float32(score + sums[start])
            if found[end] is None or candidate > sums[end]:
                sums[end], found[end] = candidate, (start, is_piece)
        start += width
    parts = []
    end = len(text)
    while end > 0:
        step = found[end]
        assert step is not None
        parts.append((text[step[0] : end], step[1]))
        end = step[0]
    return parts[::-1]


class SentencepieceEncoder(NormalizingEncoder):
    """As tokcore.kernel.SentencepieceEncoder."""

    def __init__(
        self,
        is_unigram: bool,
        data: Bytes,
        offsets: Offsets,
        ids: Ids,
        scores: npt.NDArray[np.float64],
        types: Bytes,
        unknown_id: int,
        byte_ids: Ids,
        charsmap: Bytes,
        *rules: bool,
    ) -> None:
        texts = list_texts(data, offsets)
        kinds = dict(zip(texts, types.tolist(), strict=True))
        numbers = dict(zip(texts, ids.tolist(), strict=True))
        user_defined = {piece: id for piece, id in numbers.items() if kinds[piece] == USER_DEFINED}
        by_text = dict(zip(texts, scores.astype(np.float32), strict=True))
        self._vocabulary = Vocabulary(numbers, by_text, kinds, user_defined, unknown_id, byte_ids.tolist())
        self._cut = encode_unigram if is_unigram else encode_bpe
        self._rules = PieceRules(charsmap.tobytes(), *rules)

    def normalize_text(self, text: bytes) -> bytes:
        return normalize_text(text, self._rules, self._vocabulary.user_defined)

    def encode_piece(self, piece: bytes) -> list[int]:
        vocabulary = self._vocabulary
        ids: list[int] = []
        was_unknown = False
        for part, is_piece in self._cut(piece, vocabulary) if piece else []:
            if is_piece:
                ids.append(vocabulary.ids[part])
            elif vocabulary.byte_ids:
                ids += [vocabulary.byte_ids[byte] for byte in part]
            elif not was_unknown:
                ids.append(vocabulary.unknown)
            was_unknown = not is_piece
        return ids

    def count_words(self, text: bytes) -> int:
        """It cuts where no piece crosses."""
        symbols = [piece.split(SPACE) for piece in self._vocabulary.ids]
        has_before = any(any(parts[i] for i in range(len(parts) - 1)) for parts in symbols)
        has_behind = any(any(parts[i] for i in range(1, len(parts))) for parts in symbols)
        words = 0
        previous = b""
        for character in split_characters(text):
            if not previous:
                words = 1
            elif not has_before:
                words += character == SPACE and previous != SPACE
            elif not has_behind:
                words += previous == SPACE and character != SPACE
            previous = character
        return words


def split_characters(text: bytes) -> list[bytes]:
    """The characters of a text by their first bytes.

    >>> split_characters("aß▁".encode())
    [b'a', b'\\xc3\\x9f', b'\\xe2\\x96\\x81']
    """
    characters = []
    while text:
        size = count_character_bytes(text)
        characters.append(text[:size])
        text = text[size:]
    return characters
