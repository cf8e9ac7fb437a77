"""token_bytes.npy: how many bytes each id stands for, as numpy.load gives it. Bits per byte need nothing else.

One int32 for every id below vocab_size. Special tokens have 0, since no text becomes them, and so have unused ids.
"""

from __future__ import annotations

import struct

import numpy as np

from tokcore.errors import FormatError
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec

MAX_IDS = 1 << 24  # a special token may be pinned far away from all others

_MAGIC = b"\x93NUMPY\x01\x00"


def write_token_bytes(spec: TokenizerSpec) -> bytes:
    """The file. Raises FormatError for a tokenizer with an id that is too high.

    The header is our own, so that no version of numpy decides our bytes.
    """
    if spec.vocab_size > MAX_IDS:
        raise FormatError(
            f"token_bytes.npy has a place for every id, at most {MAX_IDS}: the ids end at {spec.vocab_size}"
        )
    lengths = np.zeros(spec.vocab_size, "<i4")
    lengths[spec.model.ids] = spec.model.sizes
    for token in spec.special:
        assert token.id is not None, "a finished tokenizer has an id for each"
        lengths[token.id] = 0 if token.is_special else len(token.text.encode())
    header = f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({spec.vocab_size},), }}"
    size = -(-(len(_MAGIC) + 2 + len(header) + 1) // 64) * 64 - len(_MAGIC) - 2
    return _MAGIC + struct.pack("<H", size) + header.ljust(size - 1).encode() + b"\n" + lengths.tobytes()
