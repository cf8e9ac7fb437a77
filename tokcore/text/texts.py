"""Texts: the buffers of a batch of documents, the one form in which text enters the kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]


class Texts(NamedTuple):
    """A batch of byte strings, back to back.

    data: uint8, the bytes of all strings; there may be more before and after them.
    offsets: int64, n + 1 ascending positions in data; string i is data[offsets[i]:offsets[i + 1]].
    """

    data: Bytes
    offsets: Offsets

    @property
    def num_texts(self) -> int:
        return len(self.offsets) - 1

    @property
    def size_bytes(self) -> int:
        return int(self.offsets[-1] - self.offsets[0])

    def text(self, i: int) -> bytes:
        """The bytes of string i."""
        return self.data[self.offsets[i] : self.offsets[i + 1]].tobytes()

    def take(self, where: npt.NDArray[np.int64]) -> Texts:
        """The strings at these positions, in that order; shares the bytes if that is all of them."""
        if len(where) == self.num_texts and (np.diff(where) == 1).all():
            return self
        starts, ends = self.offsets[:-1][where], self.offsets[1:][where]
        offsets = np.zeros(len(where) + 1, np.int64)
        np.cumsum(ends - starts, out=offsets[1:])
        parts = [self.data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        return Texts(np.concatenate(parts) if parts else np.zeros(0, np.uint8), offsets)

    def replace(self, where: Sequence[int], strings: Sequence[bytes]) -> Texts:
        """The strings with others at these positions, which ascend.

        >>> texts = make_texts_from_strings(["a", "b", "c"]).replace([1], [b"xyz"])
        >>> [texts.text(i) for i in range(3)]
        [b'a', b'xyz', b'c']
        """
        lengths = np.diff(self.offsets)
        lengths[[*where]] = [*map(len, strings)]
        parts, end = [], int(self.offsets[0])
        for i, string in zip(where, strings, strict=True):
            parts += [self.data[end : self.offsets[i]], np.frombuffer(string, np.uint8)]
            end = int(self.offsets[i + 1])
        offsets = np.zeros(len(self.offsets), np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return Texts(np.concatenate([*parts, self.data[end : self.offsets[-1]]]), offsets)


def make_texts_from_strings(strings: Iterable[str | bytes]) -> Texts:
    """Texts of Python strings; str is encoded as UTF-8, bytes are kept as they are.

    Raises UnicodeEncodeError for a str with a lone surrogate, TypeError for anything but a list of strings, with the
    position of what is no string.

    >>> make_texts_from_strings(["a", b"bc"]).offsets.tolist()
    [0, 1, 3]
    """
    given = list_strings(strings)
    encoded: Sequence[bytes] = given  # unless they are not bytes yet:
    if not set(map(type, given)) <= {bytes}:
        encoded = [s.encode() if isinstance(s, str) else _encode_string(s, i) for i, s in enumerate(given)]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=offsets[1:])
    return Texts(np.frombuffer(b"".join(encoded), np.uint8), offsets)


def _encode_string(value: Any, position: int) -> bytes:
    try:
        return bytes(memoryview(value))  # bytes(5) would be five zeros; a memoryview of a number is a TypeError
    except TypeError:
        found = type(value).__name__
        raise TypeError(f"texts[{position}]: expected str or bytes, found {found}") from None


def list_strings(strings: Iterable[Any]) -> Sequence[Any]:
    """The strings as a list or tuple. Raises TypeError for a single string, whose characters would pass for texts."""
    if type(strings) is list:  # what most callers have
        return strings
    if isinstance(strings, str | bytes | bytearray | memoryview):
        raise TypeError("expected a list of texts, found a single one: put it in a list")
    if not isinstance(strings, Iterable):
        raise TypeError(f"expected a list of texts, found {type(strings).__name__}")
    return strings if isinstance(strings, list | tuple) else list(strings)


def decode_texts(texts: Texts) -> list[str]:
    """The texts, which must be UTF-8, as a list of str.

    >>> decode_texts(make_texts_from_strings(["a", "é"]))
    ['a', 'é']
    """
    first, last = int(texts.offsets[0]), int(texts.offsets[-1])
    data = texts.data[first:last].tobytes()
    offsets = (texts.offsets - first).tolist()
    if data.isascii():
        whole = data.decode("ascii")
        return [whole[start:end] for start, end in pairwise(offsets)]
    return [data[start:end].decode() for start, end in pairwise(offsets)]


def make_texts_from_arrow(array: pa.Array | pa.ChunkedArray) -> Texts:
    """Texts of an Arrow string, binary or dictionary array. Does not copy the bytes of a single chunk of the former.

    Raises TypeError for another type and ValueError for a null, with the position of the first.
    """
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
        if isinstance(array, pa.ChunkedArray):  # more than 2 GiB of string: combine_chunks keeps several
            array = pa.concat_arrays([c.cast(_find_large_type(c.type)) for c in array.chunks])
    if array.null_count:
        first = array.is_null().index(True).as_py()
        raise ValueError(f"texts[{first}] is null, {array.null_count} of {len(array)} are: drop or fill them first")
    kind = array.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        array = array.cast(_find_large_type(kind))
        kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        width: Any = np.int32
    elif pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        width = np.int64
    else:
        raise TypeError(f"expected an Arrow string or binary array, found {kind}")
    _, offset_buffer, data_buffer = array.buffers()
    if offset_buffer is None or len(array) == 0:
        return Texts(np.zeros(0, np.uint8), np.zeros(1, np.int64))
    offsets = np.frombuffer(offset_buffer, width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    return Texts(data, offsets)


def _find_large_type(kind: pa.DataType) -> pa.DataType:
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return pa.large_string() if text else pa.large_binary()
