"""Reading: from the pinned bytes of an input range to batches of documents, with every rejected record named.

A rejection follows from bytes and settings alone: what goes wrong with the store is a StageError, after retries. A file
that does not end properly is rejected before any of its records is given out. Memory is bounded by a few blocks, a
batch and the largest document allowed, whatever the bytes are (and KEPT_BYTES of a compressed file).

Leaves to others: which ranges there are (schemas.plan), URLs (pipelines.store), and what becomes of the documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pipelines.reading.jsonl import read_json_lines
from pipelines.reading.plain import read_plain_text
from pipelines.reading.records import REASONS, Batch, FileRejected, ReadSettings, Reject
from pipelines.reading.streams import Meter, file_blocks
from pipelines.store.storage import FileId

if TYPE_CHECKING:
    from schemas.config import Source

__all__ = [
    "REASONS",
    "Batch",
    "FileRejected",
    "Meter",
    "ReadSettings",
    "Reject",
    "read_documents",
    "settings_of",
]


def settings_of(source: Source, format: str, compression: str, forbidden: tuple[str, ...] = ()) -> ReadSettings:
    """How a file of a source of the build file is read; what has no say in its format is left empty.

    format, compression: of the file, as ReadSettings has them. forbidden: special texts that reject a document.
    """
    has_fields = format != "text"
    unit = "" if has_fields else source.unit or ("separator" if source.separator else "file")
    return ReadSettings(
        format=format,
        compression=compression if format in ("jsonl", "text") else "none",
        text=source.text if has_fields else "",
        id=(source.id or "") if has_fields else "",
        lang=source.lang or "",
        lang_field=source.lang_field or "",
        invalid_utf8=source.invalid_utf8,
        max_document_bytes=source.max_document_bytes,
        unit=unit,
        separator=(source.separator or "") if unit == "separator" else "",
        forbidden=forbidden,
    )


def read_documents(
    file: FileId, start: int, end: int, settings: ReadSettings, meter: Meter | None = None
) -> Iterator[Batch]:
    """The records of a range in order, as batches of some megabytes; at least one batch, which may be empty.

    A record belongs to the range that holds its first byte; formats that cannot be cut take the whole file as one
    range, start and end being ignored. Raises FileRejected before the first batch if the file as a whole is rejected,
    and StageError if it cannot be read or is not the file that was pinned. meter: counts the stored bytes read.
    """
    meter = meter or Meter()
    if settings.format in ("parquet", "arrow"):
        # Not everybody who reads needs it, and pyarrow's modules for it take a tenth of a second to import.
        from pipelines.reading.columns import read_columns

        return _whole(read_columns(file, settings), file, meter)
    if settings.format == "text" and settings.unit != "line":
        start, end = 0, file.size_bytes
    blocks = file_blocks(file, start, end, settings.compression, meter)
    return (read_json_lines if settings.format == "jsonl" else read_plain_text)(blocks, settings)


def _whole(batches: Iterator[Batch], file: FileId, meter: Meter) -> Iterator[Batch]:
    yield from batches
    meter.stored_bytes = file.size_bytes
