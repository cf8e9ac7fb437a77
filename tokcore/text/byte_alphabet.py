"""The order and the printable names of the 256 byte tokens.

Other byte-level tokenizers number the bytes "printable first" and write each byte as a character that editors show.
Both come from one table, GPT-2's. Our learned tokenizers use the same order (`hf`), so that ties fall as theirs do.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]

# BYTE_OF_ID[id] is the byte that token id stands for; ID_OF_BYTE is its inverse.
BYTE_OF_ID = bytes(_PRINTABLE + [byte for byte in range(256) if byte not in _PRINTABLE])
ID_OF_BYTE = bytes(BYTE_OF_ID.index(byte) for byte in range(256))

_CHARACTERS = [*map(chr, _PRINTABLE), *map(chr, range(256, 512 - len(_PRINTABLE)))]
_CHARACTER_OF_BYTE = {byte: _CHARACTERS[ID_OF_BYTE[byte]] for byte in range(256)}
# Characters below 256 that stand for no byte become one that Latin-1 does not have; those above are not in Latin-1
# anyway.
_BYTE_OF_CHARACTER = dict.fromkeys(range(256), "\uffff")
_BYTE_OF_CHARACTER |= {ord(character): chr(BYTE_OF_ID[i]) for i, character in enumerate(_CHARACTERS)}


def to_printable(token: bytes) -> str:
    """The token as vocabulary files write it: one character per byte.

    >>> to_printable(b" the")
    'Ġthe'
    """
    return token.decode("latin-1").translate(_CHARACTER_OF_BYTE)


def to_printable_tokens(tokens: Sequence[bytes]) -> list[str]:
    """to_printable() of each token.

    >>> to_printable_tokens([b" a", b"b"])
    ['Ġa', 'b']
    """
    joined = to_printable(b"".join(tokens))
    ends = [0, *accumulate(map(len, tokens))]
    return [joined[start:end] for start, end in pairwise(ends)]


def from_printable_tokens(names: Sequence[str]) -> list[bytes | None]:
    """from_printable() of each name.

    >>> from_printable_tokens(["Ġa", " "])
    [b' a', None]
    """
    joined = from_printable("".join(names))
    if joined is None:
        return [from_printable(name) for name in names]
    ends = [0, *accumulate(map(len, names))]
    return [joined[start:end] for start, end in pairwise(ends)]


def from_printable(name: str) -> bytes | None:
    """The token that to_printable() writes as name; None if name has a character that stands for no byte.

    >>> from_printable("Ġthe"), from_printable("a b")
    (b' the', None)
    """
    try:
        return name.translate(_BYTE_OF_CHARACTER).encode("latin-1")
    except UnicodeEncodeError:
        return None
