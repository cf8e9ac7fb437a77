"""Files of tombstones: sorted records of 16 bytes, of which there may be a hundred million.

    magic      16 bytes
    records    16 bytes each: tombstones, ascending, each once
    ends       8 bytes each, 2^bits of them: how many records begin with that many bits of this value, or less
    records, bits   8 bytes each

Numbers are little-endian. A reader holds `ends` in memory, 4 MB for a hundred million records, and reads the few
records that begin like the one that is wanted. All that is done with whole files goes by the first byte of records, so
that memory holds a 256th of them: tombstones are keyed hashes, and spread evenly.

Leaves to others: what is hashed (tokcore.shards.tombstones), where files are, and who names them.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import sys
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.errors import ChecksumError, FormatError

MAGIC = b"tokcore-tombs-1\n"
RECORD_BYTES = 16
_MOST_BITS = 20
_RECORDS_PER_END = 256  # about, up to 2^28 records
_COARSE_BITS = 8  # by which whole files are gone through
SPILL_RECORDS = 1 << 20  # that wait in memory, at most

Hashes = npt.NDArray[np.uint64]  # [num, 2]: records as two big-endian numbers, so that their order is that of numbers


class WrittenHashes(NamedTuple):
    """What write_hashes made."""

    num: int
    sha256: str


class HashFile:
    """An open file of tombstones. Several threads may use it.

    >>> with tempfile.NamedTemporaryFile() as named:
    ...     written = write_hashes(named, iterate_blocks([bytes(16), bytes(15) + b"1"]))
    ...     named.flush()
    ...     with HashFile(named.name, written.sha256) as file:
    ...         file.num, file.find([bytes(16), bytes(15) + b"2"]).tolist()
    (2, [True, False])
    """

    def __init__(self, path: str | Path, sha256: str = "") -> None:
        """sha256: of the file, which is then read once. Raises ChecksumError if it is another one, else FormatError."""
        self.path = str(path)
        try:
            self._file = Path(path).open("rb")  # noqa: SIM115 - closed by close()
        except FileNotFoundError as error:
            raise FormatError(
                f"{path}: missing, and a commit names it: it says what was removed. Put it back from a copy of the "
                f"output: nothing else has what it holds."
            ) from error
        try:
            if sha256 and (found := hashlib.file_digest(self._file, "sha256").hexdigest()) != sha256:
                raise ChecksumError(
                    f"{path}: its sha256 is {found}, a commit names {sha256}. The file was changed: put it back from a "
                    f"copy of the output."
                )
            self._read_ends()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> HashFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, of: TracebackType | None) -> None:
        self.close()

    def __len__(self) -> int:
        return self.num

    def __contains__(self, record: bytes) -> bool:
        bits = self._bits
        place = int.from_bytes(record[:8], "big") >> (64 - bits) if bits else 0
        start = self._ends[place - 1] if place else 0
        size = (self._ends[place] - start) * RECORD_BYTES
        if not size:
            return False
        data = os.pread(self._file.fileno(), size, RECORD_BYTES * (start + 1))
        at = data.find(record)
        while at >= 0 and at % RECORD_BYTES:  # across two records
            at = data.find(record, at + 1)
        return at >= 0

    def find(self, records: Iterable[bytes]) -> npt.NDArray[np.bool_]:
        """Whether each of these records is in the file."""
        return np.array([record in self for record in records], bool)

    def read_block(self, first: int) -> Hashes:
        """The records whose first byte is this."""
        if self._bits >= _COARSE_BITS:
            shift = self._bits - _COARSE_BITS
            start = self._ends[(first << shift) - 1] if first else 0
            return self._read(start, self._ends[((first + 1) << shift) - 1])
        found = self._read(0, self.num)
        chosen: Hashes = found[found[:, 0] >> np.uint64(64 - _COARSE_BITS) == first]
        return chosen

    def blocks(self) -> Iterator[Hashes]:
        """All records, by their first byte: 256 times those that begin with it."""
        return map(self.read_block, range(1 << _COARSE_BITS))

    def check(self) -> str:
        """What is wrong with the records; empty if nothing is. Reads the file."""
        counts, before = _Counts(), np.zeros((0, 2), np.uint64)
        for first, block in enumerate(self.blocks()):
            if len(block) and (block[:, 0] >> np.uint64(64 - _COARSE_BITS) != first).any():
                return "records do not lie where the ends of records say"
            above, below = (beside := np.concatenate([before, block]))[1:], beside[:-1]
            if not ((above[:, 0] > below[:, 0]) | ((above[:, 0] == below[:, 0]) & (above[:, 1] > below[:, 1]))).all():
                return "records are not in order, or one is there twice"
            counts.add(block)
            before = beside[-1:]
        is_right = self._bits == _choose_bits(self.num) and [*counts.list_ends(self._bits)] == [*self._ends]
        return "" if is_right else "the ends of records are not where they are"

    def close(self) -> None:
        """Close the file. One that nobody has any more is closed, too."""
        self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def _read(self, start: int, end: int) -> Hashes:
        data = os.pread(self._file.fileno(), (end - start) * RECORD_BYTES, RECORD_BYTES * (start + 1))
        return _read_hashes(data)

    def _read_ends(self) -> None:
        size = os.fstat(self._file.fileno()).st_size
        tail = os.pread(self._file.fileno(), 16, max(0, size - 16))
        self.num, self._bits = (int.from_bytes(tail[at : at + 8], "little") for at in (0, 8))
        is_one = os.pread(self._file.fileno(), RECORD_BYTES, 0) == MAGIC and self._bits <= _MOST_BITS
        if not is_one or size != count_bytes(self.num, self._bits):
            raise FormatError(
                f"{self.path}: not a whole file of tombstones, or of a later release: put it back from a copy of the "
                f"output, or upgrade tokcore."
            )
        self._ends = array("Q")
        self._ends.frombytes(os.pread(self._file.fileno(), 8 << self._bits, RECORD_BYTES * (self.num + 1)))
        if sys.byteorder == "big":
            self._ends.byteswap()
        ends = np.frombuffer(self._ends, np.uint64)
        if ends[-1] != self.num or (ends[1:] < ends[:-1]).any():
            raise FormatError(f"{self.path}: its ends of records do not ascend: put it back from a copy of the output.")


class HashSorter:
    """Takes any number of tombstones, in any order, and gives them sorted and each once, in little memory.

    What memory does not hold waits in a file without a name.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        """folder: where the file is; None: where the machine has temporary files."""
        self._folder = folder
        self._waiting: list[bytes] = []
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by close()
        self._bounds: list[npt.NDArray[np.int64]] = []  # of each spilled run: where first bytes begin, in the file

    def add(self, record: bytes) -> None:
        """Take a tombstone."""
        self._waiting.append(record)
        if len(self._waiting) >= SPILL_RECORDS:
            self._spill()

    def blocks(self) -> Iterator[Hashes]:
        """All that were added, by their first byte, as HashFile.blocks()."""
        self._spill()
        self._file.flush()
        for first in range(1 << _COARSE_BITS):
            spans = ((int(bounds[first]), int(bounds[first + 1])) for bounds in self._bounds)
            data = [os.pread(self._file.fileno(), end - start, start) for start, end in spans]
            yield _sort_distinct(_read_hashes(b"".join(data)))

    def close(self) -> None:
        """Free the file. That of one that nobody has any more is freed, too."""
        self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def _spill(self) -> None:
        """Write what waits, dealt by first bytes."""
        if not self._waiting:
            return
        data = b"".join(self._waiting)
        self._waiting.clear()
        firsts = np.frombuffer(data, np.uint8)[::RECORD_BYTES]
        order = np.argsort(firsts, kind="stable")
        start = self._file.seek(0, os.SEEK_END)
        self._file.write(np.frombuffer(data, f"V{RECORD_BYTES}")[order].tobytes())
        counts = np.bincount(firsts, minlength=1 << _COARSE_BITS)
        self._bounds.append(start + RECORD_BYTES * np.concatenate([[0], np.cumsum(counts)]))


