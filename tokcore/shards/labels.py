"""Labels: strings of which few differ, such as the languages or the sources of documents, kept as codes."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Codes = npt.NDArray[np.int32]
Positions = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Labels(Sequence[str]):
    """n strings, string i being names[codes[i]]. Equal to any sequence of the same strings.

    names: distinct; some may not occur. codes: int32[n].
    """

    names: tuple[str, ...]
    codes: Codes

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Labels: ...
    def __getitem__(self, index: int | slice) -> str | Labels:
        if isinstance(index, slice):
            return Labels(self.names, self.codes[index])
        return self.names[int(self.codes[index])]

    def __iter__(self) -> Iterator[str]:
        return map(self.names.__getitem__, self.codes.tolist())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Labels) and other.names == self.names:
            return np.array_equal(other.codes, self.codes)
        return isinstance(other, Sequence) and len(other) == len(self) and all(map(operator.eq, self, other))

    __hash__ = None  # type: ignore[assignment] # equal to lists, which have none

    def take(self, where: Positions | Sequence[int]) -> Labels:
        """The strings at these positions, in that order; its names are those that occur."""
        codes = self.codes[where]
        used = np.flatnonzero(np.bincount(codes, minlength=len(self.names)))
        if len(used) == len(self.names):
            return Labels(self.names, codes)
        code_of = np.zeros(len(self.names), np.int32)
        code_of[used] = np.arange(len(used))
        return Labels(tuple(self.names[code] for code in used.tolist()), code_of[codes])

    def by_label(self) -> dict[str, Positions]:
        """The positions of each string that occurs, ascending.

        >>> {name: where.tolist() for name, where in label_strings(["b", "a", "b"]).by_label().items()}
        {'b': [0, 2], 'a': [1]}
        """
        if not len(self.codes):
            return {}
        first = int(self.codes[0])
        if len(self.names) == 1 or (self.codes == first).all():
            return {self.names[first]: np.arange(len(self.codes))}
        order = np.argsort(self.codes, kind="stable")
        bounds = np.searchsorted(self.codes[order], np.arange(len(self.names) + 1)).tolist()
        return {
            name: order[start:end]
            for name, start, end in zip(self.names, bounds[:-1], bounds[1:], strict=True)
            if end > start
        }

    def map_to_bytes(self, values: Sequence[bytes]) -> bytes:
        """values[codes[i]] of each i, joined. values: one for each of names."""
        if len(values) == 1:
            return values[0] * len(self.codes)
        return b"".join(map(values.__getitem__, self.codes.tolist()))

    def to_arrow(self) -> pa.StringArray:
        """The strings as an Arrow array, the same that pyarrow makes of a list of them."""
        encoded = [name.encode() for name in self.names]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        offsets = np.zeros(len(self.codes) + 1, np.int64)
        np.cumsum(lengths[self.codes], out=offsets[1:])
        if offsets[-1] > np.iinfo(np.int32).max:
            raise ValueError(f"{offsets[-1]} bytes of labels do not fit an Arrow string array")
        buffers = (pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(self.map_to_bytes(encoded)))
        return pa.StringArray.from_buffers(len(self.codes), *buffers)


def label_strings(strings: Iterable[str]) -> Labels:
    """The same strings as Labels.

    >>> label_strings(["en", "sw", "en"]).codes.tolist()
    [0, 1, 0]
    """
    code_of: dict[str, int] = {}
    codes = [code_of.setdefault(string, len(code_of)) for string in strings]
    return Labels(tuple(code_of), np.array(codes, np.int32))


def repeat_label(name: str, num: int) -> Labels:
    """The same string num times."""
    return Labels((name,), np.zeros(num, np.int32))


def label_arrow(array: pa.StringArray) -> Labels:
    """The strings of an Arrow array without nulls as Labels."""
    encoded = array.dictionary_encode()
    return Labels(tuple(encoded.dictionary.to_pylist()), encoded.indices.to_numpy(zero_copy_only=False))


def join_labels(parts: Sequence[Labels]) -> Labels:
    """The strings of all parts, in order."""
    if all(part.names == parts[0].names for part in parts[1:]):
        names = parts[0].names if parts else ()
        return Labels(names, np.concatenate([np.zeros(0, np.int32), *(part.codes for part in parts)]))
    code_of: dict[str, int] = {}
    codes = []
    for part in parts:
        own = np.array([code_of.setdefault(name, len(code_of)) for name in part.names], np.int32)
        codes.append(own[part.codes] if len(own) else part.codes)
    return Labels(tuple(code_of), np.concatenate(codes))
