"""Which documents of a work item are duplicates, so that they are left out: a small file of JSON lines for each item.

A line for each range that has some: the uri of its file, its first byte, and the numbers of the records within it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tokcore.errors import FormatError, LedgerError
from tokcore.files.canonical_json import hash_sha256, parse_canonical, write_canonical_lines
from tokcore_pipelines.reading.records import Batch, drop_documents
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.plan import DUPLICATE, AssignedRange, DropList

Ordinals = npt.NDArray[np.int64]


def write_drops(places: Sequence[tuple[str, int]], ranges: npt.NDArray[np.int64], ordinals: Ordinals) -> bytes:
    """The file of a work item. places: uri and first byte of its ranges. ranges: places of the duplicates among these.

    >>> write_drops([("a", 0), ("a", 9)], np.array([1, 1]), np.array([4, 2]))
    b'{"records":[2,4],"start":9,"uri":"a"}\\n'
    """
    return write_canonical_lines(
        {"uri": places[number][0], "start": places[number][1], "records": sorted(ordinals[ranges == number].tolist())}
        for number in np.unique(ranges).tolist()
    )


def parse_drops(data: bytes, name: str) -> dict[tuple[str, int], Ordinals]:
    """(uri, first byte) of a range -> its duplicates, ascending. Raises FormatError if that is no such file."""
    found: dict[tuple[str, int], Ordinals] = {}
    for line in data.splitlines(keepends=True):
        told = parse_canonical(line, name)
        records = told.get("records") if isinstance(told, dict) else None
        if not isinstance(records, list) or not all(type(one) is int for one in records) or not records:
            raise FormatError(f"{name}: expected a line for each range that has duplicates")
        found[told.get("uri"), told.get("start")] = np.array(records, np.int64)
    return found


def read_drops(drops: DropList) -> dict[tuple[str, int], Ordinals]:
    """As parse_drops. Raises FormatError if the file is not the one that was committed."""
    data, url = storage.read_bytes(drops.url), redact(drops.url)
    if hash_sha256(data) != drops.sha256:
        raise FormatError(f"{url}: its bytes are not those that were committed: `tokcore repair` makes it again")
    return parse_drops(data, url)


class Drops:
    """Leaves the duplicates of a work item out, and sees that all of them were there."""

    def __init__(self, drops: DropList | None) -> None:
        """Raises FormatError as read_drops."""
        self._left = read_drops(drops) if drops is not None else {}
        self._num_found = 0

    def leave_out(self, r: AssignedRange, batch: Batch) -> Batch:
        """The batch of a range without its duplicates, which it counts as filtered."""
        wanted = self._left.get((r.uri, r.start))
        if wanted is None:
            return batch
        where = np.flatnonzero(np.isin(batch.ordinals, wanted, assume_unique=True))
        self._num_found += len(where)
        return drop_documents(batch, dict.fromkeys(where.tolist(), DUPLICATE))

    def close(self, r: AssignedRange) -> None:
        """A range was read. Raises LedgerError if a duplicate of it was no document, so that others were compared."""
        wanted, found = len(self._left.get((r.uri, r.start), ())), self._num_found
        self._num_found = 0
        if wanted != found and not r.settings.as_before:
            raise LedgerError(f"{r.uri}: {wanted} duplicates in the range at byte {r.start}, {found} of them were read")
