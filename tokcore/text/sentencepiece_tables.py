"""SentencePiece's own tables: the script of each character, and what the normalizer nmt_nfkc replaces.

They follow no version of Unicode that others have. So copies of them are here (tokcore.text.sentencepiece_data),
pinned.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.errors import FormatError
from tokcore.files.canonical_json import hash_sha256
from tokcore.text.sentencepiece_data import CHARSMAP_FILE, CHARSMAP_SHA256, SCRIPTS

NORMALIZER = "nmt_nfkc"
INHERITED = 254  # the number that stands for the script of the character before


class Scripts(NamedTuple):
    """Scripts by number: the code points from starts[i] to before starts[i + 1] have the script numbers[i].

    Han, Hiragana and Katakana are one script. 254 stands for the script of the character before.
    """

    starts: npt.NDArray[np.uint32]
    numbers: npt.NDArray[np.uint8]


@functools.cache
def load_scripts() -> Scripts:
    """The script of every code point."""
    runs = [run.split("*") for run in SCRIPTS.split()]
    lengths = np.array([int(length, 16) for length, _ in runs], np.uint32)
    starts = np.concatenate([np.zeros(1, np.uint32), np.cumsum(lengths[:-1], dtype=np.uint32)])
    return Scripts(starts, np.array([int(number, 16) for _, number in runs], np.uint8))


@functools.cache
def load_charsmap() -> bytes:
    """The precompiled charsmap of nmt_nfkc. Raises FormatError if its file is not the one of this release.

    >>> len(load_charsmap())
    240007
    """
    data = (Path(__file__).parent / CHARSMAP_FILE).read_bytes()
    if hash_sha256(data) != CHARSMAP_SHA256:
        raise FormatError(f"{CHARSMAP_FILE} is not the one of this release: install tokcore again")
    return data


def check_charsmap(charsmap: bytes, place: str) -> None:
    """Raise FormatError unless what a charsmap replaces characters by is UTF-8. The kernel checks the rest."""
    if not charsmap:
        return
    size = int.from_bytes(charsmap[:4], "little")
    if len(charsmap) < 5 or size % 1024 or not 1024 <= size < len(charsmap) - 4 or charsmap[-1] != 0:
        raise FormatError(f"{place} is damaged: its first four bytes are to be the size of a table within it")
    units = np.frombuffer(charsmap, "<u4", size // 4, 4)
    starts = np.unique(units[units >= 1 << 31] & 0x7FFF_FFFF)
    texts = charsmap[4 + size :]
    if starts.size and int(starts[-1]) >= len(texts):
        raise FormatError(f"{place} is damaged: it names a text at {int(starts[-1])}, and there are {len(texts)} bytes")
    for start in starts.tolist():
        if texts[start] & 0xC0 == 0x80:
            raise FormatError(f"{place} is damaged: a text begins within a character, at {start}")
    try:
        texts.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"{place}: byte {4 + size + error.start} is not UTF-8") from error
