"""What a worker of `tokcore verify --decode` does: compare a work item's shards with its sources. No Beam."""

from __future__ import annotations

import dataclasses
from typing import Any

from pipelines.store import storage, urls
from pipelines.work.item_reader import ItemReader
from pipelines.work.jobs import special_ids
from schemas.plan import Assignment
from schemas.stage_manifests import ShardsConfig
from tokcore.shards import open_shards
from tokcore.tokenizer import Tokenizer
from tokcore.tokenizer_spec import TokenizerSpec


def load_tokenizer(output: str) -> Tokenizer:
    """The tokenizer of an output, wherever it is stored."""
    return Tokenizer(load_spec(output))


def load_spec(output: str) -> TokenizerSpec:
    """What the tokenizer of an output is made of, for those that encode nothing."""
    url = urls.join(output, "tokenizer", "tokcore.json")
    return TokenizerSpec.from_json_bytes(storage.read_bytes(url), url)


@dataclasses.dataclass(frozen=True, slots=True)
class DecodeJob:
    output: str
    base: str
    assignment: Assignment
    shards: tuple[str, ...]  # paths below shards/, of the .arrow and .bin files
    limit: int | None
    config: ShardsConfig


def decode_item(job: DecodeJob) -> tuple[int, list[str]]:
    """Compare the shards of a work item, in each format, with the documents read from its sources."""
    tokenizer = load_tokenizer(job.output)
    append = list(special_ids(tokenizer.spec, job.config.append))
    with_special = job.config.special_text == "special"
    written = _written(job)
    compared = 0
    wrong: list[str] = []
    for source, batch in ItemReader(job.assignment, job.base):
        for i in range(batch.texts.num_texts):
            key = (source.uri, int(batch.ordinals[i]) + source.start)
            places = written.pop(key, [])
            where = f"{source.uri}, record {int(batch.ordinals[i])}"
            if len(places) != len(job.config.formats):
                wrong.append(f"{where}: stored {len(places)} times, in {len(job.config.formats)} format(s)")
            expected = tokenizer.normalized(batch.texts.text(i), with_special=with_special)
            for shards, row in places:
                tokens = shards[row].tolist()
                end = len(tokens) - len(append)
                document = shards.document(row)
                if tokens[end:] != append:
                    wrong.append(f"{where}: its tokens do not end with {append}")
                elif tokenizer.decode(tokens[:end]) != expected:
                    wrong.append(f"{where}: its tokens decode to another text")
                elif document.lang != batch.langs[i] or (batch.ids is not None and document.id != batch.ids[i]):
                    wrong.append(f"{where}: stored with lang {document.lang!r} and id {document.id!r}")
            compared += 1
            if job.limit is not None and compared >= job.limit:
                return compared, wrong
    wrong.extend(f"{uri}, ordinal {ordinal}: in a shard, but not in the source" for uri, ordinal in written)
    return compared, wrong


def _written(job: DecodeJob) -> dict[tuple[str, int], list[tuple[Any, int]]]:
    """(source, ordinal) -> where it is stored: one place per format."""
    places: dict[tuple[str, int], list[tuple[Any, int]]] = {}
    for path in job.shards:
        shards = open_shards(str(urls.local_path(urls.join(job.output, "shards", path))), split="all")
        for row in range(len(shards)):
            document = shards.document(row)
            places.setdefault((document.source, document.ordinal), []).append((shards, row))
    return places