def write_hashes(file: IO[bytes], blocks: Iterable[Hashes]) -> WrittenHashes:
    """Write tombstones to an open file. blocks: 256, as HashFile.blocks() gives them."""
    counts = _Counts()
    hasher = hashlib.sha256()

    def write(data: bytes) -> None:
        hasher.update(data)
        file.write(data)

    write(MAGIC)
    for block in blocks:
        counts.add(block)
        write(block.astype(">u8").tobytes())
    bits = _choose_bits(counts.num)
    write(counts.list_ends(bits).astype("<u8").tobytes())
    write(counts.num.to_bytes(8, "little") + bits.to_bytes(8, "little"))
    return WrittenHashes(counts.num, hasher.hexdigest())


class _Counts:
    """How many records begin with each value of their first bits."""

    def __init__(self) -> None:
        self.num = 0
        self._counts = np.zeros(1 << _MOST_BITS, np.int64)

    def add(self, block: Hashes) -> None:
        """Count records, which are sorted."""
        if len(block):
            places = (block[:, 0] >> np.uint64(64 - _MOST_BITS)).astype(np.int64)
            found = np.bincount(places - places[0])
            self._counts[places[0] : places[0] + len(found)] += found
            self.num += len(block)

    def list_ends(self, bits: int) -> npt.NDArray[np.int64]:
        """Of each value of that many bits, how many records begin with it or a lower one."""
        ends: npt.NDArray[np.int64] = np.cumsum(self._counts.reshape(1 << bits, -1).sum(axis=1))
        return ends


