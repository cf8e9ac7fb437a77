"""The items of tests, of which documents may share no run of words: read from the files that a plan pinned."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

from tokcore.errors import StageError
from tokcore.text.quality.overlap import OverlapIndex
from tokcore_pipelines.reading.as_written import read_as_written
from tokcore_pipelines.reading.records import Batch
from tokcore_pipelines.reading.streams import Meter
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.plan import ItemsFile, Overlap, ReadSettings
from tokcore_schemas.refs import OverlapRef

_LONGEST_ITEM = 1 << 26  # bytes


class TestItems(NamedTuple):
    """All items of a rule."""

    searched: OverlapIndex
    places: tuple[tuple[int, int], ...]  # of each: number of its file, and of the record in it


@functools.lru_cache(maxsize=4)
def load_items(overlap: Overlap) -> TestItems:
    """The items of a rule whose files are absolute.

    Raises StageError for a file that cannot be read, is not the one that was pinned, or has a record that is no item.
    """
    texts: list[bytes] = []
    places: list[tuple[int, int]] = []
    for number, file in enumerate(overlap.files):
        if storage.compute_sha256(file.uri) != file.sha256:
            raise StageError(f"{redact(file.uri)}: its content is not what it was when the build was planned")
        for batch in _read(file, overlap.field):
            if batch.rejects:
                first = batch.rejects[0]
                raise StageError(
                    f"{redact(file.uri)}: record {first.record}: {first.reason}: {first.detail}. So it cannot be told "
                    f"which documents have this test item: correct the file, or ngram_overlap.field"
                )
            texts += [batch.texts.text(i) for i in range(batch.texts.num_texts)]
            places += [(number, int(ordinal)) for ordinal in batch.ordinals]
    return TestItems(OverlapIndex(texts, overlap.n), tuple(places))


def list_overlaps(batch: Batch, i: int, name: str, overlap: Overlap) -> OverlapRef:
    """The items that a document shares a run of words with. name: of the rule."""
    items = load_items(overlap)
    found = tuple(items.places[number] for number in items.searched.find_items(batch.texts.text(i)))
    return OverlapRef(int(batch.ordinals[i]), name, found)


def _read(file: ItemsFile, field: str) -> Iterator[Batch]:
    settings = ReadSettings(
        format=file.format,
        compression=file.compression,
        text=field if file.format not in ("text", "warc") else "",
        id="",
        lang="und",
        lang_field="",
        invalid_utf8="replace",
        max_document_bytes=_LONGEST_ITEM,
        unit="line" if file.format == "text" else "",
        separator="",
        delimiter={"csv": ",", "tsv": "\t"}.get(file.format, ""),
    )
    pin = storage.stat(file.uri)
    yield from read_as_written(pin, 0, pin.size_bytes, settings, Meter())
