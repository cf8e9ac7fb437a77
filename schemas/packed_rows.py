"""Sequences of millions of small things, packed: a file of a plan takes about 30 bytes instead of 800.

Things are flattened to rows of JSON values, and rows are compressed a few at a time. What is looked at is unpacked
again; neighbours cost little. PackedRun sorts more than memory holds unpacked.
"""

from __future__ import annotations

import heapq
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

import orjson

from tokcore_schemas.spooled_blocks import SpooledBlocks

T = TypeVar("T")
Row = Sequence[Any]  # of str, int and lists of them

_BLOCK = 32  # rows that are compressed together
_SORTED_AT_ONCE = 1 << 12  # rows that wait unpacked; each look of a watcher needs memory for that many


class PackedRows(Sequence[T], Generic[T]):
    """A sequence that only grows. What it holds must come back equal from `build(*row)`."""

    def __init__(
        self,
        flatten: Callable[[T], Row],
        build: Callable[..., T],
        things: Iterable[T] = (),
        block_rows: int = _BLOCK,
        blocks: SpooledBlocks | None = None,
    ) -> None:
        """flatten, build: functions that can be pickled. blocks: empty; where packed rows wait, else in memory."""
        self._flatten = flatten
        self._build = build
        self._block_rows = block_rows
        self._blocks: list[bytes] | SpooledBlocks = [] if blocks is None else blocks
        self._last: list[Row] = []  # not yet packed
        self._seen: tuple[int, list[Row]] = (-1, [])  # the block that was looked at last
        for thing in things:
            self.append(thing)

    def append(self, thing: T) -> None:
        """Add one at the end."""
        self._last.append(self._flatten(thing))
        if len(self._last) == self._block_rows:
            self._blocks.append(_pack(self._last))
            self._last = []

    def __len__(self) -> int:
        return len(self._blocks) * self._block_rows + len(self._last)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(index)
        number, row = divmod(place, self._block_rows)
        return self._build(*self._read_block(number)[row])

    def __iter__(self) -> Iterator[T]:
        for block in self._blocks:
            for row in _unpack(block):
                yield self._build(*row)
        for row in self._last:
            yield self._build(*row)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, (str, bytes)):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"<{len(self):,}: {shown}{', ...' if len(self) > 3 else ''}>"

    def _read_block(self, number: int) -> list[Row]:
        if number == len(self._blocks):
            return self._last
        seen = self._seen  # one name, since threads may look at the same time
        if seen[0] != number:
            self._seen = seen = (number, _unpack(self._blocks[number]))
        return seen[1]


class SortedRows(Generic[T]):
    """Sorts more things than fit into memory unpacked. Of equal keys, what was added first comes first."""

    def __init__(
        self,
        flatten: Callable[[T], Row],
        build: Callable[..., T],
        key: Callable[[T], Any],
        block_rows: int = _BLOCK,
        sorted_at_once: int = _SORTED_AT_ONCE,
    ) -> None:
        """flatten, build: as for PackedRows."""
        self._block_rows = block_rows
        self._sorted_at_once = sorted_at_once
        self._flatten = flatten
        self._build = build
        self._key = key
        self._waiting: list[T] = []
        self._runs: list[PackedRows[T]] = []  # each sorted
        self._end: Any = None  # the last key of the last run

    def add(self, thing: T) -> None:
        """Take one more."""
        self._waiting.append(thing)
        if len(self._waiting) == self._sorted_at_once:
            self._pack_waiting()

    def _pack_waiting(self) -> None:
        self._waiting.sort(key=self._key)
        # Listings come in order, and then there is one run.
        if not self._runs or self._key(self._waiting[0]) < self._end:
            self._runs.append(self._make_run(()))
        for thing in self._waiting:
            self._runs[-1].append(thing)
        self._end = self._key(self._waiting[-1])
        self._waiting = []

    def _make_run(self, things: Iterable[T]) -> PackedRows[T]:
        return PackedRows(self._flatten, self._build, things, self._block_rows)

    def pack(self) -> PackedRows[T]:
        """Everything that was added, in order and packed. Nothing may be added afterwards."""
        if self._waiting:
            self._pack_waiting()
        return self._runs[0] if len(self._runs) == 1 else self._make_run(self)

    def __iter__(self) -> Iterator[T]:
        """All that was added, in order."""
        self._waiting.sort(key=self._key)
        if not self._runs:
            return iter(self._waiting)
        return heapq.merge(*self._runs, self._waiting, key=self._key)


def _pack(rows: Sequence[Row]) -> bytes:
    try:
        told = orjson.dumps(rows)
    except TypeError:  # a lone surrogate: a name of a local file that is not UTF-8
        told = json.dumps(rows).encode()
    return zlib.compress(told, 1)


def _unpack(block: bytes) -> list[Row]:
    told = zlib.decompress(block)
    try:
        return orjson.loads(told)  # type: ignore[no-any-return]
    except orjson.JSONDecodeError:
        return json.loads(told)  # type: ignore[no-any-return]
