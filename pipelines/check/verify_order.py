"""How verification checks the order of documents: that of the plan, or that of a shuffle. No Beam."""

from __future__ import annotations

import hashlib
import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Protocol

import numpy as np

from tokcore.formats.provenance import Places
from tokcore.formats.shard_facts import ShardFacts
from tokcore.shards.token_batch import TokenBatch
from tokcore_schemas.plan import AssignedRange, Plan
from tokcore_schemas.shuffle import get_heads

_HASH_BYTES = 32


class Order(Protocol):
    """Checks the order of documents; is given all documents of some shards, batch by batch."""

    def add(self, shard: ShardFacts, batch: TokenBatch) -> None:
        """Look at the next documents of a shard, with the records that they came from."""

    def add_places(self, shard: ShardFacts, places: Places) -> None:
        """Look at where a shuffle put them."""

    def close(self) -> None:
        """Call it after the last document."""


class AnyOrder:
    """That of documents which no plan puts in order."""

    def add(self, shard: ShardFacts, batch: TokenBatch) -> None:
        """Does nothing."""

    def add_places(self, shard: ShardFacts, places: Places) -> None:
        """Does nothing: only a shuffle has places."""

    def close(self) -> None:
        """Does nothing."""


class PlanOrder:
    """That documents come from the item's ranges, in their order, each at most once."""

    def __init__(self, ranges: Sequence[AssignedRange], num_records: Mapping[str, int], problems: list[str]) -> None:
        self._ranges = ranges
        self._num_records = num_records
        self._numbers = {one.uri: number for number, one in enumerate(ranges)}
        self._problems = problems
        self._last: dict[tuple[str, str], tuple[int, int]] = {}  # (folder, split) -> (range, ordinal)
        self._seen: list[list[Any]] = [[] for _ in ranges]

    def add_places(self, shard: ShardFacts, places: Places) -> None:
        """Does nothing: only a shuffle has places."""

    def add(self, shard: ShardFacts, batch: TokenBatch) -> None:
        by_source = batch.sources.by_label()
        unknown = by_source.keys() - self._numbers.keys()
        if unknown:
            self._problems.append(
                f"shards: {shard.shard} holds documents of {sorted(unknown)[0]}, which is not planned for it"
            )
            return
        numbers = np.empty(batch.num_documents, np.int64)
        for source, where in by_source.items():
            numbers[where] = self._numbers[source]
        ordinals = batch.ordinals
        last = self._last.get((shard.folder, shard.split), (-1, -1))
        before_numbers = np.concatenate(([last[0]], numbers[:-1]))
        before_ordinals = np.concatenate(([last[1]], ordinals[:-1]))
        ascending = (numbers > before_numbers) | ((numbers == before_numbers) & (ordinals > before_ordinals))
        if not ascending.all():
            row = int(np.flatnonzero(~ascending)[0])
            self._problems.append(
                f"shards: {shard.shard}: {batch.sources[row]}, ordinal {int(ordinals[row])} "
                f"comes after ordinal {int(before_ordinals[row])}: out of order, or there twice"
            )
        self._last[shard.folder, shard.split] = (int(numbers[-1]), int(ordinals[-1]))
        for number in np.unique(numbers).tolist():
            self._seen[number].append(ordinals[numbers == number])

    def close(self) -> None:
        """Call it after the last document: looks for documents that are there twice, and for ordinals out of range."""
        for one, parts in zip(self._ranges, self._seen, strict=True):
            if not parts:
                continue
            ordinals = np.sort(np.concatenate(parts))
            twice = np.flatnonzero(ordinals[1:] == ordinals[:-1])
            if len(twice) and len(self._last) > 1:  # a single stream has reported it already
                self._problems.append(f"shards: {one.uri}, ordinal {int(ordinals[twice[0]])} is there twice")
            if one.settings.decoded_from and not one.is_cut:
                continue  # rejected records were not found again, and ordinals count them
            end = one.end if one.is_cut else self._num_records.get(one.uri, 0)
            if int(ordinals[0]) < one.start or int(ordinals[-1]) >= end:
                wrong = int(ordinals[0] if int(ordinals[0]) < one.start else ordinals[-1])
                self._problems.append(f"shards: {one.uri}: ordinal {wrong} is none of {one.start} to {end - 1}")


