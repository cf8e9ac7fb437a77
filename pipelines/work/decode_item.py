"""What a worker of `tokcore verify --decode` does: compare the shards of work items with their sources. No Beam."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tokcore.formats.provenance import Provenance
from tokcore.kernel import Ids
from tokcore.shards.format_table import FormatFile
from tokcore.shards.labels import Labels
from tokcore.shards.opened_shards import Shards, open_shards
from tokcore.shards.token_batch import Offsets, TokenBatch, join_batches
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.reading.input_range import Batch
from tokcore_pipelines.reading.metadata import make_metadata
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.local_copies import copy_if_remote
from tokcore_pipelines.store.stored_shards import find_main_files, open_provenance
from tokcore_pipelines.store.tokenizers import load_tokenizer
from tokcore_pipelines.work.choose_splits import choose_splits
from tokcore_pipelines.work.item_reader import ItemReader
from tokcore_pipelines.work.make_jobs import find_special_ids
from tokcore_pipelines.work.scatter_item import compute_places
from tokcore_schemas.draws import compute_draw_seed, make_randomness
from tokcore_schemas.plan import Assignment
from tokcore_schemas.refs import ShardRef
from tokcore_schemas.shuffle import find_intervals
from tokcore_schemas.stage_manifests import ShardsConfig

_MOST_NAMED = 1000  # records that are in a shard and not in the source


@dataclasses.dataclass(frozen=True, slots=True)
class DecodeJob:
    """What a worker needs to compare some work items, for all of which it opens the same shards."""

    output: str
    base: str
    assignments: tuple[Assignment, ...]
    # The shards of parts that may have documents of the work items: their own, or all of a shuffle.
    parts: tuple[tuple[ShardRef, ...], ...]
    limit: int | None  # documents of each work item to compare, at least; None: all
    config: ShardsConfig


def decode_items(job: DecodeJob) -> tuple[int, list[str]]:
    """(documents compared, what is wrong): the documents of work items, as shards of each format have them."""
    parts = job.parts if job.config.shuffle is None or job.limit is None else _find_parts(job, job.config.shuffle)
    compared, wrong = 0, []
    shards = [shard for part in parts for shard in part]
    sizes = {file.path: file.size_bytes for shard in shards for file in shard.files}
    with copy_if_remote(urls.join(job.output, "shards"), sizes, sizes) as folder:
        written = _index_written(job, [file for shard in shards for file in find_main_files(shard, folder)])
        decoded = {r.uri for one in job.assignments for r in one.ranges if r.settings.decoded_from}
        for assignment in job.assignments:
            # What was made from tokens has no source to be compared with.
            ranges = tuple(r for r in assignment.ranges if not r.settings.decoded_from)
            num, found = _compare_documents(job, dataclasses.replace(assignment, ranges=ranges), written)
            compared += num
            wrong += found
    if job.limit is None:
        wrong.extend(
            f"{uri}, ordinal {ordinal}: in a shard, but not in the source"
            for uri, ordinal in written.list_unasked()
            if uri not in decoded
        )
    return compared, wrong


def _find_parts(job: DecodeJob, seed: int) -> list[tuple[ShardRef, ...]]:
    """The parts of a shuffle that the first documents of the work items are in."""
    numbers: set[int] = set()
    for assignment in job.assignments:
        left = job.limit or 0
        for _, batch in ItemReader(assignment, job.base, output=job.output):
            places = compute_places(seed, batch, slice(0, min(left, batch.texts.num_texts)))
            numbers.update(find_intervals(places, len(job.parts)).tolist())
            left -= batch.texts.num_texts
            if left <= 0:
                break
    return [job.parts[number] for number in sorted(numbers)]


def _compare_documents(job: DecodeJob, assignment: Assignment, written: WrittenRows) -> tuple[int, list[str]]:
    tokenizer = load_tokenizer(job.output)
    prepend = find_special_ids(tokenizer.spec, "prepend", job.config.prepend)
    append = find_special_ids(tokenizer.spec, "append", job.config.append)
    limit = sys.maxsize if job.limit is None else job.limit
    compared = 0
    wrong: list[str] = []
    absent: dict[tuple[str, int], str] = {}
    for source, batch in ItemReader(assignment, job.base, output=job.output):
        splits = choose_splits(job.config, batch, slice(0, batch.texts.num_texts), source.settings.validation)
        columns = make_metadata(batch.fields, job.config.metadata, [*range(batch.texts.num_texts)])
        own = columns.to_pylist() if columns is not None else None
        bodies: list[tuple[int, Ids]] = []  # (document, its tokens without those that were added), each once
        for i, ordinal in enumerate(batch.ordinals.tolist()):
            if compared >= limit:
                break
            places = written.take(source.uri, ordinal + source.start)
            where = f"{source.uri}, record {ordinal}"
            if len(places) != len(job.config.formats):
                said = f"{where}: stored {len(places)} times, in {len(job.config.formats)} format(s)"
                if not places:
                    absent[source.uri, ordinal + source.start] = said
                    continue
                wrong.append(said)
            for file, row in places:
                if not file.name.startswith(f"{splits[i]}-"):
                    wrong.append(f"{where}: not stored in the {splits[i]} split, to which it belongs")
                tokens = file.shards[row]
                start, end = len(prepend), len(tokens) - len(append)
                if end < start or tuple(tokens[:start].tolist()) != prepend:
                    wrong.append(f"{where}: its tokens do not begin with {list(prepend)}")
                    continue
                if tuple(tokens[end:].tolist()) != append:
                    wrong.append(f"{where}: its tokens do not end with {list(append)}")
                    continue
                body = tokens[start:end]
                if not bodies or bodies[-1][0] != i or not np.array_equal(bodies[-1][1], body):
                    bodies.append((i, body))
                lang, name = file.describe(row)
                if lang != batch.langs[i] or (batch.ids is not None and name != batch.ids[i]):
                    wrong.append(f"{where}: stored with lang {lang!r} and id {name!r}")
                if own is not None and (found := file.shards.metadata(row)) != own[i]:
                    wrong.append(f"{where}: stored with other metadata, {found}")
            compared += 1
        for i, differs in _find_others(job.config, tokenizer, batch, bodies):
            wrong.append(f"{source.uri}, record {int(batch.ordinals[i])}: {differs}")
        if compared >= limit:
            break
    return compared, wrong + _list_lost(job, assignment, absent)


def _list_lost(job: DecodeJob, assignment: Assignment, absent: Mapping[tuple[str, int], str]) -> list[str]:
    """Of the documents that no shard has, what is said of those that earlier releases would not have rejected."""
    if not absent:
        return []
    ranges = tuple(
        dataclasses.replace(one, settings=dataclasses.replace(one.settings, as_before=True))
        for one in assignment.ranges
    )
    taken = {
        place
        for source, batch in ItemReader(dataclasses.replace(assignment, ranges=ranges), job.base, output=job.output)
        for ordinal in batch.ordinals.tolist()
        if (place := (source.uri, ordinal + source.start)) in absent
    }
    return [said for place, said in absent.items() if place in taken]


def _find_others(
    config: ShardsConfig, tokenizer: Tokenizer, batch: Batch, bodies: Sequence[tuple[int, Ids]]
) -> Iterator[tuple[int, str]]:
    """(document, what is wrong) where tokens are not those of the document's text. bodies: (document, tokens).

    Tokens of a lossless tokenizer must decode to the text. Those of another must be what the text is encoded to, drawn
    again if they were drawn: that is all there is to compare, as several texts may share them.
    """
    with_special = config.special_text == "special"
    if not tokenizer.lossless:
        for i, tokens in bodies:
            if not np.array_equal(tokens, _encode(config, tokenizer, batch, i, with_special)):
                yield i, "its tokens are not those of the text"
        return
    offsets = np.zeros(len(bodies) + 1, np.int64)
    np.cumsum([len(tokens) for _, tokens in bodies], out=offsets[1:])
    where = np.array([i for i, _ in bodies], np.int64)
    decoded = tokenizer.decode_texts(np.concatenate([np.zeros(0, np.int32), *(ids for _, ids in bodies)]), offsets)
    expected = tokenizer.normalized_texts(batch.texts.take(where), with_special)
    for place, i in enumerate(where.tolist()):
        if decoded.text(place) != expected.text(place):
            yield i, "its tokens decode to another text"


def _encode(config: ShardsConfig, tokenizer: Tokenizer, batch: Batch, i: int, with_special: bool) -> Ids:
    text = batch.texts.text(i)
    if (randomness := make_randomness(config)) is None:
        return tokenizer.encode(text, allow_special="all" if with_special else ())
    seed = compute_draw_seed(config.seed or 0, config.epoch or 0, batch.compute_key(i))
    texts = make_texts_from_strings([text])
    return tokenizer.draw_texts(texts, randomness, np.array([seed], np.uint64), with_special=with_special).ids


class WrittenFile(NamedTuple):
    """A shard in one format."""

    name: str
    shards: Shards
    columns: TokenBatch | None  # of its documents, without tokens; None: they are asked for one by one

    def describe(self, row: int) -> tuple[str, str | None]:
        """Language and id of a document."""
        if self.columns is None:
            document = self.shards.document(row)
            return document.lang, document.id
        return self.columns.langs[row], self.columns.ids[row]


class WrittenRows:
    """(source, ordinal) -> where it is stored, one place per format; 17 bytes for each place."""

    def __init__(self) -> None:
        self._files: list[WrittenFile] = []
        self._sources: dict[str, int] = {}
        self._parts: list[tuple[Offsets, Offsets, Offsets, Offsets]] = []

    def add(self, file: WrittenFile, sources: Labels, ordinals: Offsets, rows: Offsets) -> None:
        """Some rows of a shard, and the records that they came from. Call close() after the last."""
        codes = np.array([self._sources.setdefault(name, len(self._sources)) for name in sources.names], np.int64)
        files = np.full(len(rows), len(self._files), np.int64)
        self._files.append(file)
        self._parts.append((codes[sources.codes] if len(rows) else rows, ordinals, files, rows))

    def close(self) -> None:
        """Sort what was added, so that it can be found."""
        columns = [np.concatenate([np.zeros(0, np.int64), *column]) for column in zip(*self._parts, strict=True)]
        self._parts.clear()
        sources, ordinals, files, rows = columns or [np.zeros(0, np.int64)] * 4
        order = np.lexsort((files, ordinals, sources))
        self._ordinals, self._places = ordinals[order], np.stack([files[order], rows[order]], axis=1).astype(np.int32)
        self._bounds = np.searchsorted(sources[order], np.arange(len(self._sources) + 1))
        self._is_taken = np.zeros(len(order), bool)

    def take(self, source: str, ordinal: int) -> list[tuple[WrittenFile, int]]:
        """Where a record is stored, unless it was asked for before: (shard, row) of each."""
        if (code := self._sources.get(source)) is None:
            return []
        low, high = int(self._bounds[code]), int(self._bounds[code + 1])
        own = self._ordinals[low:high]
        first, last = (low + int(np.searchsorted(own, ordinal, side=side)) for side in ("left", "right"))
        if self._is_taken[first:last].any():
            return []
        self._is_taken[first:last] = True
        return [(self._files[file], row) for file, row in self._places[first:last].tolist()]

    def list_unasked(self) -> list[tuple[str, int]]:
        """The first few records that were never asked for."""
        names = [*self._sources]
        found = np.flatnonzero(~self._is_taken)[:_MOST_NAMED]
        codes = np.searchsorted(self._bounds, found, side="right") - 1
        return [(names[code], int(self._ordinals[i])) for code, i in zip(codes.tolist(), found.tolist(), strict=True)]


def _index_written(job: DecodeJob, files: Iterable[FormatFile]) -> WrittenRows:
    """Where the records of the work items are stored. Of a shuffled shard, its provenance file is read, once."""
    written = WrittenRows()
    for file in files:
        shards = open_shards(file.path, split="all")
        if job.config.shuffle is not None:
            provenance = open_provenance(file)
            rows = _find_rows(job.assignments, provenance)
            one = WrittenFile(Path(file.path).name, shards, None)
            written.add(one, provenance.sources.take(rows), provenance.ordinals[rows], rows)
        else:
            columns = join_batches([batch.without_tokens() for batch in file.open().batches()])
            rows = np.arange(columns.num_documents)
            written.add(WrittenFile(Path(file.path).name, shards, columns), columns.sources, columns.ordinals, rows)
    written.close()
    return written


def _find_rows(assignments: Iterable[Assignment], provenance: Provenance) -> Offsets:
    """The rows of a shuffled shard that came from the work items."""
    rows: list[Offsets] = [np.zeros(0, np.int64)]
    by_source = provenance.sources.by_label()
    for one in (one for assignment in assignments for one in assignment.ranges):
        where = by_source.get(one.uri, np.zeros(0, np.int64))
        ordinals = provenance.ordinals[where]
        # Only of a file that is cut do ordinals say which range has the record.
        own = (ordinals >= one.start) & (ordinals < one.end) if one.is_cut else np.ones(len(where), bool)
        rows.append(where[own])
    return np.concatenate(rows)
