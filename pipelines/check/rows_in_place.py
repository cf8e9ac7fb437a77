"""Rows from which documents were removed in place: that nothing is left of these, in the bytes of each format."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import numpy as np

from tokcore.formats.pieces import Pieces, PiecesFile, get_pieces_path
from tokcore.shards.tombstone_lookup import TombstoneLookup
from tokcore_pipelines.build.commit import find_manifest, require_manifest
from tokcore_pipelines.history.find_removed import WORTH_WORKERS
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store.stored_shards import copy_shard_if_remote, find_main_files
from tokcore_pipelines.store.tokenizers import load_spec
from tokcore_pipelines.work.make_jobs import find_padding_id
from tokcore_schemas.refs import ShardRef
from tokcore_schemas.shard_entries import list_named_shards
from tokcore_schemas.stage_table import PACKED, SHARDS


class RowsInPlace(NamedTuple):
    """What the rows of a part say of documents that were removed in place."""

    documents: int = 0
    tokens: int = 0  # of padding in their place
    rows: int = 0  # that have some of it
    wrong: int = 0  # rows that name a removed document, or have another id than padding in the place of one

    def __add__(self, other: object) -> RowsInPlace:
        assert isinstance(other, RowsInPlace)
        return RowsInPlace(*map(sum, zip(self, other, strict=True)))


def look_at_rows(url: str, removed: TombstoneLookup, options: RunOptions) -> RowsInPlace:
    """What it is; nothing of a part whose rows are not in place of others. url: of the part.

    Reads all rows in every format. Raises FormatError for a damaged file.
    """
    made = find_manifest(url, PACKED)
    if made is None or not made.config.in_place_of:
        return RowsInPlace()
    padding = find_padding_id(load_spec(url), made.config, require_manifest(url, SHARDS).config.append)
    calls = [(look_at_shard, (url, shard, removed, padding)) for shard in list_named_shards(made)]
    with contextlib.closing(Workers(options, ())) as workers:
        pool = workers.start() if made.totals.documents >= WORTH_WORKERS else None
        found = (of for _, of in pool.run_all(calls)) if pool is not None else (one(*with_) for one, with_ in calls)
        return sum(found, RowsInPlace())


def look_at_shard(url: str, shard: ShardRef, removed: TombstoneLookup, padding: int) -> RowsInPlace:
    """As look_at_rows, of one shard. padding: the id."""
    with copy_shard_if_remote(url, shard, PACKED.name) as folder:
        file = PiecesFile(f"{folder}/{get_pieces_path(shard.facts.stem)}")
        pieces = file.read()
        gone = pieces.are_gaps
        starts, ends = (one[gone] for one in pieces.find_places(file.length))
        wrong = {*_list_named(pieces, removed)}
        for one in find_main_files(shard, folder):
            first = 0
            for batch in one.open().batches():
                ids = batch.tokens[int(batch.offsets[0]) : int(batch.offsets[-1])]
                others = np.flatnonzero(ids != padding) + first
                # The gap that begins last before an id that is none of padding must have ended there.
                at = np.searchsorted(starts, others, side="right") - 1
                wrong.update((others[(at >= 0) & (others < ends[at])] // file.length).tolist() if len(ends) else ())
                first += len(ids)
    return RowsInPlace(
        int((pieces.starts[gone] == 0).sum()),
        int((ends - starts).sum()),
        len({*pieces.rows[gone].tolist()}),
        len(wrong),
    )


def _list_named(pieces: Pieces, removed: TombstoneLookup) -> list[int]:
    """The rows with pieces of documents that were removed, by their names."""
    langs = np.array([removed.spell("lang", one) in removed for one in pieces.langs.names], bool)[pieces.langs.codes]
    sources = np.array([removed.spell("source", one) in removed for one in pieces.sources.names], bool)
    ids = np.array([one is not None and removed.spell("id", one) in removed for one in pieces.ids], bool)
    rows: list[int] = pieces.rows[(langs | sources[pieces.sources.codes] | ids) & ~pieces.are_gaps].tolist()
    return rows
