"""What a removal would change, and what that would cost: for `tokcore remove --dry-run`."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tokcore.formats.pieces import Pieces, PiecesFile, get_pieces_path
from tokcore.shards.tombstone_lookup import TombstoneLookup
from tokcore_pipelines.build.commit import find_manifest, find_manifests, read_run_facts, require_manifest
from tokcore_pipelines.history.find_removed import FoundDocument, find_removed
from tokcore_pipelines.history.kept_weights import follows_sizes
from tokcore_pipelines.history.make_commit import NewPart
from tokcore_pipelines.history.shards_as_before import Hit, count_written
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.local_copies import copy_if_remote
from tokcore_schemas.shard_entries import iterate_named_shards
from tokcore_schemas.stage_table import MIXED, PACKED, PLAN, SHARDS, STAGES


@dataclasses.dataclass(frozen=True, slots=True)
class RemovalCost:
    """What holds the documents that would go, and what would be made again."""

    tokens: int  # of the documents
    shards: int  # that hold some
    mixed_documents: int  # in mixtures, each as often as it comes there
    mixed_shards: int  # of mixtures that hold some
    moves_weights: bool  # whether other documents come more or less often in a mixture then
    rows: int  # packed ones that hold some
    rows_again: int  # packed ones in shards that would be written again, at most
    all_rows: int  # packed ones
    row_tokens: int  # of the documents, in these rows: in a mixture, as often as they come there
    read_bytes: int  # of input files, as stored, that would be read again
    shards_again: int  # shards, with those of mixture and rows, that would be written again, at most
    shards_in_all: int  # likewise, of the parts that would be made again
    cpu_seconds: int | None  # by what the stages took that are there; None: their run.json does not say


def estimate_removal(
    urls_of_parts: Sequence[str],
    removed: TombstoneLookup,
    found: Iterable[tuple[str, FoundDocument]],
    parts: Sequence[NewPart],
    options: RunOptions,
    keep_weights: bool,
    in_place_rows: bool,
) -> RemovalCost:
    """What it is. urls_of_parts: of those that would go. found: (URL of a part, document) of those that would go."""
    found = [*found]
    mixtures = [(url, made) for url in urls_of_parts if (made := find_manifest(url, MIXED)) is not None]
    with contextlib.closing(Workers(options, ())) as workers:
        mixed = [*find_removed(mixtures, removed, workers)]
    read_bytes = sum(_count_read(one) for one in parts)
    hits = dict[tuple[str, str, str], Hit]()
    for stage, of_stage in ((SHARDS.name, found), (MIXED.name, mixed)):
        for url, one in of_stage:
            key = (url, stage, one.shard)
            hits[key] = hits.get(key, Hit()).plus(one.tokens)
    rows = row_tokens = all_rows = 0
    for url in urls_of_parts:
        gone: dict[str, set[int]] = {}
        for of, one in mixed if any(url == of for of, _ in mixtures) else found:
            if of == url:
                gone.setdefault(one.shard.rpartition("-")[0], set()).add(one.number)
        num, of_shards = _find_rows(url, gone)
        all_rows += num
        for stem, hit in of_shards.items():
            hits[url, PACKED.name, stem] = hit
            rows, row_tokens = rows + hit.documents, row_tokens + hit.tokens
    moves_weights = not keep_weights and any(follows_sizes(made.config) for _, made in mixtures)
    left, rows_again = count_written(urls_of_parts, hits, parts, moves_weights, in_place_rows)
    return RemovalCost(
        tokens=sum(one.tokens for _, one in found),
        shards=len({(url, one.shard) for url, one in found}),
        mixed_documents=len(mixed),
        mixed_shards=len({(url, one.shard) for url, one in mixed}),
        moves_weights=moves_weights,
        rows=rows,
        rows_again=rows_again,
        all_rows=all_rows,
        row_tokens=row_tokens,
        read_bytes=read_bytes,
        shards_again=left.of - left.same,
        shards_in_all=left.of,
        cpu_seconds=_estimate_seconds(urls_of_parts, read_bytes, (left.of - left.same) / max(1, left.of)),
    )


def _count_read(part: NewPart) -> int:
    """The bytes of the work items of a part that would be read again."""
    kept = part.inheritance.kept if part.inheritance is not None else {}
    return sum(item.size_bytes for item in part.plan.items if item.number not in kept)


def _find_rows(url: str, gone: Mapping[str, Collection[int]]) -> tuple[int, dict[str, Hit]]:
    """(the packed rows of a part, stem of each shard of rows -> rows that hold something of what would go, its ids).

    gone: place of a shard that rows are made of -> numbers of its documents that would go. Reads the pieces files.
    """
    if (made := find_manifest(url, PACKED)) is None:
        return 0, {}
    folder, hits = urls.join(url, PACKED.name), {}
    for shard in iterate_named_shards(made):
        path = get_pieces_path(shard.facts.stem)
        sizes = {file.path: file.size_bytes for file in shard.files if file.path == path}
        with copy_if_remote(folder, [*sizes], sizes) as here:
            pieces = PiecesFile(f"{here}/{path}").read()
            found = [*_list_pieces(pieces, gone)]
            made_of = frozenset(pieces.shards.names)
            hits[shard.facts.stem] = Hit(len({row for row, _ in found}), sum(num for _, num in found), made_of)
    return made.totals.rows, hits


def _list_pieces(pieces: Pieces, gone: Mapping[str, Collection[int]]) -> Iterator[tuple[int, int]]:
    """(row, ids) of each piece of what would go."""
    numbers = [gone.get(place, ()) for place in pieces.shards.names]
    columns = (pieces.rows, pieces.lengths, pieces.shards.codes, pieces.documents)
    for row, length, shard, document in zip(*(column.tolist() for column in columns), strict=True):
        if document in numbers[shard]:
            yield row, length


def _estimate_seconds(urls_of_parts: Sequence[str], read_bytes: int, written: float) -> int | None:
    """CPU seconds, as if work took as long for each byte as it did when these parts were made.

    written: share of the shards that would be written again.
    """
    stored_bytes = sum(require_manifest(url, PLAN).totals.stored_bytes for url in urls_of_parts)
    made = ((url, name) for url in urls_of_parts for name in find_manifests(url, STAGES.values()))
    facts = [(name, read_run_facts(url, name)) for url, name in made if not STAGES[name].is_plain]
    took = [
        one.seconds * one.workers * (written if STAGES[name].is_derived else read_bytes / max(1, stored_bytes))
        for name, one in facts
        if one.seconds is not None and one.workers is not None
    ]
    return math.ceil(sum(took)) if took and stored_bytes else None
