"""Lines and paragraphs of documents: how texts are cut for deduplication, and what is left of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tokcore_schemas.prefer import LINE, PARAGRAPH

# Each takes all of a text. A paragraph ends after its blank lines.
_PATTERNS = {
    LINE: re.compile(rb"[^\n]*\n|[^\n]+"),
    PARAGRAPH: re.compile(rb"[^\n]*\n(?:[^\n]*\n)*?(?:[ \t\r]*\n)+|.+", re.DOTALL),
}


def cut_pieces(text: bytes, by: str) -> list[bytes]:
    r"""The lines or paragraphs of a text, with what ends them: together they are the text.

    >>> cut_pieces(b"a\n\nb\nc", "line"), cut_pieces(b"a\nb\n \n\nc", "paragraph")
    ([b'a\n', b'\n', b'b\n', b'c'], [b'a\nb\n \n\n', b'c'])
    """
    return _PATTERNS[by].findall(text)


def spell_piece(piece: bytes) -> bytes:
    r"""What two pieces have in common that are duplicates: all but white space around it; b"" is compared with none.

    >>> spell_piece(b"  a b\r\n"), spell_piece(b" \n")
    (b'a b', b'')
    """
    return piece.strip(b" \t\r\n")


def leave_pieces(text: bytes, by: str, dropped: Sequence[int]) -> tuple[bytes, int]:
    r"""(the text without some of its pieces, by number; how many there were).

    >>> leave_pieces(b"a\nb\nc\n", "line", [1, 7])
    (b'a\nc\n', 1)
    """
    pieces = cut_pieces(text, by)
    goes = {*dropped}
    left = [piece for number, piece in enumerate(pieces) if number not in goes]
    return b"".join(left), len(pieces) - len(left)
