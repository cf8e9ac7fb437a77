"""Ids back to back in a file, perhaps after a header: what the formats without columns have in common."""

from __future__ import annotations

import functools
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from tokcore.errors import FormatError
from tokcore.files.ranged_files import RangedIds, find_ranged
from tokcore.formats.documents import Documents
from tokcore.formats.shard_format import ShardFormat, ShardWithDocuments, check_ids, count_most_ids
from tokcore.shards.token_batch import Ids, Offsets, TokenBatch

_SPOOL_MEMORY = 1 << 23  # bytes of a spool that stay in memory
_COPIED_PER_STEP = 8  # bounds that are copied in the time of a step of a search at any address
_COPIED = 1 << 20  # bytes that are copied at a time


def find_stored_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy type of ids in a file: little-endian on every machine."""
    return np.dtype(dtype).newbyteorder("<")


def store_ids(batch: TokenBatch, dtype: str, vocab_size: int) -> memoryview:
    """The ids of a batch as a file has them.

    Raises FormatError for an id outside of the vocabulary, or one that dtype does not hold: in fewer bits it would
    become another one.
    """
    tokens = batch.tokens[batch.offsets[0] : batch.offsets[-1]]
    check_ids(tokens, min(vocab_size, count_most_ids(dtype)))
    return np.ascontiguousarray(tokens, find_stored_dtype(dtype)).view(np.uint8).data


def compute_lengths(ends: npt.NDArray[Any], path: str) -> Offsets:
    """The number of ids of each document. ends: where each ends, in ids. Raises FormatError if one is negative."""
    bounds: Offsets = np.concatenate([np.zeros(1, np.int64), ends.astype(np.int64)])
    lengths = bounds[1:] - bounds[:-1]
    wrong = np.flatnonzero(lengths < 0)
    if len(wrong):
        i = int(wrong[0])
        raise FormatError(f"{path}: document {i} ends at {int(ends[i])}, before it begins")
    return lengths


def find_dtype(path: str, num_tokens: int, dtypes: Sequence[str], bounds: str) -> str:
    """The dtype with which that many ids make a file as large as it is; the first for a file without any.

    bounds: the file that num_tokens is from. Raises FormatError if there is none.
    """
    size = measure_file(path)
    sizes = {dtype: find_stored_dtype(dtype).itemsize * num_tokens for dtype in dtypes}
    for dtype, expected in sizes.items():
        if size == expected:
            return dtype
    known = " or ".join(f"{expected} ({dtype})" for dtype, expected in sizes.items())
    raise FormatError(f"{path}: {size} bytes, {bounds} accounts for {num_tokens} ids: expected {known}")


def measure_file(path: str) -> int:
    """The size of a file in bytes. Raises FormatError if it cannot be opened."""
    if (ranged := find_ranged(path)) is not None:
        return ranged.size_bytes
    try:
        return Path(path).stat().st_size
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise FormatError(f"{path}: cannot be opened: {reason}") from error


def map_file(path: str, dtype: npt.DTypeLike, offset: int, count: int) -> npt.NDArray[Any]:
    """count integers of a file, read-only; a plain array, since slices of a memmap cost several times as much.

    Of a file at a URL all of them are read: see map_ids.
    """
    if find_ranged(path) is not None:
        return map_ids(path, dtype, offset, count)[:]
    return np.asarray(np.memmap(path, dtype, "r", offset, (count,))) if count else np.zeros(0, dtype)


def map_ids(path: str, dtype: npt.DTypeLike, offset: int, count: int) -> npt.NDArray[Any] | RangedIds:
    """count ids of a file, read-only, to be sliced; of a file at a URL only what is sliced is read."""
    ranged = find_ranged(path)
    return map_file(path, dtype, offset, count) if ranged is None else RangedIds(ranged, dtype, offset, count)


def find_mapped(ids: npt.NDArray[Any] | RangedIds) -> npt.NDArray[Any] | None:
    """What map_ids gives, if it is a mapped file."""
    return ids if isinstance(ids, np.ndarray) else None


def read_start(path: str, size: int) -> bytes:
    """The first bytes of a file, as far as it has them."""
    if (ranged := find_ranged(path)) is not None:
        return ranged.read_range(0, size)
    with Path(path).open("rb") as file:
        return file.read(size)


def find_bounds_in(bounds: npt.NDArray[Any], starts: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
    """How many of these ascending bounds are strictly within each part, and those bounds, part by part.

    bounds: perhaps a view of a mapped file at any address, of which only what is needed is read.
    """
    if not bounds.flags.aligned and len(bounds) <= _COPIED_PER_STEP * len(starts) * len(bounds).bit_length():
        bounds = bounds.copy()
    first, last = _search(bounds, starts, True), _search(bounds, ends, False)
    counts = np.maximum(last - first, 0)
    places = np.arange(int(counts.sum())) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    return counts, bounds[places].astype(np.int64)


def _search(bounds: npt.NDArray[Any], values: Offsets, right: bool) -> Offsets:
    """np.searchsorted, which would copy all bounds if they are not aligned."""
    if bounds.flags.aligned:
        return np.searchsorted(bounds, values, side="right" if right else "left").astype(np.int64)
    low, step = np.zeros(len(values), np.int64), 1 << max(len(bounds).bit_length() - 1, 0)
    while step and len(bounds):
        # As many bounds as low are before the value; perhaps step more.
        ahead = np.minimum(low + step, len(bounds))
        found = bounds[ahead - 1]
        low = np.where(found <= values if right else found < values, ahead, low)
        step //= 2
    return low


class FlatIds:
    """The ids of one shard, memory-mapped: views of the file where they are four bytes wide, else copies.

    Safe to read from several threads.
    """

    def __init__(self, path: str, dtype: str, lengths: Offsets, header_bytes: int = 0, bounds: str = "") -> None:
        """lengths: int64, ids of each document. bounds: the file that says so, for errors.

        Raises FormatError unless the file's size is what they account for.
        """
        self.path = path
        self.dtype = dtype
        self._lengths = lengths
        stored = find_stored_dtype(dtype)
        self.num_tokens = int(lengths.sum())
        expected = header_bytes + stored.itemsize * self.num_tokens
        if (size := measure_file(path)) != expected:
            raise FormatError(
                f"{path}: {size} bytes, {bounds or 'its header'} accounts for {self.num_tokens} ids of {dtype}, "
                f"{expected} bytes"
            )
        self._tokens = map_ids(path, stored, header_bytes, self.num_tokens)

    def __len__(self) -> int:
        return len(self._lengths)

    def tokens(self, row: int) -> Ids:
        """int32 ids of a document, read-only."""
        return self._as_int32(int(self._starts[row]), int(self._starts[row + 1]))

    def lengths(self, start: int, end: int) -> Offsets:
        """Numbers of ids of documents start to end, end excluded."""
        return self._lengths[start:end]

    def part(self, start: int, end: int) -> npt.NDArray[Any]:
        """Ids number start to end of all documents, end excluded: a view of the mapped file, of its dtype."""
        return self._tokens[start:end]

    @property
    def mapped(self) -> npt.NDArray[Any] | None:
        return find_mapped(self._tokens)

    def find_bounds(self, starts: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
        """Where documents end strictly within each part: how many, and the places."""
        return find_bounds_in(self._starts, starts, ends)

    def span(self, start: int, end: int) -> tuple[Ids, Offsets]:
        """Documents start to end, end excluded: their ids back to back, and their lengths."""
        lengths = self._lengths[start:end]
        first = int(self._starts[start]) if len(lengths) else 0
        return self._as_int32(first, first + int(lengths.sum())), lengths

    @functools.cached_property
    def _starts(self) -> Offsets:
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self._lengths)])

    def _as_int32(self, start: int, end: int) -> Ids:
        # Ids are below 2^31: as uint32 they are the same bytes.
        stored = self._tokens[start:end]
        ids: Ids = stored.view("<i4") if stored.itemsize == 4 else stored.astype(np.int32)
        ids.flags.writeable = False
        return ids


def open_headerless(path: str, dtype: str) -> FlatIds:
    """All ids of a file as one document. dtype: of the ids. Raises FormatError if the file ends within an id."""
    width = find_stored_dtype(dtype).itemsize
    size = measure_file(path)
    if size % width:
        raise FormatError(f"{path}: byte {size - size % width}: the file ends within an id of {dtype}")
    return FlatIds(path, dtype, np.array([size // width], np.int64))


def require_dtype(path: str, dtype: str, dtypes: Sequence[str], silent: str) -> str:
    """The dtype that a file's ids are said to have. silent: why the files do not say it.

    Raises FormatError if none is given, or if the format has no such dtype.
    """
    if not dtype:
        raise FormatError(f"{path}: {silent}, so nothing says the dtype of its ids: name it ({' or '.join(dtypes)})")
    if dtype not in dtypes:
        raise FormatError(f"{path}: ids of {dtype}: its format has {' or '.join(dtypes)}")
    return dtype


class HeaderlessFormat(ShardFormat, ABC):
    """A ShardFormat of two files: ids without a header, and where documents end.

    The dtype of the ids follows from how many there are and from the size of their file.
    """

    suffixes: tuple[str, str]  # of the ids, of the bounds
    dtypes = ("uint16", "uint32")

    @abstractmethod
    def read_lengths(self, path: str) -> Offsets:
        """The number of ids of each document, from the file of bounds. Raises FormatError if it cannot be one."""

    def main_file(self, path: str) -> str | None:
        ids, bounds = self.suffixes
        place = path.removesuffix(bounds).removesuffix(ids) + ids
        return place if Path(place).is_file() else None

    def open_plain(self, path: str, dtype: str) -> FlatIds:
        silent = f"its {self.suffixes[1]} file is not there"
        return open_headerless(path, require_dtype(path, dtype, self.dtypes, silent))

    def open_reader(self, path: str, documents: Documents | None) -> ShardWithDocuments:
        ids, bounds = self.suffixes
        bounds_path = path.removesuffix(ids) + bounds
        lengths = self.read_lengths(bounds_path)
        dtype = find_dtype(path, int(lengths.sum()), self.dtypes, bounds_path)
        return ShardWithDocuments(FlatIds(path, dtype, lengths, 0, bounds_path), documents)


class Spool:
    """The body of a file whose header says how long it is: kept in a temporary file until that is known."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(_SPOOL_MEMORY)  # noqa: SIM115 - closed by copy_to or __del__

    def write(self, data: bytes | memoryview) -> None:
        try:
            self._file.write(data)
        except OSError as error:  # which names no file
            raise OSError(error.errno, error.strerror, tempfile.gettempdir()) from error

    def copy_to(self, file: BinaryIO) -> None:
        """Write all of it to another file, and forget it."""
        self._file.seek(0)
        while data := self._file.read(_COPIED):
            file.write(data)
        self._file.close()

    def __del__(self) -> None:
        # The writer of a shard that fails half-way is never closed.
        self._file.close()
