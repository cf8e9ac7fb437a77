"""Whether files of token shards, of any writer, keep the rules of their format; and indexes made again from data.

Rules: sizes, headers, bounds and dtypes (which readers check when they open a file), ids within the vocabulary, ends of
documents, lengths in the documents file, and what indexes of folders say of each shard. Leaves to others: hashes and
manifests (tokcore verify), and how a file gets its place (tokcore_pipelines.check.fsck).
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from tokcore.errors import ConfigError, FormatError, TokError
from tokcore.formats.flat_ids import find_dtype
from tokcore.formats.shard_facts import ShardFacts
from tokcore.formats.shard_format import IndexEntry, PlainIds, ShardFormat, ShardSettings, StoredShard
from tokcore.shards.conversion import Origin, Reading, cut_after, open_origin, says_bounds
from tokcore.shards.format_table import SHARD_FORMATS, FormatFile, find_shard_at
from tokcore.shards.labels import repeat_label
from tokcore.shards.opened_shards import MANIFEST, find_named_shards
from tokcore.shards.token_batch import Ids, Offsets, TokenBatch

# Breaches of one kind that are named in a file; more are counted.
MOST_NAMED = 10

_BLOCK_DOCUMENTS = 4096
_BLOCK_IDS = 1 << 20


class Rules(NamedTuple):
    """What files may not say themselves."""

    vocab_size: int | None = None  # every id is below it
    end: int | None = None  # id that ends each document, and is nowhere else
    dtype: str = ""  # of ids in files that nothing says it of


@dataclasses.dataclass(slots=True)
class CheckedShard:
    """A shard that was read."""

    file: FormatFile
    problems: list[str] = dataclasses.field(default_factory=list)
    dtype: str = ""
    fingerprint: str = ""
    documents: int = 0
    tokens: int = 0
    max_token_id: int = -1
    vocab_size: int | None = None


class FoundShards(NamedTuple):
    """What is there to check."""

    files: list[FormatFile]  # in the order of paths
    problems: list[str]  # why other files are not opened


def find_all_shards(place: Path) -> FoundShards:
    """Every shard below a folder, in every format, or the one at a path.

    Of an output, those that its manifests name: other files there, such as tables of counts, are no shards.
    """
    named = find_named_shards(place)
    files = [place] if place.is_file() else (path for path in place.rglob("*") if path.is_file())
    others = [path for path in files if named.outputs.isdisjoint((path, *path.parents))]
    found = {file for path in others if (file := find_shard_at(str(path))) is not None}
    own = {file for file in named.files if Path(file.path).is_relative_to(place)}
    of_place = [why for path, why in named.faults.items() if path.name == MANIFEST or path.is_relative_to(place)]
    return FoundShards(sorted(found | own, key=lambda file: file.path), of_place)


def check_shard(file: FormatFile, rules: Rules) -> CheckedShard:
    """Read all of a shard. Its problems name file and byte, row or document."""
    checked = CheckedShard(file)
    try:
        missing = [path for path in file.list_files() if not Path(path).exists()]
        if missing:
            why = "the manifest names it" if missing[0] == file.path else f"{file.path} needs it"
            raise FormatError(f"{missing[0]}: is not there: {why}")
        for path in file.list_files():
            if not Path(path).is_file():
                raise FormatError(f"{path}: expected a file, found a folder, a FIFO or a device")
        one = SHARD_FORMATS[file.format]
        if one.open_plain is not None and rules.end is None and not says_bounds(file):
            _check_plain(one.open_plain(file.path, rules.dtype), rules.vocab_size, checked)
            return checked
        opened = open_origin(Origin(file, file.path, "", ""), Reading(rules.end, False, rules.dtype))
        checked.dtype = _find_stored_dtype(file)
        checked.fingerprint, checked.vocab_size = opened.fingerprint, rules.vocab_size or opened.vocab_size
        for batch in opened.batches():
            _check_ids(batch, checked)
            if rules.end is not None:
                _check_ends(batch, rules.end, checked)
            checked.documents += batch.num_documents
            checked.tokens += batch.num_tokens
            checked.max_token_id = max(checked.max_token_id, int(batch.tokens.max(initial=-1)))
    except TokError as error:
        where = str(error)
        checked.problems.append(where if where.startswith(os.sep) else f"{file.path}: {where}")
    checked.problems[:] = _shorten(checked.problems, file.path)
    return checked


def _check_plain(ids: PlainIds, vocab_size: int | None, checked: CheckedShard) -> None:
    """Read ids that nothing says the bounds of, as one document, a block at a time."""
    checked.dtype, checked.documents, checked.tokens, checked.vocab_size = ids.dtype, 1, ids.num_tokens, vocab_size
    limit = 2**31 if vocab_size is None else vocab_size
    for start in range(0, ids.num_tokens, _BLOCK_IDS):
        block = ids.part(start, min(start + _BLOCK_IDS, ids.num_tokens))
        checked.max_token_id = max(checked.max_token_id, int(block.max()))
        wrong = np.flatnonzero((block < 0) | (block >= limit))
        if len(wrong):
            place = start + int(wrong[0])
            checked.problems.append(
                f"{checked.file.path}: document 0: id {int(block[wrong[0]])} at place {place}: ids are below {limit}"
            )
            return


def _find_stored_dtype(file: FormatFile) -> str:
    try:
        return file.open().dtype
    except FormatError:
        return ""  # rows of others; or reading it says what is wrong


def _check_ids(batch: TokenBatch, checked: CheckedShard) -> None:
    tokens, offsets = batch.tokens, batch.offsets - batch.offsets[0]
    limit = checked.vocab_size
    wrong = np.flatnonzero((tokens < 0) | (tokens >= (2**31 if limit is None else limit)))
    for row in np.unique(np.searchsorted(offsets, wrong, side="right") - 1).tolist():
        own = tokens[offsets[row] : offsets[row + 1]]
        place = int(np.flatnonzero((own < 0) | (own >= (2**31 if limit is None else limit)))[0])
        known = f"the vocabulary has {limit} ids" if limit is not None else "ids are not negative"
        checked.problems.append(
            f"{checked.file.path}: document {checked.documents + row}: id {int(own[place])} at place {place}: {known}"
        )


def _check_ends(batch: TokenBatch, end: int, checked: CheckedShard) -> None:
    tokens, offsets = batch.tokens, batch.offsets - batch.offsets[0]
    lengths = np.diff(offsets)
    last = np.full(len(lengths), -1)
    last[lengths > 0] = tokens[offsets[1:][lengths > 0] - 1]
    for row in np.flatnonzero(last != end).tolist():
        checked.problems.append(f"{checked.file.path}: document {checked.documents + row}: does not end with id {end}")
    inside = np.flatnonzero(tokens == end)
    inside = inside[~np.isin(inside, offsets[1:] - 1)]
    rows = np.searchsorted(offsets, inside, side="right") - 1
    for row, place in zip(rows.tolist(), inside.tolist(), strict=True):
        checked.problems.append(
            f"{checked.file.path}: document {checked.documents + row}: id {end} at place {place - int(offsets[row])}, "
            f"before its end: a bound is missing"
        )


def _shorten(problems: list[str], path: str) -> list[str]:
    if len(problems) <= MOST_NAMED:
        return problems
    return [*problems[:MOST_NAMED], f"{path}: and {len(problems) - MOST_NAMED} more"]


# ------------------------------------------------------------------------------------------------------------- folders


def check_folder(place: Path, shards: Sequence[CheckedShard]) -> dict[str, list[str]]:
    """What is wrong between shards, and between them and the indexes of folders, by format."""
    return {
        name: problems
        for name in sorted({shard.file.format for shard in shards})
        if (own := [shard for shard in shards if shard.file.format == name])
        and (problems := [*_compare_shards(own), *_check_indexes(SHARD_FORMATS[name], place, own)])
    }


def _compare_shards(shards: Sequence[CheckedShard]) -> Iterator[str]:
    for what in ("dtype", "fingerprint"):
        told = [shard for shard in shards if getattr(shard, what) and shard.tokens]
        for shard in told[1:]:
            if getattr(shard, what) != getattr(told[0], what):
                yield (
                    f"{shard.file.path}: {what} {getattr(shard, what)}, "
                    f"{told[0].file.path} has {getattr(told[0], what)}"
                )


def find_indexes(one: ShardFormat, place: Path, shards: Sequence[FormatFile]) -> list[Path]:
    """The indexes below a folder that are of shards in this format: those with such a shard below their folder."""
    if place.is_file():
        return []
    indexes = sorted(path for pattern in one.index_names for path in place.rglob(pattern) if path.is_file())
    return [path for path in indexes if any(Path(shard.path).is_relative_to(path.parent) for shard in shards)]


def _check_indexes(one: ShardFormat, place: Path, shards: Sequence[CheckedShard]) -> Iterator[str]:
    found = {shard.file.path: shard for shard in shards}
    named: set[str] = set()
    indexes = find_indexes(one, place, [shard.file for shard in shards])
    for index in indexes:
        try:
            for entry in one.read_entries(str(index)):
                named.add(entry.path)
                yield from _check_entry(str(index), entry, found.get(entry.path))
        except FormatError as error:
            yield str(error)
            return
    if one.needs_index or indexes:
        for path, shard in found.items():
            # A shard without tokens is in no list of what can be read.
            if path not in named and not place.is_file() and (one.needs_index or shard.tokens):
                yield f"{path}: no {' or '.join(one.index_names)} names it"


def _check_entry(index: str, entry: IndexEntry, shard: CheckedShard | None) -> Iterator[str]:
    where = f"{index}: {entry.place}"
    if shard is None:
        yield f"{where}: names {entry.path}, which is not there"
        return
    if shard.problems:
        return
    sizes = {"size_bytes": Path(shard.file.path).stat().st_size}
    for what in ("size_bytes", "documents", "tokens", "dtype"):
        told, held = getattr(entry, what), sizes.get(what, getattr(shard, what, None))
        if told is not None and held not in (told, ""):
            yield f"{where}: {what} {told}, {entry.path} has {held}"


# ------------------------------------------------------------------------------------------------------------- repairs


def write_index(one: ShardFormat, place: Path, shards: Sequence[CheckedShard]) -> Mapping[Path, bytes]:
    """The indexes of sound shards below a folder, as the format's own writer makes them: path -> content.

    Raises FormatError for a format whose index says more than shards do.
    """
    if not one.rebuilds_index:
        raise FormatError(f"{place}: an index of {one.name} says more than its shards: convert the folder instead")
    files: dict[Path, bytes] = {}
    groups: dict[Path, list[StoredShard]] = {}
    vocab_size = max((shard.vocab_size or shard.max_token_id + 1 for shard in shards), default=1)
    dtype = next((shard.dtype for shard in shards if shard.dtype), "int32")
    for shard in shards:
        path = Path(shard.file.path)
        root = _find_root(one, place, path)
        stem = path.relative_to(root).as_posix().removesuffix(one.suffixes[0])
        folder, _, name = stem.rpartition("/")
        split = path.name.partition("-")[0] if not one.splits_apart else "x"
        facts = ShardFacts(name, 0, folder, split, shard.documents, shard.tokens, shard.max_token_id)
        groups.setdefault(root, []).append(StoredShard(facts, path.stat().st_size, ""))
    for root, own in groups.items():
        settings = ShardSettings(shards[0].fingerprint, max(vocab_size, 1), "zstd", dtype)
        for name, data in one.folder_index(own, settings).items():
            files[root / name.removeprefix("x/")] = data
    return files


def _find_root(one: ShardFormat, place: Path, path: Path) -> Path:
    """The folder of the index that names a shard: that of its split, or the one that is looked at."""
    if one.splits_apart:
        for folder in path.parents:
            if folder.name in ("train", "validation") and folder.is_relative_to(place):
                return folder
    names = [folder for folder in path.parents if folder.name == one.name and folder.is_relative_to(place)]
    return names[0] if names else place


def write_bounds(file: FormatFile, rules: Rules, target: BinaryIO) -> str:
    """Write the file of bounds of a shard again: a Megatron .idx, a datatrove index, a table of OLMo's.

    From the lengths in its documents file, else from the ids that end documents. Returns the path of the file. Raises
    FormatError where neither is there, or they do not account for the ids.
    """
    one = SHARD_FORMATS[file.format]
    paths = file.list_files()
    if len(paths) != 2 or one.open_plain is None:
        raise FormatError(f"{file.path}: has no file of bounds that could be made again")
    documents = file.find_documents()
    if documents is not None:
        lengths = documents.lengths
        dtype = find_dtype(file.path, int(lengths.sum()), one.dtypes, documents.path)
        batches = _cut_by(one.open_plain(file.path, dtype), lengths)
        vocab_size = documents.vocab_size
    elif rules.end is not None:
        dtype = rules.dtype
        batches = cut_after(one.open_plain(file.path, dtype), rules.end, "")
        vocab_size = rules.vocab_size or 2**31
    else:
        raise ConfigError(
            f"{file.path}: nothing says where its documents end: give the id that ends each with --end ID, and the "
            f"dtype of the ids with --from-dtype"
        )
    with Path(os.devnull).open("wb") as nowhere:
        writer = one.open_writer([nowhere, target], ShardSettings("", vocab_size, "zstd", dtype))
        for batch in batches:
            writer.write(batch)
        writer.close()
    return paths[1]


def _cut_by(ids: PlainIds, lengths: Offsets) -> Iterator[TokenBatch]:
    start = 0
    for first in range(0, len(lengths), _BLOCK_DOCUMENTS):
        own = lengths[first : first + _BLOCK_DOCUMENTS]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(own)])
        tokens: Ids = ids.part(start, start + int(offsets[-1])).astype(np.int32)
        labels = repeat_label("", len(own))
        yield TokenBatch(tokens, offsets, [None] * len(own), labels, labels, np.arange(len(own)))
        start += int(offsets[-1])
