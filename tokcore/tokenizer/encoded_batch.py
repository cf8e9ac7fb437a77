"""The ids of a batch of texts, and the forms in which callers want them: a list array, cut, padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tokcore.kernel import Ids
from tokcore.text.texts import Offsets

Side = Literal["left", "right"]

_INT32 = pa.int32()
_LISTS = pa.list_(_INT32)


class Encoded(NamedTuple):
    """The ids of a batch of texts."""

    ids: Ids  # int32, of all texts
    offsets: Offsets  # int64, n + 1; text i is ids[offsets[i]:offsets[i + 1]]
    pretokens: Offsets  # int64, n; the number of pre-tokens of each text


class Padded(NamedTuple):
    """A batch of texts as a rectangle: a row for each text, as wide as the longest.

    >>> from tokcore.tokenizer.tokenizer import Tokenizer
    >>> tokenizer = Tokenizer.load("out/first")
    >>> batch = tokenizer.encode_batch(["low", "lower low"], padding="right", pad_id=tokenizer.eos_id)
    >>> batch.ids.tolist()
    [[257, 261, 261], [257, 259, 258]]
    >>> batch.mask.tolist()
    [[True, False, False], [True, True, True]]
    """

    ids: Ids  # int32 [n, width], writable
    mask: npt.NDArray[np.bool_]  # [n, width], whether the id is of the text


def interleave(encoded: Sequence[Encoded], places: Sequence[Offsets]) -> Encoded:
    """The texts of several batches as one. places: of each batch, where its texts are among all."""
    order = np.argsort(np.concatenate(places), kind="stable")
    lengths = np.concatenate([np.diff(one.offsets) for one in encoded])
    starts = compute_starts(lengths)[:-1]
    offsets = compute_starts(lengths[order])
    ids = np.concatenate([one.ids for one in encoded])
    taken = np.arange(len(ids)) - np.repeat(offsets[:-1] - starts[order], lengths[order])
    return Encoded(ids[taken], offsets, np.concatenate([one.pretokens for one in encoded])[order])


def make_list_array(ids: Ids, offsets: Offsets) -> pa.ListArray:
    """The texts as a list<int32> array. Raises ValueError if there are more ids than one list array can hold."""
    if offsets[-1] >= 2**31:
        raise ValueError(f"{offsets[-1]} ids do not fit one list array: encode in smaller batches")
    # Of buffers, which takes a fifth of the time for a short batch, and asks for no pandas.
    values = pa.Array.from_buffers(_INT32, len(ids), [None, pa.py_buffer(ids)])
    starts = pa.py_buffer(offsets.astype(np.int32))
    return pa.ListArray.from_buffers(_LISTS, len(offsets) - 1, [None, starts], children=[values])


def cut(ids: Ids, offsets: Offsets, max_tokens: int) -> tuple[Ids, Offsets]:
    """The first max_tokens ids of each text."""
    if max_tokens < 0:
        raise ValueError(f"max_tokens = {max_tokens}: must not be negative")
    lengths = np.diff(offsets)
    if lengths.size == 0 or lengths.max() <= max_tokens:
        return ids, offsets
    places = np.arange(len(ids)) - np.repeat(offsets[:-1], lengths)
    return ids[places < max_tokens], compute_starts(np.minimum(lengths, max_tokens))


def pad(ids: Ids, offsets: Offsets, side: Side, pad_id: int) -> Padded:
    """The texts in rows of equal width, filled up with pad_id on that side."""
    if side not in ("left", "right"):
        raise ValueError(f"padding = {side!r}: expected 'left' or 'right'")
    lengths = np.diff(offsets)[:, np.newaxis]
    width = int(lengths.max(initial=0))
    columns = np.arange(width)
    mask = columns < lengths if side == "right" else columns >= width - lengths
    padded = np.full(mask.shape, pad_id, np.int32)
    padded[mask] = ids
    return Padded(padded, mask)


def compute_starts(lengths: Offsets) -> Offsets:
    """n + 1 offsets of n neighbours with these lengths."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts
