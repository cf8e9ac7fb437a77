"""Text of others, safe to print: which characters could harm a terminal or a log, and how they are shown."""

from __future__ import annotations

import re

# Characters that could move the cursor, colour the terminal, or reorder, hide or break a line.
UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u0600-\u0605\u061c\u06dd\u070f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202f\u205f-\u206f\u3000\u3164\ud800-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
    "\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
)


def escape(text: str) -> str:
    """The text as one line of harmless characters: control, format and invisible ones are shown as escapes.

    >>> print(escape("a" + chr(10) + chr(27) + "[31m" + chr(0x202E)))
    a\\n\\x1b[31m\\u202e
    """
    return UNPRINTABLE.sub(escape_match, text)


def join_lines(*lines: str) -> str:
    """A message of several lines, none of which a name in it can break.

    >>> print(join_lines("of a" + chr(10) + "b:", "c"))
    of a\\nb:
    c
    """
    return "\n".join(map(escape, lines))


def escape_match(match: re.Match[str]) -> str:
    """The escape of a character, as Python writes it; of one that stands for a byte that is no UTF-8, of the byte."""
    character = match[0]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()
