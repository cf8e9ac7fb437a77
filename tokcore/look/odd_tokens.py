"""Audit a vocabulary: tokens that no text becomes, tokens of parts of characters, invisible characters.

How often ids were written is in token_counts; pipelines finds the count tables.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.models.model import Unreachable
from tokcore.text.texts import Offsets, Texts, make_texts_from_strings
from tokcore.text.unicode import find_ranges
from tokcore.tokenizer.tokenizer import Tokenizer

# Kinds of characters that are invisible or not what they seem. A character of several kinds is of the last one. Tab,
# line feed and carriage return are ordinary text.
_KINDS: dict[str, tuple[tuple[int, int], ...]] = {
    "unassigned": find_ranges("Cn"),
    "private_use": find_ranges("Co"),
    "other_format": find_ranges("Cf"),
    "c0_control": ((0x00, 0x08), (0x0B, 0x0C), (0x0E, 0x1F), (0x7F, 0x7F)),
    "c1_control": ((0x80, 0x9F),),
    "noncharacter": ((0xFDD0, 0xFDEF), *((plane + 0xFFFE, plane + 0xFFFF) for plane in range(0, 0x110000, 0x10000))),
    "zero_width": ((0x200B, 0x200D), (0x2060, 0x2060), (0xFEFF, 0xFEFF)),
    "variation_selector": ((0x180B, 0x180D), (0x180F, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF)),
    "tag": ((0xE0000, 0xE007F),),
    "bidi_control": ((0x061C, 0x061C), (0x200E, 0x200F), (0x202A, 0x202E), (0x2066, 0x2069)),
}
CHARACTER_KINDS = tuple(_KINDS)


class Found(NamedTuple):
    """Characters of CHARACTER_KINDS in a batch of texts, in order."""

    texts: Offsets  # int64[n], number of the text
    kinds: npt.NDArray[np.uint8]  # [n], place in CHARACTER_KINDS
    characters: npt.NDArray[np.uint32]  # [n], code points


def find_invisible_characters(texts: Texts) -> Found:
    """All characters of CHARACTER_KINDS in the texts. Bytes outside of well-formed UTF-8 are not characters."""
    start = texts.offsets[0]
    # Put a letter between texts, so that the end of one and the start of the next never form a character.
    joined = np.insert(texts.data[start : texts.offsets[-1]], texts.offsets[1:-1] - start, ord("a"))
    text = joined.tobytes().decode("utf-8", "surrogateescape")
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    kinds = _classify_characters()[codes]
    hits = np.flatnonzero(kinds)
    if not len(hits):
        return Found(np.zeros(0, np.int64), np.zeros(0, np.uint8), np.zeros(0, np.uint32))
    widths = 1 + (codes >= 0x80) + (codes >= 0x800).astype(np.int64) + (codes >= 0x10000)
    widths[(codes >= 0xD800) & (codes < 0xE000)] = 1  # a byte on its own
    positions = (np.cumsum(widths) - widths)[hits]
    begins = texts.offsets[:-1] - start + np.arange(texts.num_texts)
    numbers = np.searchsorted(begins, positions, side="right") - 1
    return Found(numbers.astype(np.int64), kinds[hits] - np.uint8(1), codes[hits])


@functools.cache
def _classify_characters() -> npt.NDArray[np.uint8]:
    """Code point -> 1 + its place in CHARACTER_KINDS; 0 for a character of no kind."""
    table = np.zeros(0x110000, np.uint8)
    for number, name in enumerate(CHARACTER_KINDS):
        for first, last in _KINDS[name]:
            table[first : last + 1] = number + 1
    table[0xD800:0xE000] = 0
    return table


def count_kinds_of_characters(tokenizer: Tokenizer) -> dict[int, Counter[str]]:
    """Id -> number of characters of each kind, for the ordinary tokens that hold any."""
    model = tokenizer.spec.model
    found = find_invisible_characters(make_texts_from_strings(model.tokens))
    kinds: dict[int, Counter[str]] = {}
    for number, kind in zip(found.texts.tolist(), found.kinds.tolist(), strict=True):
        kinds.setdefault(int(model.ids[number]), Counter())[CHARACTER_KINDS[kind]] += 1
    return dict(sorted(kinds.items()))


def find_unreachable_tokens(tokenizer: Tokenizer) -> list[Unreachable]:
    """The ordinary tokens that no text becomes, by id, with what their own bytes give instead."""
    return tokenizer.spec.model.unreachable(tokenizer.encode_pretokens)


def find_partial_characters(tokenizer: Tokenizer) -> list[int]:
    """Ids of ordinary tokens that are not well-formed UTF-8: they begin or end within a character, or are not text."""
    model = tokenizer.spec.model
    return sorted(int(id) for id, token in zip(model.ids.tolist(), model.tokens, strict=True) if not _is_utf8(token))


def spell_token(token: bytes) -> str:
    r"""A token for people to read: in quotes, with escapes for invisible characters.

    >>> spell_token("\u200b é".encode() + b"\xff")
    '"\\u200b é\\xff"'
    """
    text = token.decode("utf-8", "backslashreplace").replace('"', '\\"')
    kinds = _classify_characters()
    seen = (c if c.isprintable() and not kinds[ord(c)] else c.encode("unicode_escape").decode("ascii") for c in text)
    return f'"{"".join(seen)}"'


def _is_utf8(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True