def iterate_blocks(records: Iterable[bytes]) -> Iterator[Hashes]:
    """These tombstones as HashFile.blocks() gives those of a file."""
    found = _sort_distinct(_read_hashes(b"".join(records)))
    bounds = np.searchsorted(found[:, 0] >> np.uint64(64 - _COARSE_BITS), np.arange(257, dtype=np.uint64)).tolist()
    return (found[start:end] for start, end in itertools.pairwise(bounds))


def unite(*of: Iterable[Hashes]) -> Iterator[Hashes]:
    """The blocks of all that one of these has."""
    return (_sort_distinct(np.concatenate(blocks)) for blocks in zip(*of, strict=True))


def subtract(one: Iterable[Hashes], *of: Iterable[Hashes]) -> Iterator[Hashes]:
    """The blocks of what the first one has and no other one."""
    for block, *others in zip(one, *of, strict=True):
        yield block[~_mark(block, _sort_distinct(np.concatenate(others)))] if others else block


def intersect(one: Iterable[Hashes], other: Iterable[Hashes]) -> Iterator[Hashes]:
    """The blocks of what both have."""
    for block, beside in zip(one, other, strict=True):
        yield block[_mark(block, beside)]


def count(blocks: Iterable[Hashes]) -> int:
    """How many tombstones these are."""
    return sum(map(len, blocks))


def spell_records(blocks: Iterable[Hashes]) -> Iterator[str]:
    """These tombstones, each as 32 hexadecimal digits."""
    for block in blocks:
        data = block.astype(">u8").tobytes().hex()
        yield from (data[at : at + 2 * RECORD_BYTES] for at in range(0, len(data), 2 * RECORD_BYTES))


def count_bytes(num: int, bits: int | None = None) -> int:
    """The size in bytes of a file of that many tombstones."""
    return RECORD_BYTES * (num + 2) + (8 << (_choose_bits(num) if bits is None else bits))


def _choose_bits(num: int) -> int:
    return min(_MOST_BITS, (max(0, num - 1) // _RECORDS_PER_END).bit_length())


def _read_hashes(data: bytes) -> Hashes:
    return np.frombuffer(data, ">u8").astype(np.uint64).reshape(-1, 2)


def _sort_distinct(hashes: Hashes) -> Hashes:
    hashes = hashes[np.lexsort((hashes[:, 1], hashes[:, 0]))]
    return hashes[np.append(True, (hashes[1:] != hashes[:-1]).any(axis=1))] if len(hashes) else hashes


def _mark(block: Hashes, beside: Hashes) -> npt.NDArray[np.bool_]:
    """Which of these tombstones are among others. Both are sorted and distinct."""
    if not len(block):
        return np.zeros(0, bool)
    together = np.concatenate([block, beside])
    order = np.lexsort((together[:, 1], together[:, 0]))
    ordered = together[order]
    is_twice = np.append((ordered[1:] == ordered[:-1]).all(axis=1), False)
    marked = np.zeros(len(together), bool)
    marked[order[is_twice]] = True  # the sort is stable, so the first of two is that of the block
    return marked[: len(block)]
