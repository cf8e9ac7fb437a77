"""The pre-tokens of one text. Of many texts: tokcore.text.pretokenizer."""

from __future__ import annotations

import itertools
from typing import AnyStr

from tokcore.text.patterns import DEFAULT_PATTERN


def pretokenize(text: AnyStr, pattern: str = DEFAULT_PATTERN) -> list[AnyStr]:
    """The pre-tokens of a text, in order and of the text's type. Joined they are the text.

    pattern: a name of PATTERNS or a regular expression.

    >>> pretokenize("It's 2024!")
    ["It's", ' ', '202', '4', '!']
    """
    # Imported late: a process that only wants our errors, or a file's form, starts in half the time.
    from tokcore.text.pretokenizer import Pretokenizer
    from tokcore.text.texts import Offsets, make_texts_from_strings

    if not isinstance(text, str | bytes | bytearray):
        raise TypeError(f"text: expected str or bytes, found {type(text).__name__}")
    ends: Offsets = Pretokenizer.of(pattern).split(make_texts_from_strings([text]))[0]
    encoded = text.encode() if isinstance(text, str) else text
    pieces = [encoded[start:end] for start, end in itertools.pairwise([0, *ends.tolist()])]
    return [piece.decode() for piece in pieces] if isinstance(text, str) else pieces
