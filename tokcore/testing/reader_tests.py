"""What holds for every reader of input files: records do not depend on how bytes arrive, and damage is told as such."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, ClassVar

import numpy as np
import pytest

from tokcore.errors import FormatError
from tokcore.plugins.reader import Reader
from tokcore.testing.shard_examples import flip_bit

Records = Sequence[Mapping[str, Any]]

_PLACES = 200


class ReaderTests:
    """Tests of a reader: derive from it, and set `reader` and `files`."""

    reader: Reader
    files: Mapping[bytes, Records]  # what is in a file -> the records that are read from it
    # Whether a file says where it ends, so that one that is cut anywhere is refused.
    proves_end: ClassVar[bool] = False

    def test_records_are_those_of_the_file(self) -> None:
        assert self.files
        for data, records in self.files.items():
            found = [*self.reader.read(io.BytesIO(data))]
            assert found == [*records]
            for record in found:
                for name, value in record.items():
                    assert isinstance(name, str)
                    assert value is None or (type(value) in (str, bytes, int)), (name, value)

    def test_records_do_not_depend_on_how_bytes_arrive(self) -> None:
        for data, records in self.files.items():
            for size in (1, 2, 7, 4096):
                assert [*self.reader.read(_make_slow_file(data, size))] == [*records]

    def test_files_are_read_beside_each_other(self) -> None:
        """As in several threads: nothing is kept between calls, or between the records of a call."""
        twice = [*self.files.items()] * 2
        open_files = [self.reader.read(io.BytesIO(data)) for data, _ in twice]
        found = [[*filter(None, column)] for column in zip(*itertools.zip_longest(*open_files), strict=True)]
        assert found == [[*filter(None, records)] for _, records in twice]

    def test_a_cut_file_is_refused_as_such_or_gives_what_is_left(self) -> None:
        for data in self.files:
            for end in range(0, len(data), max(1, len(data) // _PLACES)):
                if self.proves_end:
                    with pytest.raises(FormatError):
                        [*self.reader.read(io.BytesIO(data[:end]))]
                else:
                    self._read_or_refuse(data[:end])

    def test_a_damaged_file_raises_nothing_else(self) -> None:
        chance = np.random.default_rng(11)
        for data in self.files:
            for _ in range(min(_PLACES, 8 * len(data))):
                self._read_or_refuse(flip_bit(data, int(chance.integers(len(data))), int(chance.integers(8))))
            self._read_or_refuse(data + b"\0")
            self._read_or_refuse(data[::-1])
        for size in (1, 64, 5000):
            self._read_or_refuse(chance.bytes(size))

    def _read_or_refuse(self, data: bytes) -> None:
        """Twice, with the same end: nothing but bytes decides."""
        ends = []
        for _ in range(2):
            try:
                ends.append(str([*self.reader.read(io.BytesIO(data))]))
            except FormatError as error:
                ends.append(str(error))
        assert ends[0] == ends[1]


class _SlowFile(io.RawIOBase):
    """Gives few bytes at a time, and goes forward only, as what is decompressed or comes from a store."""

    def __init__(self, data: bytes, size: int) -> None:
        self._parts: Iterator[bytes] = (data[at : at + size] for at in range(0, len(data), size))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = next(self._parts, b"")
        buffer[: len(part)] = part
        return len(part)


def _make_slow_file(data: bytes, size: int) -> BinaryIO:
    return io.BufferedReader(_SlowFile(data, size), buffer_size=size)
