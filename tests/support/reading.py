"""Reading one file of some bytes, for tests of the readers."""

from __future__ import annotations

import bz2
import gzip
import lzma

import pytest
import zstandard

from tokcore_pipelines.reading.input_range import REASONS, read_documents
from tokcore_pipelines.store import storage
from tokcore_schemas.plan import ReadSettings

COMPRESS = {
    "gz": lambda data: gzip.compress(data, mtime=0),
    "zst": lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
    "bz2": bz2.compress,
    "xz": lzma.compress,
}
COMPRESSIONS = pytest.mark.parametrize("compression", list(COMPRESS))


def reading(**changes):
    values = {
        "format": "jsonl",
        "compression": "none",
        "text": "text",
        "id": "",
        "lang": "en",
        "lang_field": "",
        "invalid_utf8": "reject",
        "max_document_bytes": 1 << 28,
        "unit": "line",
        "separator": "",
    }
    return ReadSettings(**{**values, **changes})


def read(data, how=None, start=0, end=None, **changes):
    """(texts, rejects) of a file with this content; checks what holds for every file."""
    url = "memory://input"
    with storage.write_attempt(url) as file:
        file.write(data)
    how = how or reading(**changes)
    texts, rejects, ordinals, num_records = [], [], [], 0
    batches = list(read_documents(storage.stat(url), start, len(data) if end is None else end, how))
    assert batches
    for batch in batches:
        assert batch.num_records == batch.texts.num_texts + len(batch.rejects)
        assert len(batch.langs) == len(batch.ordinals) == batch.texts.num_texts
        assert (batch.ids is None) == (not how.id)
        assert batch.ids is None or len(batch.ids) == batch.texts.num_texts
        texts += [batch.texts.text(i) for i in range(batch.texts.num_texts)]
        ordinals += batch.ordinals.tolist()
        rejects += batch.rejects
        num_records += batch.num_records
    assert sorted(ordinals + [r.record for r in rejects]) == list(range(num_records))
    assert ordinals == sorted(ordinals)
    assert all(r.reason in REASONS and len(r.sample.encode()) <= 200 for r in rejects)
    return texts, rejects


def reasons(rejects):
    return [(r.record, r.reason) for r in rejects]
