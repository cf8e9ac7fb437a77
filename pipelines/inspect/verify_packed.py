"""What verification asks of packed rows: the documents of the shards are packed again, and compared with what is there.

Shards are verified before. So rows that are equal to those that follow from them are right: padding, bounds and all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pipelines.inspect.stored_shards import (
    OpenShard,
    has_content,
    hash_documents,
    naming_stored_files,
    open_documents,
    open_formats,
)
from pipelines.inspect.verify_derived import check_folder_indexes, check_shard_entries
from pipelines.stages.pack_corpus import find_unpacked
from pipelines.store.main_files import copy_shard_if_remote
from pipelines.work.derived_shards import update_content
from pipelines.work.pack_group import PackJob, iterate_group, number_rows, sum_up
from schemas.pack_groups import list_groups
from schemas.refs import PackedSums, PackGroup, ShardRef
from schemas.shard_entries import list_named_shards
from schemas.stage_manifests import MixtureManifest, PackedManifest, ShardsManifest
from tokcore.errors import TokError
from tokcore.formats.pieces import Pieces, PiecesFile, get_pieces_path
from tokcore.formats.shard_facts import ShardFacts
from tokcore.packed_rows import RowBatch
from tokcore.token_batch import ShardContent

_FOLDER = "packed"
_MANIFEST = "packed/manifest.json"


@dataclasses.dataclass(slots=True)
class FoundRows:
    """What the rows of a group are, and what is wrong with them."""

    problems: list[str] = dataclasses.field(default_factory=list)
    sums: PackedSums = dataclasses.field(default_factory=lambda: PackedSums(0, 0, 0, 0, 0, 0))


def check_packed_manifest(
    made: PackedManifest | None, packed_from: ShardsManifest | MixtureManifest, vocab_size: int
) -> Iterator[str]:
    """That the manifest has the shards, sums and indexes that its configuration and the build's shards give it.

    packed_from: the manifest of the shards whose documents are packed.
    """
    if made is None:
        return
    config, rows = made.config, list_named_shards(made)
    groups = list_groups(list_named_shards(packed_from), config)
    yield from check_shard_entries(made, rows)
    of_groups: dict[int, list[ShardFacts]] = {}
    for shard in rows:
        of_groups.setdefault(shard.facts.item, []).append(shard.facts)
    for group in groups:
        streams = {(one.lang, one.split) for one in of_groups.pop(group.number, [])}
        if streams != {(group.lang, group.split)}:
            yield f"{_MANIFEST}: group {group.number}: shards of {sorted(streams)}, expected {group.lang, group.split}"
    for number in of_groups:
        yield f"{_MANIFEST}: shards of group {number}, of which there is none"
    totals = made.totals
    held = (len(rows), *(sum(getattr(one.facts, name) for one in rows) for name in ("documents", "tokens")))
    if held != (totals.shards, totals.rows, totals.tokens + totals.padding):
        yield f"{_MANIFEST}: its totals are not those of its shards"
    if wrong := find_unpacked(totals, packed_from):
        yield f"{_MANIFEST}: {wrong}"
    if totals.fingerprint != packed_from.totals.fingerprint:
        yield f"{_MANIFEST}: names another tokenizer than the shards"
    yield from check_folder_indexes(made, rows, vocab_size)


def check_group(output: str, job: PackJob, group: PackGroup, shards: Sequence[ShardRef]) -> FoundRows:
    """Pack a group again and compare its rows with every file. shards: of the group, in order."""
    found = FoundRows()
    waiting = list(shards)
    try:
        rows = _Rows(iterate_group(job, group), found, job.rows.length)
        for shard in waiting:
            with copy_shard_if_remote(output, shard, _FOLDER) as folder:
                try:
                    with naming_stored_files(folder, _FOLDER):
                        _check_shard(folder, shard, rows, found)
                finally:
                    # Open files name local paths.
                    found.problems[:] = [one.replace(f"{folder}/", f"{_FOLDER}/") for one in found.problems]
        if rows.take(1) is not None:
            found.problems.append(f"{_FOLDER}: group {group.number}: rows of its documents are in no shard")
    except TokError as error:
        found.problems.append(f"{_FOLDER}: group {group.number}: {error}")
    return found


class _Rows:
    """Rows as they follow from the documents, to be taken a few at a time."""

    def __init__(self, batches: Iterator[RowBatch], found: FoundRows, length: int) -> None:
        self._batches = batches
        self._found = found
        self._length = length
        self._waiting: RowBatch | None = None

    def take(self, most: int) -> RowBatch | None:
        """Return the next rows, but no more than `most`; None at the end."""
        if self._waiting is None:
            if (batch := next(self._batches, None)) is None:
                return None
            self._found.sums += sum_up(batch, self._length)
            self._waiting = batch
        batch, num = self._waiting, self._waiting.rows.num_documents
        self._waiting = batch.slice(most, num) if num > most else None
        return batch.slice(0, min(most, num))


def _check_shard(folder: str, shard: ShardRef, rows: _Rows, found: FoundRows) -> None:
    opened = open_formats(folder, shard)
    documents = open_documents(folder, shard)
    pieces_file = PiecesFile(f"{folder}/{get_pieces_path(shard.facts.stem)}")
    pieces, at = pieces_file.read(), 0
    content = ShardContent()
    while content.num_documents < shard.facts.documents:
        first = content.num_documents
        batch = rows.take(shard.facts.documents - first)
        if batch is None:
            found.problems.append(f"{_FOLDER}/{shard.facts.place}: has rows that follow from no document")
            return
        batch = number_rows(batch, first)
        num = len(batch.pieces.rows)
        if not _are_equal(pieces.slice(at, at + num), batch.pieces):
            found.problems.append(f"{pieces_file.path}: from row {first} on, not the pieces that follow")
            return
        for one in opened:
            if (row := _find_first_other(one, batch, first)) is not None:
                found.problems.append(f"{_FOLDER}/{one.path}: row {row} is not the one that follows from the documents")
                return
        if documents is not None and not np.array_equal(
            documents.lengths[first : first + batch.rows.num_documents], np.diff(batch.rows.offsets)
        ):
            found.problems.append(f"{documents.path}: its lengths are not those of the rows")
            return
        update_content(content, batch.rows)
        at += num
    if at != len(pieces.rows):
        found.problems.append(f"{pieces_file.path}: has more pieces than the rows")
    if not has_content(shard, content):
        found.problems.append(f"{_FOLDER}/{shard.facts.place}: its content is not what the manifest says")
    for one in opened:
        if len(one.reader) != content.num_documents:
            found.problems.append(f"{_FOLDER}/{one.path}: {len(one.reader)} rows, expected {content.num_documents}")
        if (told := hash_documents(one)) != content.hexdigest():
            found.problems.append(f"{_FOLDER}/{one.path}: its rows are described otherwise than they are ({told:.12})")
    said = next((file.content_sha256 for file in shard.files if file.path == get_pieces_path(shard.facts.stem)), "")
    if pieces_file.hash_content() != said:
        found.problems.append(f"{pieces_file.path}: its content is not what the manifest says")


def _are_equal(some: Pieces, others: Pieces) -> bool:
    columns: list[tuple[Any, Any]] = [*zip(some, others, strict=True)]
    return all(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b for a, b in columns)


def _find_first_other(one: OpenShard, batch: RowBatch, first: int) -> int | None:
    """The first row that a format has otherwise. first: number of the batch's first row in the shard."""
    num = batch.rows.num_documents
    tokens, lengths = one.reader.span(first, first + num)
    if np.array_equal(lengths, np.diff(batch.rows.offsets)) and np.array_equal(tokens, batch.rows.tokens):
        return None
    for i in range(num):
        own = batch.rows.tokens[batch.rows.offsets[i] : batch.rows.offsets[i + 1]]
        if i >= len(lengths) or not np.array_equal(one.reader.tokens(first + i), own):
            return first + i
    return first
