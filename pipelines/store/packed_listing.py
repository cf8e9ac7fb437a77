"""What a folder holds, packed: a file takes about 40 bytes instead of 340. There may be millions below an output."""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping

from tokcore_pipelines.store.pins import Footprint
from tokcore_schemas.packed_rows import Row, SortedRows

_BLOCK_ROWS = 64
_BLOCKS = 64  # that stay unpacked: the files of a shard lie in several folders

Listed = tuple[str, Footprint]


class PackedListing(Mapping[str, Footprint]):
    """Path below the folder -> footprint, in the order of paths."""

    def __init__(self, listed: Iterable[Listed]) -> None:
        """listed: each path once, in any order; memory is least where they are sorted."""
        rows = SortedRows(_flatten, _build, _get_path, _BLOCK_ROWS)
        for one in listed:
            rows.add(one)
        self._rows = rows.pack()
        self._firsts = [self._rows[first][0] for first in range(0, len(self._rows), _BLOCK_ROWS)]
        self._read_block = functools.lru_cache(_BLOCKS)(self._read_any_block)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return (path for path, _ in self._rows)

    def __getitem__(self, path: str) -> Footprint:
        return self._read_block(bisect_right(self._firsts, path) - 1)[path][1]

    def list_all(self) -> Iterator[Listed]:
        """As items(), faster."""
        return iter(self._rows)

    def find_number(self, path: str) -> int | None:
        """Its place in the order of paths, from 0; None if it is not there."""
        found = self._read_block(bisect_right(self._firsts, path) - 1).get(path)
        return None if found is None else found[0]

    def below(self, folder: str) -> PackedListing:
        """What is below a folder of it, by paths from there."""
        return PackedListing(self._iterate_below(f"{folder}/"))

    def without(self, is_apart: Callable[[str], bool]) -> PackedListing:
        """All but what is_apart says of its path."""
        if not any(map(is_apart, self)):
            return self
        return PackedListing((path, footprint) for path, footprint in self._rows if not is_apart(path))

    def _iterate_below(self, start: str) -> Iterator[Listed]:
        first = max(0, bisect_right(self._firsts, start) - 1) * _BLOCK_ROWS
        for number in range(first, len(self._rows)):
            path, footprint = self._rows[number]
            if path.startswith(start):
                yield path.removeprefix(start), footprint
            elif path > start:
                return

    def _read_any_block(self, block: int) -> dict[str, tuple[int, Footprint]]:
        numbers = range(max(0, block * _BLOCK_ROWS), min((block + 1) * _BLOCK_ROWS, len(self._rows)))
        return {path: (number, footprint) for number in numbers for path, footprint in (self._rows[number],)}


def _flatten(listed: Listed) -> Row:
    return (listed[0], *listed[1])


def _build(path: str, size_bytes: int, changed: float, version: str) -> Listed:
    return path, Footprint(size_bytes, changed, version)


def _get_path(listed: Listed) -> str:
    return listed[0]
