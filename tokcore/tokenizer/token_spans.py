"""Where tokens lie in the text that they spell, in bytes and in characters."""

from __future__ import annotations

import codecs
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.text.texts import Offsets
from tokcore.tokenizer.encoded_batch import compute_starts

Spans = npt.NDArray[np.int64]


class TokenSpans(NamedTuple):
    """Start and end of each token in the text that all of them decode to.

    A token that holds part of a character has the whole of it in its span of characters, so that two tokens may share
    one. Characters are those of decode(ids, errors="replace").

    >>> from tokcore.tokenizer.tokenizer import Tokenizer
    >>> tokenizer = Tokenizer.load("out/first")
    >>> spans = tokenizer.offsets(tokenizer.encode("ß low"))
    >>> spans.bytes.tolist()
    [[0, 1], [1, 2], [2, 6]]
    >>> spans.characters.tolist()
    [[0, 1], [0, 1], [1, 5]]
    """

    bytes: Spans  # int64 [n, 2]
    characters: Spans  # int64 [n, 2]


def find_token_spans(tokens: list[bytes]) -> TokenSpans:
    """The spans of these tokens, one after the other; of one that adds nothing both ends are the same."""
    bounds = compute_starts(np.fromiter(map(len, tokens), np.int64, len(tokens)))
    data = b"".join(tokens)
    if data.isascii():
        return TokenSpans(_pair(bounds[:-1], bounds[1:]), _pair(bounds[:-1], bounds[1:]))
    firsts = _find_first_bytes(data)
    # The character that holds a token's first byte, and the first that starts after its last.
    start = np.searchsorted(firsts, bounds[:-1], side="right") - 1
    end = np.searchsorted(firsts, bounds[1:], side="left")
    start = np.where(np.diff(bounds) == 0, end, start)
    return TokenSpans(_pair(bounds[:-1], bounds[1:]), _pair(start, end))


def _pair(starts: Offsets, ends: Offsets) -> Spans:
    spans = np.empty((len(starts), 2), np.int64)
    spans[:, 0], spans[:, 1] = starts, ends
    return spans


def _find_first_bytes(data: bytes) -> Offsets:
    """Where the characters of data.decode(errors="replace") start."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return compute_starts(_measure_widths(data))[:-1]
    return np.flatnonzero(np.frombuffer(data, np.uint8) & 0xC0 != 0x80)


def _measure_widths(data: bytes) -> Offsets:
    """How many bytes each character has; of bytes that are not UTF-8, those that become one U+FFFD."""
    text = data.decode(errors=_WIDTH_OF_REPLACED)
    code_points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    widths = 1 + (code_points >= 0x80) + (code_points >= 0x800) + (code_points >= 0x1_0000).astype(np.int64)
    replaced = (code_points > _SURROGATE) & (code_points <= _SURROGATE + 4)
    widths[replaced] = code_points[replaced] - _SURROGATE
    return widths


# An error handler for decoding: what "replace" turns into one U+FFFD becomes a surrogate that says how many bytes it
# was. UTF-8 has no surrogates, so they mean nothing else.
_WIDTH_OF_REPLACED = "tokcore.width-of-replaced"
_SURROGATE = 0xDC00


def _measure_mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return chr(_SURROGATE + error.end - error.start), error.end


codecs.register_error(_WIDTH_OF_REPLACED, _measure_mark)
