"""Which documents of shards that are still read have been removed from their output since."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tokcore.files.url_files import RemoteFile
from tokcore.formats.pieces import Pieces, PiecesFile
from tokcore.shards.commits import Buried, BuriedFile, read_buried
from tokcore.shards.labels import Labels
from tokcore.shards.opened_shards import OpenableShard
from tokcore.shards.token_batch import Offsets, TokenBatch
from tokcore.shards.tombstone_files import HashFile, count_bytes
from tokcore.shards.tombstone_lookup import TombstoneLookup
from tokcore.shards.tombstones import Kind, make_key


class RemovedNames:
    """What was removed from an output, as its newest commit has it. Goes to other processes, which open files anew."""

    def __init__(self, buried: Buried) -> None:
        """Raises FormatError or ChecksumError for a file of tombstones that is gone or was changed."""
        self._buried = buried
        files = [_open(buried.place, file) for file in buried.files]
        self._lookup = TombstoneLookup(make_key(buried.root), buried.tombstones, files)

    def __reduce__(self) -> tuple[object, ...]:
        return RemovedNames, (self._buried,)

    def mark_ids(self, ids: Sequence[str | None]) -> npt.NDArray[np.bool_]:
        """Which of these ids were removed."""
        return self._lookup.mark("id", ids)

    def find(self, shard: OpenableShard) -> tuple[Offsets, Offsets]:
        """int64: where documents of a shard that were removed begin and end, in ids of the shard; ascending.

        Reads the shard. Raises FormatError if it is damaged, or does not say where its documents came from.
        """
        if (pieces := shard.find_pieces()) is not None:
            return self._find_pieces(pieces)
        batches = shard.open().batches()
        provenance = shard.find_provenance()
        starts, ends, first = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
        for batch in batches if provenance is None else provenance.restore_all(batches):
            gone = self._mark(batch)
            offsets = batch.offsets.astype(np.int64) - int(batch.offsets[0]) + first
            starts.append(offsets[:-1][gone])
            ends.append(offsets[1:][gone])
            first = int(offsets[-1])
        return np.concatenate(starts), np.concatenate(ends)

    def _find_pieces(self, file: PiecesFile) -> tuple[Offsets, Offsets]:
        """As find, of packed rows: a piece of a document in a row is a part of its own."""
        pieces = file.read()
        starts, ends = pieces.find_places(file.length)
        gone = self._mark(pieces) | pieces.are_gaps
        return starts[gone], ends[gone]

    def _mark(self, documents: TokenBatch | Pieces) -> npt.NDArray[np.bool_]:
        """Whether each document, or piece of one, was removed."""
        gone: npt.NDArray[np.bool_] = self._find_labels("lang", documents.langs)
        gone |= self._find_labels("source", documents.sources)
        gone |= self.mark_ids(documents.ids)
        return gone

    def _find_labels(self, kind: Kind, labels: Labels) -> npt.NDArray[np.bool_]:
        return self._lookup.mark(kind, labels.names)[labels.codes]


def find_gaps(shard: OpenableShard) -> tuple[Offsets, Offsets]:
    """As RemovedNames.find, of what was taken down in place, and is padding in the rows of the shard."""
    if (file := shard.find_pieces()) is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    pieces = file.read()
    starts, ends = pieces.find_places(file.length)
    return starts[pieces.are_gaps], ends[pieces.are_gaps]


def read_removed_names(place: str) -> RemovedNames | None:
    """What was removed from an output; None if nothing was. place: a local path or a URL.

    Raises ConfigError if no output of a build is there, FormatError or ChecksumError for a file of tombstones that is
    gone or was changed. Copies such a file here, if it is at a URL.
    """
    buried = read_buried(place.removeprefix("file://"))
    return RemovedNames(buried) if buried.tombstones or buried.files else None


def _open(place: str, file: BuriedFile) -> HashFile:
    where = f"{place}/{file.path}"
    if "://" not in place:
        return HashFile(where, file.sha256)
    with tempfile.TemporaryDirectory(prefix="tokcore-removed-") as folder:
        RemoteFile(where, file.path, count_bytes(file.num), file.sha256).copy_to(folder)
        return HashFile(f"{folder}/{file.path}")  # open, it is read even when its name is gone
