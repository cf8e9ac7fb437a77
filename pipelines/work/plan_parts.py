"""The work items of a plan in files, which workers read: a graph holds their names, never what is in them. No Beam.

A part is JSON lines: first the rank of its first item and the read settings, then an item a line. Its name ends with
the sha256 of its bytes, so every attempt that writes a plan's parts writes the same files. What the second pass of a
shuffle and the pack stage have to do lies in such files, too.
"""

from __future__ import annotations

import bisect
import itertools
import json
import zlib
from array import array
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import orjson

from tokcore.errors import LedgerError
from tokcore.files.canonical_json import hash_sha256, write_canonical_json, write_canonical_lines
from tokcore.files.jsonable import from_jsonable, to_jsonable
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.plan import AssignedRange, Assignment, DropList, Plan, ReadSettings, Rejection, WorkItem

T = TypeVar("T")

# The names of all parts take at most 100 kB of a graph, however large the plan is.
MAX_PARTS = 1024
_ITEMS_PER_PART = 1000
_BLOCK_BYTES = 1 << 15  # of lines that are compressed together


def count_parts(num_items: int) -> int:
    """How many parts a plan with num_items work items has."""
    return min(MAX_PARTS, -(-num_items // _ITEMS_PER_PART))


def name_part(number: int, sha256: str) -> str:
    """The name of a part among the files of a stage's working folder."""
    return f"plan-{number:04d}-{sha256}.jsonl"


def write_plan_parts(attempts: Attempts, plan: Plan) -> list[str]:
    """Write the plan's work items, the largest first, into files of the working folder; their names."""
    num_items = len(plan.items)
    ranks = np.empty(num_items, np.int64)
    ranks[np.asarray(plan.rank_largest_first(), np.int64)] = np.arange(num_items)
    starts = [first for first, _ in _cut_parts(num_items)]
    lines = [_ShuffledLines() for _ in starts]
    # In the order of the plan: its rows are packed in blocks, and in another order each would unpack a block again.
    for rank, item in zip(map(int, ranks), plan.items, strict=True):
        lines[bisect.bisect_right(starts, rank) - 1].add(rank, _encode_item(plan, item))
    settings = [to_jsonable(one) for one in plan.settings]
    parts = (
        b"".join([write_canonical_json({"first": first, "settings": settings}), *part.list_by_rank()])
        for first, part in zip(starts, lines, strict=True)
    )
    return _write_parts(attempts, parts)


def write_pieces(attempts: Attempts, pieces: Iterable[Any], num: int) -> list[str]:
    """Write what a step has to do, other than work items, into files of the working folder; their names.

    num: of pieces.
    """
    left = iter(pieces)
    return _write_parts(
        attempts,
        (
            write_canonical_lines([{"first": first}, *map(to_jsonable, itertools.islice(left, end - first))])
            for first, end in _cut_parts(num)
        ),
    )


def _cut_parts(num_items: int) -> list[tuple[int, int]]:
    """The ranks [first, end) of the items of each part."""
    num_parts = count_parts(num_items)
    return [(num_items * i // num_parts, num_items * (i + 1) // num_parts) for i in range(num_parts)]


def _write_parts(attempts: Attempts, parts: Iterable[bytes]) -> list[str]:
    names = []
    for number, data in enumerate(parts):
        name = name_part(number, hash_sha256(data))
        storage.create_exclusive(attempts.url(name), data, attempts.scratch)
        names.append(name)
    return names


def read_plan_part(attempts: Attempts, name: str) -> Iterator[tuple[int, Assignment]]:
    """The work items of a part, each after its rank. Raises LedgerError unless they are what was written."""
    head, *lines = _read_lines(attempts, name)
    told = json.loads(head)
    settings = [from_jsonable(ReadSettings, value, name) for value in told["settings"]]
    for rank, line in enumerate(lines, told["first"]):
        number, ranges, *drops = json.loads(line)
        yield (
            rank,
            Assignment(
                number,
                tuple(
                    AssignedRange(file, uri, size_bytes, version, start, end, settings[which], *_decode_cut(*more))
                    for file, uri, size_bytes, version, start, end, which, *more in ranges
                ),
                DropList(*drops) if drops else None,
            ),
        )


def read_pieces(attempts: Attempts, name: str, cls: type[T]) -> Iterator[tuple[int, T]]:
    """What write_pieces wrote into a file, each after its rank. Raises LedgerError unless it is what was written."""
    head, *lines = _read_lines(attempts, name)
    for rank, line in enumerate(lines, json.loads(head)["first"]):
        yield rank, from_jsonable(cls, json.loads(line), name)


def _read_lines(attempts: Attempts, name: str) -> list[bytes]:
    url = attempts.url(name)
    data = storage.read_bytes(url)
    if f"-{hash_sha256(data)}." not in name:
        raise LedgerError(f"{redact(url)}: not the work items that were written there")
    return data.splitlines()


class _ShuffledLines:
    """Collects the lines of a part, in any order. Most are kept compressed: all parts together may take gigabytes."""

    def __init__(self) -> None:
        self._ranks = array("q")
        self._waiting = bytearray()
        self._blocks: list[bytes] = []

    def add(self, rank: int, line: bytes) -> None:
        """Take one more, with its line feed."""
        self._ranks.append(rank)
        self._waiting += line
        if len(self._waiting) > _BLOCK_BYTES:
            self._blocks.append(zlib.compress(self._waiting, 1))
            self._waiting.clear()

    def list_by_rank(self) -> list[bytes]:
        """All of them, in the order of their ranks."""
        lines = b"".join([*map(zlib.decompress, self._blocks), self._waiting]).splitlines(keepends=True)
        return [line for _, line in sorted(zip(self._ranks, lines, strict=True))]


def _encode_item(plan: Plan, item: WorkItem) -> bytes:
    ranges: list[Any] = []
    for r in item.ranges:
        file = plan.files[r.file]
        told = [r.file, file.uri, file.size_bytes, file.version, r.start, r.end, file.settings]
        if file.cuts:
            why = plan.rejections.get(r.file)
            told += [file.extent, *((why.reason, why.detail) if why is not None else ())]
        ranges.append(told)
    # The bytes of canonical JSON, without its checks, which would take longer than everything else here.
    drops = plan.drops[item.number] if plan.drops else None
    line = [item.number, ranges] if drops is None else [item.number, ranges, drops.url, drops.sha256, drops.by]
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def _decode_cut(extent: int = 0, *why: str) -> tuple[int, Rejection | None]:
    """What a range of a file with cuts says of the file."""
    return extent, Rejection(*why) if why else None
