"""The records of an input range of any format, with languages, texts and fields as they are written there."""

from __future__ import annotations

from collections.abc import Iterator

from tokcore_pipelines.reading.beside import leave_attributes
from tokcore_pipelines.reading.column_reader import read_columns
from tokcore_pipelines.reading.delimited import read_delimited
from tokcore_pipelines.reading.jsonl import read_json_lines
from tokcore_pipelines.reading.limits import read_to_end_first
from tokcore_pipelines.reading.plain import read_plain_text
from tokcore_pipelines.reading.plugins import find_reader, read_records
from tokcore_pipelines.reading.records import Batch, FileRejected
from tokcore_pipelines.reading.streams import Meter, read_file_blocks, read_stored_blocks, read_whole_file
from tokcore_pipelines.store.storage import FileId
from tokcore_pipelines.store.urls import explain_unreadable
from tokcore_schemas.plan import ReadSettings, take_share

_RECORD_BYTES = 200  # of a record beside its text, or of a reject, about


def read_as_written(
    file: FileId, start: int, end: int, settings: ReadSettings, meter: Meter, extent: int = 0
) -> Iterator[Batch]:
    """As input_range.read_documents, before anything is settled or left out."""
    if unreadable := explain_unreadable(file.url):
        raise FileRejected("unreadable_name", unreadable)
    if settings.format == "parquet" and extent:
        return _count_rows(read_columns(file, settings, start, end), file, (start, end, extent), meter)
    if settings.format in ("parquet", "arrow"):
        return _count_whole_file(read_columns(file, settings), file, meter)
    if settings.plugin:
        reader = find_reader(settings)
        return read_to_end_first(
            lambda: read_records(reader, read_stored_blocks(file, settings, meter), settings), _estimate_size
        )
    if settings.format in ("csv", "tsv", "warc"):
        read = read_delimited
        if settings.format == "warc":
            from tokcore_pipelines.reading.warc import read_warc  # loads warcio

            read = read_warc
        return read_to_end_first(lambda: read(read_whole_file(file, settings, meter), settings), _estimate_size)
    if settings.format == "text" and settings.unit != "line":
        start, end = 0, file.size_bytes
    blocks = read_file_blocks(file, start, end, settings, meter, extent)
    return (read_json_lines if settings.format == "jsonl" else read_plain_text)(blocks, settings)


def read_to_prove(file: FileId, start: int, end: int, settings: ReadSettings, extent: int) -> None:
    """Read all that a range is made of, once. Raises FileRejected if it is damaged. extent: as for read_documents."""
    read: Iterator[object]
    if settings.format == "parquet":
        read = read_columns(file, leave_attributes(settings), start, end)
    else:
        read = read_file_blocks(file, start, end, settings, Meter(), extent)
    for _ in read:
        pass


def _estimate_size(batch: Batch) -> int:
    """About what a batch takes in memory."""
    return batch.texts.size_bytes + _RECORD_BYTES * batch.num_records


def _count_rows(batches: Iterator[Batch], file: FileId, place: tuple[int, int, int], meter: Meter) -> Iterator[Batch]:
    """Counts each row as its share of the file. place: (start, end, extent) of the range."""
    start, _, extent = place
    num_rows = 0
    for batch in batches:
        num_rows += batch.num_records
        meter.stored_bytes = take_share(file.size_bytes, extent, start, start + num_rows)
        yield batch


def _count_whole_file(batches: Iterator[Batch], file: FileId, meter: Meter) -> Iterator[Batch]:
    yield from batches
    meter.stored_bytes = file.size_bytes
