"""Texts as code points, each byte outside of well-formed UTF-8 as one of U+DC80 to U+DCFF, which text never holds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tokcore.text.texts import Offsets, Texts

NUM_CODE_POINTS = 0x110000

CodePoints = npt.NDArray[np.uint32]


def find_code_points(texts: Texts) -> tuple[CodePoints, Offsets]:
    """(code points of all texts, n + 1 offsets into them).

    >>> from tokcore.text.texts import make_texts_from_strings
    >>> points, offsets = find_code_points(make_texts_from_strings(["aé", b"\\xff"]))
    >>> [hex(c) for c in points.tolist()], offsets.tolist()
    (['0x61', '0xe9', '0xdcff'], [0, 2, 3])
    """
    start, end = int(texts.offsets[0]), int(texts.offsets[-1])
    data = texts.data[start:end]
    begins = (data & 0xC0) != 0x80
    bounds = texts.offsets - start
    inner = bounds[bounds < len(data)]
    if begins[inner].all():  # else a character may begin in one text and end in another
        try:
            points = np.frombuffer(data.tobytes().decode().encode("utf-32-le"), np.dtype("<u4"))
        except UnicodeDecodeError:
            pass
        else:
            return points, np.concatenate([[0], np.cumsum(begins)])[bounds]
    parts = [texts.text(i).decode("utf-8", "surrogateescape") for i in range(texts.num_texts)]
    encoded = "".join(parts).encode("utf-32-le", "surrogatepass")
    return np.frombuffer(encoded, np.dtype("<u4")), np.concatenate([[0], np.cumsum([*map(len, parts)], dtype=np.int64)])


def spell_code_point(code_point: int) -> bytes:
    """The bytes that a code point stands for. Raises ValueError for what no text holds.

    >>> spell_code_point(0xE9), spell_code_point(0xDCFF)
    (b'\\xc3\\xa9', b'\\xff')
    """
    return chr(code_point).encode("utf-8", "surrogateescape")
