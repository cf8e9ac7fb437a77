"""The entries of a long manifest, as compressed JSON: a file takes about 130 bytes instead of 730.

What is looked at is unpacked again, a block at a time, so a pass over all of them needs no more memory than one block.
Very many blocks are not held either: they wait in a file without a name.
"""

from __future__ import annotations

import itertools
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

import orjson

from tokcore.errors import FormatError
from tokcore.files.canonical_json import parse_canonical, write_canonical_json
from tokcore.files.jsonable import from_jsonable, to_jsonable
from tokcore_schemas.cut_manifest import ManifestStream
from tokcore_schemas.manifest import FileEntry, LongFiles
from tokcore_schemas.spooled_blocks import SpooledBlocks

_FAST = 1  # of zlib: what does not compress are hashes
_BLOCK_ENTRIES = 512  # that are packed together where there is no JSON yet
_MOST_UNPACKED = 1 << 13  # entries: a stored manifest of more is read as a long one


class PackedEntries(LongFiles):
    """A sequence of entries, equal to a tuple of the same ones."""

    def __init__(self, about: Any, blocks: Sequence[bytes], ends: Sequence[int]) -> None:
        """about: the type of what is said of a file. blocks: canonical JSON, packed. ends: entries up to each."""
        self._about, self._blocks, self._ends = about, blocks, ends
        self._seen: tuple[int, list[FileEntry[Any]]] = (-1, [])  # the block that was looked at last
        self._parts: dict[str, list[str]] = {}

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

    def list_json(self) -> Iterator[bytes]:
        """As of LongFiles."""
        return (zlib.decompress(block)[1:-2] for block in self._blocks)

    def list_values(self) -> Iterator[dict[str, Any]]:
        """As of LongFiles."""
        return itertools.chain.from_iterable(orjson.loads(zlib.decompress(block)) for block in self._blocks)

    def remember_parts(self, stage: str, compute: Callable[[], list[str]]) -> list[str]:
        """As of LongFiles."""
        if stage not in self._parts:
            self._parts[stage] = compute()
        return self._parts[stage]

    def _unpack(self, block: bytes) -> Iterator[FileEntry[Any]]:
        return (from_jsonable(FileEntry[self._about], one, "") for one in orjson.loads(zlib.decompress(block)))  # type: ignore[name-defined]


def collect_entries(
    entries: Iterable[FileEntry[Any]], about: Any, most: int = _MOST_UNPACKED
) -> tuple[FileEntry[Any], ...] | PackedEntries:
    """The same entries, as a manifest has them: packed, if they are more than most.

    about: the type of what is said of a file.
    """
    waiting = iter(entries)
    first = tuple(itertools.islice(waiting, most + 1))
    if len(first) <= most:
        return first
    waiting = itertools.chain(first, waiting)
    blocks, ends = SpooledBlocks(), [0]
    while some := [*itertools.islice(waiting, _BLOCK_ENTRIES)]:
        blocks.append(zlib.compress(write_canonical_json(to_jsonable(some)), _FAST))
        ends.append(ends[-1] + len(some))
    return PackedEntries(about, blocks, ends[1:])


def pack_entries(chunks: Iterable[bytes], about: Any, name: str) -> tuple[bytes, PackedEntries]:
    """(the manifest without its files, its files). chunks: canonical JSON of a manifest, which need not be sound.

    name: of the file. Raises FormatError or ValueError unless both are canonical, and entries are of that type: then
    the whole is. No more than a block is unpacked at a time.
    """
    stream = ManifestStream(chunks)
    blocks, ends = SpooledBlocks(), []
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
