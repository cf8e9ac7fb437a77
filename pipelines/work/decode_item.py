"""What a worker of `tokcore verify --decode` does: compare a work item's shards with its sources. No Beam."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from pipelines.store import urls
from pipelines.store.local_copies import copy_if_remote
from pipelines.store.tokenizers import load_tokenizer
from pipelines.work.item_reader import ItemReader
from pipelines.work.make_jobs import find_special_ids
from schemas.plan import Assignment
from schemas.stage_manifests import ShardsConfig
from tokcore.shards import open_shards
from tokcore.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True, slots=True)
class DecodeJob:
    output: str
    base: str
    assignment: Assignment
    shards: tuple[str, ...]  # paths below shards/, of the .arrow and .bin files
    files: tuple[str, ...]  # paths below shards/, of all files of these shards
    limit: int | None
    config: ShardsConfig


def decode_item(job: DecodeJob) -> tuple[int, list[str]]:
    """(documents compared, what is wrong): a work item's shards, in each format, against its sources."""
    with copy_if_remote(urls.join(job.output, "shards"), job.files) as folder:
        return _compare_documents(job, folder)


def _compare_documents(job: DecodeJob, folder: str) -> tuple[int, list[str]]:
    tokenizer = load_tokenizer(job.output)
    prepend = list(find_special_ids(tokenizer.spec, "prepend", job.config.prepend))
    append = list(find_special_ids(tokenizer.spec, "append", job.config.append))
    with_special = job.config.special_text == "special"
    written = _index_written(job, folder)
    compared = 0
    wrong: list[str] = []
    for source, batch in ItemReader(job.assignment, job.base):
        for i in range(batch.texts.num_texts):
            key = (source.uri, int(batch.ordinals[i]) + source.start)
            places = written.pop(key, [])
            where = f"{source.uri}, record {int(batch.ordinals[i])}"
            if len(places) != len(job.config.formats):
                wrong.append(f"{where}: stored {len(places)} times, in {len(job.config.formats)} format(s)")
            difference = _make_comparer(tokenizer, batch.texts.text(i), with_special)
            for shards, row in places:
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


def _make_comparer(tokenizer: Tokenizer, text: bytes, with_special: bool) -> Callable[[list[int]], str]:
    """What tells whether tokens are those of the text: of some tokens it says what is wrong, or nothing.

    Tokens of a lossless tokenizer must decode to the text. Those of another must be what the text is encoded to: that
    is all there is to compare, as several texts may share them.
    """
    if tokenizer.lossless:
        expected = tokenizer.normalized(text, with_special=with_special)
        return lambda tokens: "" if tokenizer.decode(tokens) == expected else "its tokens decode to another text"
    encoded = tokenizer.encode(text, allow_special="all" if with_special else ()).tolist()
    return lambda tokens: "" if tokens == encoded else "its tokens are not those of the text"


def _index_written(job: DecodeJob, folder: str) -> dict[tuple[str, int], list[tuple[Any, int]]]:
    """(source, ordinal) -> where it is stored: one place per format."""
    places: dict[tuple[str, int], list[tuple[Any, int]]] = {}
    for path in job.shards:
        shards = open_shards(f"{folder}/{path}", split="all")
        for row in range(len(shards)):
            document = shards.document(row)
            places.setdefault((document.source, document.ordinal), []).append((shards, row))
    return places