def list_ordinal_ends(plan: Plan, num_records: Mapping[str, int]) -> dict[str, int]:
    """Uri of each planned file -> the end of its ordinals, excluded. num_records: read, by uri."""
    ends = {}
    for item in plan.items:
        for one in plan.assignment(item).ranges:
            ends[one.uri] = one.length if one.is_cut else num_records.get(one.uri, 0)
    return ends


class ShuffledOrder:
    """That the documents of a part have places in it, in order, and come from planned files."""

    def __init__(
        self, heads: tuple[int, int], files: Mapping[str, int], problems: list[str], records: bytearray
    ) -> None:
        """heads: the interval of the part. files: as list_ordinal_ends gives them. records: gets 32 bytes of each."""
        self._first, self._last = heads[0], heads[1] - 1
        self._files = files
        self._problems = problems
        self._records = records
        self._before: dict[tuple[str, str], bytes] = {}  # (folder, split) -> the last place

    def add_places(self, shard: ShardFacts, places: Places) -> None:
        if not len(places):
            return
        heads = get_heads(places)
        if int(heads.min()) < self._first or int(heads.max()) > self._last:
            self._problems.append(f"shards: {shard.shard}: a document has its place in another part of the shuffle")
        told = [self._before.get((shard.folder, shard.split), b""), *(place.tobytes() for place in places)]
        if any(one > other for one, other in itertools.pairwise(told)):
            self._problems.append(f"shards: {shard.shard}: its documents are not in the order of the shuffle")
        self._before[shard.folder, shard.split] = told[-1]

    def add(self, shard: ShardFacts, batch: TokenBatch) -> None:
        for source, where in batch.sources.by_label().items():
            if (end := self._files.get(source)) is None:
                self._problems.append(f"shards: {shard.shard} holds documents of {source}, which is not planned")
                return
            ordinals = batch.ordinals[where]
            if int(ordinals.min()) < 0 or int(ordinals.max()) >= end:
                self._problems.append(f"shards: {source}: an ordinal is none of 0 to {end - 1}")
        for source, ordinal in zip(batch.sources, batch.ordinals.tolist(), strict=True):
            self._records += hashlib.sha256(b"%d\0%s" % (ordinal, source.encode())).digest()

    def close(self) -> None:
        """Does nothing: each document was looked at by itself."""


class Origins:
    """Hashes of the records that documents came from: sorted in parts, by the first byte, on this machine's disk."""

    _PART_DOCUMENTS = 1 << 23  # 256 MB of hashes

    def __init__(self, num_documents: int) -> None:
        """num_documents: about how many there will be."""
        self._num_parts = min(256, 1 + num_documents // self._PART_DOCUMENTS)
        self._parts: list[BinaryIO] = []

    def __enter__(self) -> Origins:
        self._parts = [tempfile.TemporaryFile() for _ in range(self._num_parts)]  # noqa: SIM115 - closed by __exit__
        return self

    def __exit__(self, *_: object) -> None:
        for part in self._parts:
            part.close()

    def add(self, hashes: bytes) -> None:
        rows = np.frombuffer(hashes, np.uint8).reshape(-1, _HASH_BYTES)
        part_of = rows[:, 0].astype(np.int64) * self._num_parts // 256
        for number, part in enumerate(self._parts):
            part.write(rows[part_of == number].tobytes() if self._num_parts > 1 else hashes)

    def has_twice(self) -> bool:
        """Whether a record occurs more than once."""
        return any((hashes[1:] == hashes[:-1]).any() for hashes in self._sort())

    def _sort(self) -> Iterator[Any]:
        for part in self._parts:
            part.seek(0)
            # Fixed-size strings are compared as bytes; one that ends with zero bytes only loses them as a value.
            yield np.sort(np.frombuffer(part.read(), f"S{_HASH_BYTES}"))
