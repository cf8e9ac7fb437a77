"""Runs of sorted document digests, as workers of the encode stage write them: one run for each partition."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from pipelines.store.attempts import Attempts
from pipelines.work.runs import write_section
from schemas.refs import RunRef
from tokcore.pretoken_rows import CountRows
from tokcore.texts import Texts

# Digests are spread evenly by their first byte; a partition is an interval of them, so partitions in order are sorted.
DIGEST_BYTES = 32


def make_digests_key(partition: int) -> str:
    """The record key of one partition of the document digests."""
    return f"digests-{partition:03d}"


def write_digests(attempts: Attempts, shard: str, digests: list[bytes], num_partitions: int) -> tuple[RunRef, ...]:
    """Sorted runs of (digest, how often), one per partition, in one attempt file."""
    ordered = np.sort(np.frombuffer(b"".join(digests), f"S{DIGEST_BYTES}"))
    # numpy's S type compares as bytes but drops trailing zeros when asked for a value, so only its buffer is used
    packed = ordered.view(np.uint8).reshape(-1, DIGEST_BYTES)
    first = np.flatnonzero(np.concatenate(([True], (packed[1:] != packed[:-1]).any(axis=1))))
    unique = packed[first]
    counts = np.diff(np.append(first, len(packed))).astype(np.uint64)
    partition = unique[:, 0].astype(np.int64) * num_partitions // 256
    runs = []
    with attempts.new_file(f"{shard}.digests") as new:
        for p in np.unique(partition).tolist():
            where = partition == p
            keys = np.ascontiguousarray(unique[where])
            texts = Texts(keys.reshape(-1), np.arange(len(keys) + 1) * DIGEST_BYTES)
            rows = CountRows(texts, counts[where], counts[where])
            runs.append(write_section(new.file, new.attempt, "", p, [rows]))
    return tuple(runs)


def hash_digests(partitions: Iterable[Iterator[CountRows]]) -> tuple[str, int]:
    """(sha256 over document digests in ascending order, each as often as it occurs; how many there were).

    partitions: the rows of each, in the order of their intervals.
    """
    hasher, total = hashlib.sha256(), 0
    for rows in itertools.chain.from_iterable(partitions):
        keys = rows.keys.data[rows.keys.offsets[0] : rows.keys.offsets[-1]].reshape(-1, DIGEST_BYTES)
        counts = rows.counts.astype(np.int64)
        hasher.update(np.repeat(keys, counts, axis=0).tobytes())
        total += int(counts.sum())
    return hasher.hexdigest(), total
