"""Which documents of a work item are duplicates, so that they are left out: a small file of JSON lines for each item.

A line for each range that has some: the uri of its file, its first byte, and the numbers of the records within it; or,
where lines or paragraphs are compared, of records and of pieces within these.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tokcore.errors import FormatError, LedgerError
from tokcore.files.canonical_json import hash_sha256, parse_canonical, write_canonical_lines
from tokcore_pipelines.reading.records import Batch, Reject, drop_documents, make_printable
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.pieces import leave_pieces, spell_piece
from tokcore_schemas.plan import DUPLICATE, AssignedRange, DropList

Ordinals = npt.NDArray[np.int64]  # of records; or [n, 2], of records and of pieces within them


def write_drops(places: Sequence[tuple[str, int]], ranges: npt.NDArray[np.int64], ordinals: Ordinals) -> bytes:
    """The file of a work item. places: uri and first byte of its ranges. ranges: places of the duplicates among these.

    >>> write_drops([("a", 0), ("a", 9)], np.array([1, 1]), np.array([4, 2]))
    b'{"records":[2,4],"start":9,"uri":"a"}\\n'
    >>> write_drops([("a", 0)], np.array([0, 0]), np.array([[4, 0], [2, 3]]))
    b'{"pieces":[[2,3],[4,0]],"start":0,"uri":"a"}\\n'
    """
    order = np.argsort(ranges, kind="stable")
    numbers, firsts = np.unique(ranges[order], return_index=True)
    named = "records" if ordinals.ndim == 1 else "pieces"
    return write_canonical_lines(
        {"uri": places[number][0], "start": places[number][1], named: sorted(ordinals[own].tolist())}
        for number, own in zip(numbers.tolist(), np.split(order, firsts)[1:], strict=True)
    )


def parse_drops(data: bytes, name: str) -> dict[tuple[str, int], Ordinals]:
    """(uri, first byte) of a range -> its duplicates, ascending. Raises FormatError if that is no such file."""
    found: dict[tuple[str, int], Ordinals] = {}
    for line in data.splitlines(keepends=True):
        told = parse_canonical(line, name)
        told = told if isinstance(told, dict) else {}
        records, pieces = told.get("records"), told.get("pieces")
        if _are_numbers(records):
            dropped = np.array(records, np.int64)
        elif isinstance(pieces, list) and pieces and all(_are_numbers(one) and len(one) == 2 for one in pieces):
            dropped = np.array(pieces, np.int64)
        else:
            raise FormatError(f"{name}: expected a line for each range that has duplicates")
        found[told.get("uri", ""), told.get("start", 0)] = dropped
    return found


def _are_numbers(value: object) -> bool:
    return isinstance(value, list) and all(type(one) is int for one in value) and bool(value)


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
        self._by = drops.by if drops is not None else ""
        self._num_found = 0

    def leave_out(self, r: AssignedRange, batch: Batch) -> Batch:
        """The batch of a range without its duplicates, which it counts as filtered."""
        wanted = self._left.get((r.uri, r.start))
        if wanted is None:
            return batch
        if self._by:
            return self._leave_pieces(r, batch, wanted)
        where = np.flatnonzero(np.isin(batch.ordinals, wanted, assume_unique=True))
        self._num_found += len(where)
        return drop_documents(batch, dict.fromkeys(where.tolist(), DUPLICATE))

    def _leave_pieces(self, r: AssignedRange, batch: Batch, wanted: Ordinals) -> Batch:
        """The batch without lines or paragraphs that are duplicates; documents of which nothing is left go, too.

        Those that spell a special text only now are rejected.
        """
        where = np.searchsorted(batch.ordinals, wanted[:, 0])
        is_here = where < len(batch.ordinals)
        is_here[is_here] = batch.ordinals[where[is_here]] == wanted[is_here, 0]
        pieces_of: dict[int, list[int]] = {}
        for i, piece in zip(where[is_here].tolist(), wanted[is_here, 1].tolist(), strict=True):
            pieces_of.setdefault(i, []).append(piece)
        texts: dict[int, bytes] = {}
        emptied: dict[int, str] = {}
        cut: dict[str, dict[str, int]] = {}
        rejects: dict[int, Reject] = {}
        forbidden = [one.encode() for one in r.settings.forbidden]
        for i, pieces in pieces_of.items():
            text = batch.texts.text(i)
            left, num = leave_pieces(text, self._by, pieces)
            self._num_found += num
            of_lang = cut.setdefault(batch.langs[i], {"bytes": 0, self._by: 0})
            of_lang["bytes"] += len(text) - len(left)
            of_lang[self._by] += num
            texts[i] = left
            if not spell_piece(left):
                emptied[i] = DUPLICATE
            elif spelled := next((one for one in forbidden if one in left), b""):
                why = f"without its duplicates, the text spells {make_printable(spelled)}"
                rejects[i] = Reject(int(batch.ordinals[i]), "special_text", why, "")
        if not pieces_of:
            return batch
        batch = batch._replace(texts=batch.texts.replace([*texts], [*texts.values()]), cut=cut)
        together = sorted([*batch.rejects, *rejects.values()], key=lambda one: -1 if one.record is None else one.record)
        return drop_documents(batch._replace(rejects=together), emptied, rejects)

    def close(self, r: AssignedRange) -> None:
        """A range was read. Raises LedgerError if a duplicate of it was no document, so that others were compared."""
        wanted, found = len(self._left.get((r.uri, r.start), ())), self._num_found
        self._num_found = 0
        if wanted != found and not r.settings.as_before:
            raise LedgerError(f"{r.uri}: {wanted} duplicates in the range at byte {r.start}, {found} of them were read")
