"""The entries of a long manifest, as compressed JSON: a file takes about 130 bytes instead of 730.

What is looked at is unpacked again, a block at a time, so a pass over all of them needs no more memory than one block.
Very many blocks are not held either: they wait in a file without a name.
"""

from __future__ import annotations

import itertools
import tempfile
import threading
import weakref
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import orjson

from tokcore.errors import FormatError
from tokcore.files.canonical_json import parse_canonical, write_canonical_json
from tokcore.files.jsonable import from_jsonable, to_jsonable
from tokcore_schemas.cut_manifest import ManifestStream
from tokcore_schemas.manifest import FileEntry

_FAST = 1  # of zlib: what does not compress are hashes
_HELD_BYTES = 16 << 20  # of packed entries, in memory


class _Blocks(Sequence[bytes]):
    """Blocks of bytes, appended one by one; in memory as long as there are few."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(_HELD_BYTES)  # noqa: SIM115 - it goes with this object
        weakref.finalize(self, self._file.close)
        self._ends = array("q", [0])
        self._lock = threading.Lock()  # a file has one place where it is read

    def append(self, block: bytes) -> None:
        self._file.seek(self._ends[-1])
        self._file.write(block)
        self._ends.append(self._ends[-1] + len(block))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        with self._lock:
            self._file.seek(self._ends[index])
            return self._file.read(self._ends[index + 1] - self._ends[index])


class PackedEntries(Sequence[FileEntry[Any]]):
    """A sequence of entries, equal to a tuple of the same ones."""

    def __init__(self, about: Any, blocks: Sequence[bytes], ends: Sequence[int]) -> None:
        """about: the type of what is said of a file. blocks: canonical JSON, packed. ends: entries up to each."""
        self._about, self._blocks, self._ends = about, blocks, ends
        self._seen: tuple[int, list[FileEntry[Any]]] = (-1, [])  # the block that was looked at last

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[FileEntry[Any]]:
        for block in self._blocks:
            yield from self._unpack(block)

    @overload
    def __getitem__(self, index: int) -> FileEntry[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[FileEntry[Any], ...]: ...
    def __getitem__(self, index: int | slice) -> FileEntry[Any] | tuple[FileEntry[Any], ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(index)
        number = bisect_right(self._ends, place)
        if self._seen[0] != number:
            self._seen = number, [*self._unpack(self._blocks[number])]
        return self._seen[1][place - (self._ends[number - 1] if number else 0)]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, (tuple, PackedEntries)):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((len(self), *self._ends))

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedEntries, (self._about, [*self._blocks], self._ends)

    def find(self, path: str) -> FileEntry[Any] | None:
        """The first entry of that path. Only blocks whose JSON names it are read."""
        spelled = write_canonical_json(path).rstrip(b"\n")
        held = (block for block in self._blocks if spelled in zlib.decompress(block))
        return next((entry for block in held for entry in self._unpack(block) if entry.path == path), None)

    def _unpack(self, block: bytes) -> Iterator[FileEntry[Any]]:
        return (from_jsonable(FileEntry[self._about], one, "") for one in orjson.loads(zlib.decompress(block)))  # type: ignore[name-defined]


def pack_entries(chunks: Iterable[bytes], about: Any, name: str) -> tuple[bytes, PackedEntries]:
    """(the manifest without its files, its files). chunks: canonical JSON of a manifest, which need not be sound.

    name: of the file. Raises FormatError or ValueError unless both are canonical, and entries are of that type: then
    the whole is. No more than a block is unpacked at a time.
    """
    stream = ManifestStream(chunks)
    blocks, ends = _Blocks(), []
    for block in stream.cut():
        listed = b"[%b]\n" % block
        entries = parse_canonical(listed, name)
        if [to_jsonable(from_jsonable(FileEntry[about], one, name)) for one in entries] != entries:
            raise FormatError(f"{name}: files: a field is missing, or says nothing")
        blocks.append(zlib.compress(listed, _FAST))
        ends.append(len(entries))
    rest = stream.before + stream.after
    value = parse_canonical(rest, name)
    before = {key: value[key] for key in value if key < "files"}
    if value.get("files") != [] or write_canonical_json(before)[:-2] + b',"files":[' != stream.before:
        raise FormatError(f"{name}: its files do not stand where tokcore writes them")
    return rest, PackedEntries(about, blocks, [*itertools.accumulate(ends)])
