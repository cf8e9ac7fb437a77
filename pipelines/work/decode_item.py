"""What a worker of `tokcore verify --decode` does: compare a work item's shards with its sources. No Beam."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipelines.reading.input_range import Batch
from pipelines.store import urls
from pipelines.store.local_copies import copy_if_remote
from pipelines.store.tokenizers import load_tokenizer
from pipelines.work.encode_item import choose_splits
from pipelines.work.item_reader import ItemReader
from pipelines.work.make_jobs import find_special_ids
from pipelines.work.scatter_item import compute_places
from schemas.draws import compute_draw_seed, make_randomness
from schemas.plan import Assignment
from schemas.shuffle import find_intervals
from schemas.stage_manifests import ShardsConfig
from tokcore.errors import FormatError
from tokcore.format_table import find_shard_at
from tokcore.shards import open_shards
from tokcore.texts import make_texts_from_strings
from tokcore.tokenizer import Tokenizer


class StoredPart(NamedTuple):
    """The shards of a work item, or of a part of a shuffle."""

    shards: tuple[str, ...]  # paths below shards/, of the files that shards go by
    files: tuple[str, ...]  # paths below shards/, of all files of these shards


@dataclasses.dataclass(frozen=True, slots=True)
class DecodeJob:
    """What a worker needs to compare one work item."""

    output: str
    base: str
    assignment: Assignment
    parts: tuple[StoredPart, ...]  # that may have documents of the work item: its own, or all of a shuffle
    limit: int | None  # documents to compare, at least; None: all
    config: ShardsConfig


def decode_item(job: DecodeJob) -> tuple[int, list[str]]:
    """(documents compared, what is wrong): a work item's documents, as shards of each format have them."""
    parts = job.parts if job.config.shuffle is None or job.limit is None else _find_parts(job, job.config.shuffle)
    with copy_if_remote(urls.join(job.output, "shards"), [path for part in parts for path in part.files]) as folder:
        return _compare_documents(job, folder, [path for part in parts for path in part.shards])


def _find_parts(job: DecodeJob, seed: int) -> list[StoredPart]:
    """The parts of a shuffle that the first documents of a work item are in."""
    numbers: set[int] = set()
    left = job.limit or 0
    for _, batch in ItemReader(job.assignment, job.base):
        places = compute_places(seed, batch, slice(0, min(left, batch.texts.num_texts)))
        numbers.update(find_intervals(places, len(job.parts)).tolist())
        left -= batch.texts.num_texts
        if left <= 0:
            break
    return [job.parts[number] for number in sorted(numbers)]


def _compare_documents(job: DecodeJob, folder: str, paths: Sequence[str]) -> tuple[int, list[str]]:
    tokenizer = load_tokenizer(job.output)
    prepend = list(find_special_ids(tokenizer.spec, "prepend", job.config.prepend))
    append = list(find_special_ids(tokenizer.spec, "append", job.config.append))
    written = _index_written(job, folder, paths)
    compared = 0
    wrong: list[str] = []
    for source, batch in ItemReader(job.assignment, job.base):
        splits = choose_splits(job.config, batch, slice(0, batch.texts.num_texts), source.settings.validation)
        for i in range(batch.texts.num_texts):
            key = (source.uri, int(batch.ordinals[i]) + source.start)
            places = written.pop(key, [])
            where = f"{source.uri}, record {int(batch.ordinals[i])}"
            if len(places) != len(job.config.formats):
                wrong.append(f"{where}: stored {len(places)} times, in {len(job.config.formats)} format(s)")
            difference = _make_comparer(job.config, tokenizer, batch, i)
            for shards, row in places:
                if not Path(shards.paths[0]).name.startswith(f"{splits[i]}-"):
                    wrong.append(f"{where}: not stored in the {splits[i]} split, to which it belongs")
                tokens = shards[row].tolist()
                start, end = len(prepend), len(tokens) - len(append)
                document = shards.document(row)
                if end < start or tokens[:start] != prepend:
                    wrong.append(f"{where}: its tokens do not begin with {prepend}")
                elif tokens[end:] != append:
                    wrong.append(f"{where}: its tokens do not end with {append}")
                elif found := difference(tokens[start:end]):
                    wrong.append(f"{where}: {found}")
                elif document.lang != batch.langs[i] or (batch.ids is not None and document.id != batch.ids[i]):
                    wrong.append(f"{where}: stored with lang {document.lang!r} and id {document.id!r}")
            compared += 1
            if job.limit is not None and compared >= job.limit:
                return compared, wrong
    wrong.extend(f"{uri}, ordinal {ordinal}: in a shard, but not in the source" for uri, ordinal in written)
    return compared, wrong


def _make_comparer(config: ShardsConfig, tokenizer: Tokenizer, batch: Batch, i: int) -> Callable[[list[int]], str]:
    """A function that says what is wrong with tokens of a document; "" if nothing is.

    Tokens of a lossless tokenizer must decode to the text. Those of another must be what the text is encoded to, drawn
    again if they were drawn: that is all there is to compare, as several texts may share them.
    """
    with_special = config.special_text == "special"
    text = batch.texts.text(i)
    if tokenizer.lossless:
        expected = tokenizer.normalized(text, with_special=with_special)
        return lambda tokens: "" if tokenizer.decode(tokens) == expected else "its tokens decode to another text"
    if (randomness := make_randomness(config)) is not None:
        seed = compute_draw_seed(config.seed or 0, config.epoch or 0, batch.compute_key(i))
        seeds = np.array([seed], np.uint64)
        texts = make_texts_from_strings([text])
        encoded = tokenizer.draw_texts(texts, randomness, seeds, with_special=with_special).ids.tolist()
    else:
        encoded = tokenizer.encode(text, allow_special="all" if with_special else ()).tolist()
    return lambda tokens: "" if tokens == encoded else "its tokens are not those of the text"


def _index_written(job: DecodeJob, folder: str, paths: Sequence[str]) -> dict[tuple[str, int], list[tuple[Any, int]]]:
    """(source, ordinal) -> where it is stored: one place per format. Of a shuffle, the work item's records alone."""
    places: dict[tuple[str, int], list[tuple[Any, int]]] = {}
    for path in paths:
        shards = open_shards(f"{folder}/{path}", split="all")
        is_shuffled = job.config.shuffle is not None
        for row in _find_rows(job.assignment, f"{folder}/{path}") if is_shuffled else range(len(shards)):
            document = shards.document(row)
            places.setdefault((document.source, document.ordinal), []).append((shards, row))
    return places


def _find_rows(assignment: Assignment, path: str) -> list[int]:
    """The rows of a shuffled shard that came from the work item."""
    file = find_shard_at(path)
    provenance = file.find_provenance() if file is not None else None
    if provenance is None:
        raise FormatError(f"{path}: its provenance file is not there")
    rows: list[int] = []
    by_source = provenance.sources.by_label()
    for one in assignment.ranges:
        where = by_source.get(one.uri, np.zeros(0, np.int64))
        ordinals = provenance.ordinals[where]
        # Only of a file that is cut do ordinals say which range has the record.
        own = (ordinals >= one.start) & (ordinals < one.end) if one.is_cut else np.ones(len(where), bool)
        rows += where[own].tolist()
    return rows
