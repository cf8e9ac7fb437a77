"""documents_digest: one sha256 over the sorted digests of all documents, whatever files and order they came in."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.store.at_once import run_at_once
from pipelines.store.attempts import Attempts
from pipelines.work.digest_runs import hash_digests, make_digests_key
from pipelines.work.runs import read_section
from schemas.refs import RunRef
from tokcore.pretoken_rows import CountRows


def digest_documents(attempts: Attempts, num_partitions: int) -> tuple[str, int]:
    """(sha256 over all document digests in ascending order, each as often as it occurs; how many there were).

    The partitions are intervals of the first byte, so they are hashed one after the other.
    """

    def read() -> Iterator[Iterator[CountRows]]:
        keys = map(make_digests_key, range(num_partitions))
        for run in run_at_once(lambda key: attempts.result(key, RunRef), keys):
            if run is not None:  # else no document fell into this interval
                yield read_section(attempts, run)

    return hash_digests(read())
