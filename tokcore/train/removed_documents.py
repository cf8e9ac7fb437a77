"""Which documents of shards that are still read have been removed from their output since."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.formats.pieces import Pieces, PiecesFile
from tokcore.shards.commits import read_buried
from tokcore.shards.labels import Labels
from tokcore.shards.opened_shards import OpenableShard
from tokcore.shards.token_batch import Offsets, TokenBatch
from tokcore.shards.tombstones import Kind, make_key, spell_tombstone


class RemovedNames(NamedTuple):
    """What was removed from an output, as its newest commit has it."""

    key: str
    tombstones: frozenset[str]

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
        gone |= np.array([one is not None and self._has("id", one) for one in documents.ids], bool)
        return gone

    def _find_labels(self, kind: Kind, labels: Labels) -> npt.NDArray[np.bool_]:
        return np.array([self._has(kind, name) for name in labels.names], bool)[labels.codes]

    def _has(self, kind: Kind, name: str) -> bool:
        return spell_tombstone(self.key, kind, name) in self.tombstones


def find_gaps(shard: OpenableShard) -> tuple[Offsets, Offsets]:
    """As RemovedNames.find, of what was taken down in place, and is padding in the rows of the shard."""
    if (file := shard.find_pieces()) is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    pieces = file.read()
    starts, ends = pieces.find_places(file.length)
    return starts[pieces.are_gaps], ends[pieces.are_gaps]


def read_removed_names(place: str) -> RemovedNames | None:
    """What was removed from an output; None if nothing was. place: a local path or a URL.

    Raises ConfigError if no output of a build is there.
    """
    root, tombstones = read_buried(place.removeprefix("file://"))
    return RemovedNames(make_key(root), tombstones) if tombstones else None
