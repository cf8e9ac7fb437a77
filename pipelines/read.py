"""Reading: from the pinned bytes of an input range to batches of documents, with every rejected record named.

A rejection follows from bytes and settings alone: what goes wrong with the store is a StageError, after retries. A file
that does not end properly is rejected before any of its records is given out. Memory is bounded by a few blocks, a
batch and the largest document allowed, whatever the bytes are (and KEPT_BYTES of a compressed file).

Leaves to others: which ranges there are (schemas.plan), URLs (pipelines.storage), and what becomes of the documents.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from pipelines.reading.columns import read_columns
from pipelines.reading.jsonl import read_json_lines
from pipelines.reading.plain import read_plain_text
from pipelines.reading.records import REASONS, Batch, FileRejected, ReadSettings, Reject
from pipelines.reading.streams import file_blocks
from pipelines.storage import FileId

__all__ = [
    "REASONS",
    "Batch",
    "FileRejected",
    "ReadSettings",
    "Reject",
    "format_of",
    "read_documents",
]

_COMPRESSIONS = {".gz": "gz", ".zst": "zst", ".zstd": "zst"}
_FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
    ".txt": "text",
    ".text": "text",
    ".md": "text",
}


def format_of(url: str) -> tuple[str, str]:
    """Format and compression that a file's name tells: ("jsonl", "zst") of a.jsonl.zst; "" for a format it does not.

    >>> format_of("s3://bucket/a.JSONL.gz"), format_of("notes"), format_of("a.parquet")
    (('jsonl', 'gz'), ('', 'none'), ('parquet', 'none'))
    """
    stem, suffix = posixpath.splitext(url.lower())
    compression = _COMPRESSIONS.get(suffix, "none")
    if compression != "none":
        suffix = posixpath.splitext(stem)[1]
    return _FORMATS.get(suffix, ""), compression


def read_documents(file: FileId, start: int, end: int, settings: ReadSettings) -> Iterator[Batch]:
    """The records of a range in order, as batches of some megabytes; at least one batch, which may be empty.

    A record belongs to the range that holds its first byte; formats that cannot be cut take the whole file as one
    range, start and end being ignored. Raises FileRejected before the first batch if the file as a whole is rejected,
    and StageError if it cannot be read or is not the file that was pinned.
    """
    if settings.format in ("parquet", "arrow"):
        return read_columns(file, settings)
    if settings.format == "text" and settings.unit != "line":
        start, end = 0, file.size_bytes
    blocks = file_blocks(file, start, end, settings.compression)
    return (read_json_lines if settings.format == "jsonl" else read_plain_text)(blocks, settings)
