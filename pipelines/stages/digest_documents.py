"""documents_digest: one sha256 over the sorted digests of all documents, whatever files and order they came in."""

from __future__ import annotations

import hashlib

import numpy as np

from pipelines.store.attempts import Attempts
from pipelines.work.digest_runs import DIGEST_BYTES, make_digests_key
from pipelines.work.runs import read_section
from schemas.refs import RunRef


def digest_documents(attempts: Attempts, num_partitions: int) -> tuple[str, int]:
    """(sha256 over all document digests in ascending order, each as often as it occurs; how many there were).

    The partitions are intervals of the first byte, so they are hashed one after the other.
    """
    hasher = hashlib.sha256()
    total = 0
    for partition in range(num_partitions):
        run = attempts.result(make_digests_key(partition), RunRef)
        if run is None:  # no document fell into this interval
            continue
        for rows in read_section(attempts, run):
            keys = rows.keys.data[rows.keys.offsets[0] : rows.keys.offsets[-1]].reshape(-1, DIGEST_BYTES)
            counts = rows.counts.astype(np.int64)
            hasher.update(np.repeat(keys, counts, axis=0).tobytes())
            total += int(counts.sum())
    return hasher.hexdigest(), total
