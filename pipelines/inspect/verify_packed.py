"""What verification asks of packed rows: the documents of the shards are packed again, and compared with what is there.

Shards are verified before. So rows that are equal to those that follow from them are right: padding, bounds and all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from pipelines.inspect.stored_shards import OpenShard, copy_shard_if_remote, open_documents, open_formats
from pipelines.work.pack_group import PackJob, iterate_group, number_rows, sum_up, update_content
from pipelines.work.result_keys import make_table_key
from schemas.pack_groups import list_groups
from schemas.refs import PackedSums, PackGroup, ShardRef, spell_shard_name
from schemas.shard_entries import list_apart, list_named_shards, make_shard_entries, write_folder_indexes
from schemas.stage_manifests import CorpusAbout, PackedManifest, ShardsManifest
from tokcore.canonical import hash_sha256
from tokcore.errors import TokError
from tokcore.format_table import list_all_paths
from tokcore.formats.pieces import Pieces, PiecesFile, get_pieces_path
from tokcore.formats.shard_format import ShardFacts, ShardSettings
from tokcore.packed_rows import RowBatch
from tokcore.token_batch import ShardContent

_FOLDER = "packed"
_MANIFEST = "packed/manifest.json"


@dataclasses.dataclass(slots=True)
class FoundRows:
    """What the rows of a group are, and what is wrong with them."""

    problems: list[str] = dataclasses.field(default_factory=list)
    sums: PackedSums = dataclasses.field(default_factory=lambda: PackedSums(0, 0, 0, 0, 0, 0))


def check_packed_manifest(made: PackedManifest | None, shards: ShardsManifest, vocab_size: int) -> Iterator[str]:
    """That the manifest has the shards, sums and indexes that its configuration and the build's shards give it."""
    if made is None:
        return
    config, rows = made.config, list_named_shards(made)
    groups = list_groups(list_named_shards(shards), config)
    key = make_table_key(made.identity)
    entries = {entry.path: entry for entry in made.files}
    of_groups: dict[int, list[ShardRef]] = {}
    for shard in rows:
        of_groups.setdefault(shard.facts.item, []).append(shard)
        facts = shard.facts
        paths = tuple(sorted(file.path for file in shard.files))
        if paths != list_all_paths(config.formats, facts.stem, is_packed=True) or "/" in facts.shard:
            yield f"{_MANIFEST}: {facts.shard}: {list(paths)}: not its files"
        if facts.result_key != key:
            yield f"{_MANIFEST}: {facts.shard}: its result key is {facts.result_key!r}, expected {key!r}"
        for expected in make_shard_entries(shard):
            entry, is_apart = entries[expected.path], expected.path in list_apart(facts)
            if entry.about != facts or (not is_apart and entry.content_sha256 != shard.content_sha256):
                yield f"{_FOLDER}/{entry.path}: described otherwise than {shard.files[0].path}, the same shard"
    for group in groups:
        own = [shard.facts for shard in of_groups.pop(group.number, [])]
        names = [spell_shard_name(group.split, group.number, number) for number in range(len(own))]
        told = [(one.shard, one.lang, one.split) for one in own]
        if not own or told != [(name, group.lang, group.split) for name in names]:
            yield f"{_MANIFEST}: group {group.number}: shards {[one.shard for one in own]}, expected {names}"
        if any(one.tokens < config.target_tokens for one in own[:-1]):
            yield f"{_MANIFEST}: group {group.number}: a shard ended before it reached {config.target_tokens} tokens"
    for number in of_groups:
        yield f"{_MANIFEST}: shards of group {number}, of which there is none"
    totals = made.totals
    held = (len(rows), *(sum(getattr(one.facts, name) for one in rows) for name in ("documents", "tokens")))
    if held != (totals.shards, totals.rows, totals.tokens + totals.padding):
        yield f"{_MANIFEST}: its totals are not those of its shards"
    if (totals.documents, totals.tokens) != (shards.totals.records.documents, shards.totals.tokens):
        yield f"{_MANIFEST}: {totals.documents} documents of {totals.tokens} tokens, the shards have others"
    if totals.fingerprint != shards.totals.fingerprint:
        yield f"{_MANIFEST}: names another tokenizer than the shards"
    yield from _check_indexes(made, rows, vocab_size)


def _check_indexes(made: PackedManifest, rows: Sequence[ShardRef], vocab_size: int) -> Iterator[str]:
    config, totals = made.config, made.totals
    settings = ShardSettings(totals.fingerprint, vocab_size, config.compression, config.dtype or "int32")
    about = CorpusAbout(totals.rows, totals.tokens + totals.padding)
    expected = {
        path: (hash_sha256(index.data), index.content_sha256, about)
        for path, index in write_folder_indexes(config.formats, rows, settings).items()
    }
    found = {
        entry.path: (entry.sha256, entry.content_sha256, entry.about)
        for entry in made.files
        if not isinstance(entry.about, ShardFacts)
    }
    for path in sorted(expected.keys() | found.keys()):
        if found.get(path) != expected.get(path):
            yield f"{_FOLDER}/{PurePosixPath(path)}: not what follows from the shards"


def check_group(output: str, job: PackJob, group: PackGroup, shards: Sequence[ShardRef]) -> FoundRows:
    """Pack a group again and compare its rows with every file. shards: of the group, in order."""
    found = FoundRows()
    waiting = list(shards)
    try:
        rows = _Rows(iterate_group(job, group), found, job.rows.length)
        for shard in waiting:
            with copy_shard_if_remote(output, shard, _FOLDER) as folder:
                try:
                    _check_shard(folder, shard, rows, found)
                finally:
                    # Errors of tokcore name local paths.
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
    facts = (content.num_documents, content.num_tokens, content.max_token_id, content.hexdigest())
    if facts != (shard.facts.documents, shard.facts.tokens, shard.facts.max_token_id, shard.content_sha256):
        found.problems.append(f"{_FOLDER}/{shard.facts.place}: its content is not what the manifest says")
    for one in opened:
        if len(one.reader) != content.num_documents:
            found.problems.append(f"{_FOLDER}/{one.path}: {len(one.reader)} rows, expected {content.num_documents}")
        if (told := _hash_rows(one)) != content.hexdigest():
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


def _hash_rows(one: OpenShard) -> str:
    """The digest of a shard's content as a format and its documents file have it."""
    content = ShardContent()
    for rows in one.reader.batches():
        update_content(content, rows)
    return content.hexdigest()
