"""What a loader reads rows from: shards whose ids follow each other, opened one by one when a row needs them."""

from __future__ import annotations

import resource
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tokcore.errors import ConfigError, FormatError
from tokcore.formats.shard_format import ShardReader
from tokcore.shards.opened_shards import MAX_OPEN, OpenableShard
from tokcore.train.removed_documents import RemovedNames, find_gaps
from tokcore.train.row_order import Rows

_FILES_PER_SHARD = 4
_FILES_OF_OTHERS = 128
_NOWHERE: tuple[Rows, Rows] = (np.zeros(0, np.int64), np.zeros(0, np.int64))


class RowReader(Protocol):
    """What a loader asks of an open shard; see ShardReader."""

    def part(self, start: int, end: int) -> npt.NDArray[Any]: ...
    def find_bounds(self, starts: Rows, ends: Rows) -> tuple[Rows, Rows]: ...
    @property
    def mapped(self) -> npt.NDArray[Any] | None: ...


class PackedReader:
    """A shard of packed rows, with the bounds of the documents in them."""

    def __init__(self, reader: ShardReader, shard: OpenableShard) -> None:
        """Raises FormatError, naming the file, if its pieces file is gone, damaged, or another shard's."""
        file = shard.find_pieces()
        if file is None:
            raise FormatError(f"{shard.path}: its pieces file is not there, which says where documents end in its rows")
        self.part = reader.part
        self.mapped = reader.mapped
        self._length = file.length
        pieces = file.read()
        num_rows = pieces.num_rows
        last = int(pieces.lengths[pieces.rows == num_rows - 1].sum())
        # The last row may be kept without padding. Formats without bounds do not say how many rows there are.
        if reader.num_tokens not in (num_rows * file.length, (num_rows - 1) * file.length + last):
            raise FormatError(
                f"{file.path}: has {num_rows} rows of {file.length} ids, and {shard.path} has {reader.num_tokens} ids"
            )
        counts, self._places = pieces.find_bounds(num_rows, file.length)
        self._ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])

    def find_bounds(self, starts: Rows, ends: Rows) -> tuple[Rows, Rows]:
        """As of a ShardReader; each part is a row. The end of a row's last document counts, where padding follows."""
        rows = starts // self._length
        counts = self._ends[rows + 1] - self._ends[rows]
        before = np.cumsum(counts) - counts
        return counts, self._places[np.arange(int(counts.sum())) + np.repeat(self._ends[rows] - before, counts)]


class RowStream:
    """Shards whose ids follow each other."""

    def __init__(self, files: Sequence[OpenableShard], name: str, removed: RemovedNames | None = None) -> None:
        """removed: what find_removed() looks for; None: nothing."""
        self.name = name
        self._removed = removed
        self._found: dict[int, tuple[Rows, Rows]] = {}
        self._files = files
        self._open: OrderedDict[int, RowReader] = OrderedDict()
        self._length = 0  # of packed rows
        nums = [file.num_tokens if file.num_tokens is not None else file.open().num_tokens for file in files]
        self.starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(nums, np.int64))])
        self.num_tokens = int(self.starts[-1])

    def align(self, length: int) -> None:
        """Where shards hold packed rows, begin each with a row. length: ids of a row.

        Raises ConfigError if the packed rows are of another length.
        """
        pieces = self._files[0].find_pieces() if self._files else None
        if pieces is None:
            return
        if pieces.length != length:
            raise ConfigError(
                f"length = {length}: the rows in {self._files[0].path} have {pieces.length} ids: give that length"
            )
        self._length = length
        # A last row that was kept as it is has fewer ids, and is no row here.
        self.starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.diff(self.starts) // length * length)])
        self.num_tokens = int(self.starts[-1])

    def open(self, number: int) -> RowReader:
        """A shard. Raises FormatError, naming it, if it is damaged or not what the manifest says."""
        if (open_one := self._open.get(number)) is not None:
            return open_one
        reader = self._files[number].open()
        expected, found = int(self.starts[number + 1] - self.starts[number]), reader.num_tokens
        shard: RowReader = reader
        if self._length:
            shard, found = PackedReader(reader, self._files[number]), found // self._length * self._length
        if found != expected:
            raise FormatError(f"{self._files[number].path}: {found} ids, expected {expected}")
        self._open[number] = shard
        # What is at a URL is not mapped: its index is in memory.
        if len(self._open) > (MAX_OPEN if self._files[number].files else count_openable()):
            self._open.popitem(last=False)
        return shard

    def find_removed(self, number: int) -> tuple[Rows, Rows]:
        """Where documents of a shard that were removed begin and end, in its ids. Reads the shard once.

        In rows that stayed where they are, padding is there in place of these already.
        """
        file = self._files[number]
        if self._removed is None and not file.has_gaps:
            return _NOWHERE
        if (found := self._found.get(number)) is None:
            found = find_gaps(file) if self._removed is None else self._removed.find(file)
            self._found[number] = found
        return found

    def close(self) -> RowStream:
        """The same stream without what cannot be pickled."""
        other = object.__new__(RowStream)
        vars(other).update({**vars(self), "_open": OrderedDict()})
        return other


def count_openable() -> int:
    """Return how many shards may be open at a time. The system limits the open files of a process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, min((soft if soft > 0 else 1 << 20) - _FILES_OF_OTHERS, 1 << 15) // _FILES_PER_SHARD)
