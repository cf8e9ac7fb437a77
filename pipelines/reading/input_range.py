"""Reading: the pinned bytes of an input range become batches of documents, and every rejected record is named.

A rejection depends only on bytes and settings; a failing store raises a StageError, after retries. A file that does not
end properly is rejected before any of its records is yielded. Memory is bounded, whatever the bytes are: a few blocks,
a batch, the largest document allowed, and KEPT_BYTES of a compressed file.

The ranges come from tokcore_schemas.plan, access to URLs from tokcore_pipelines.store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, get_args

from tokcore.errors import ConfigError
from tokcore.plugins.reader import READERS
from tokcore_pipelines.reading.as_written import read_as_written
from tokcore_pipelines.reading.beside import leave_attributes
from tokcore_pipelines.reading.filters import filter_batch
from tokcore_pipelines.reading.masks import mask_batch
from tokcore_pipelines.reading.metadata import settle_metadata
from tokcore_pipelines.reading.records import REASONS, Batch, FileRejected, Reject, settle_langs
from tokcore_pipelines.reading.streams import Meter
from tokcore_pipelines.store.storage import FileId
from tokcore_schemas.document import normalize_lang
from tokcore_schemas.encodings import UTF8
from tokcore_schemas.expressions import parse_expression
from tokcore_schemas.input_format import Compression, FileFormat
from tokcore_schemas.plan import (
    Attributes,
    FieldKind,
    FieldOfRecord,
    FilterRule,
    MapRule,
    MaskRule,
    MetadataField,
    ReadSettings,
)

if TYPE_CHECKING:
    from tokcore_schemas.config import Source

__all__ = [
    "REASONS",
    "Batch",
    "FileRejected",
    "Meter",
    "Reject",
    "make_read_settings",
    "read_documents",
]


def make_read_settings(
    source: Source,
    format: str,
    compression: Compression,
    forbidden: tuple[str, ...] = (),
    *,
    normalizes_langs: bool = True,
    metadata: tuple[MetadataField, ...] = (),
    maps: tuple[MapRule, ...] = (),
    filters: tuple[FilterRule, ...] = (),
    mask: MaskRule | None = None,
    compared: tuple[FieldOfRecord, ...] = (),
    order: int = 0,
    attributes: Attributes | None = None,
) -> ReadSettings:
    """How to read a file of a source of the build file. Settings that its format does not use stay empty.

    format, compression: the file's, as in ReadSettings. forbidden: special texts that reject a document.
    normalizes_langs: as of BuildConfig. metadata: what goes into shards. maps: steps that change documents. mask: what
    texts do not keep then. filters: rules that documents must pass. compared: fields that deduplication looks at.
    order: number of the source, where it matters. attributes: tables that hold some of the fields.

    Raises ConfigError for one of these that looks at fields, which text files have not, or at ids that a source lacks.
    """
    has_fields = format != "text"
    is_delimited = format in ("csv", "tsv")
    fields = list_looked_at(filters, mask, compared)
    of_tables = {*attributes.fields} if attributes is not None else set[str]()
    lacking = next((one.name for one in compared if one.name not in of_tables), None)
    if not has_fields and lacking is not None:
        raise ConfigError(
            f"dedup: text files have no fields, and [dedup] looks at {lacking!r}: write their documents as "
            f"jsonl or Parquet, or compare by text"
        )
    if not has_fields and mask is not None and mask.spans and mask.spans not in of_tables:
        raise ConfigError(
            f"mask: text files have no fields, and mask.spans = {mask.spans!r} names one: write their documents as "
            f"jsonl or Parquet, or mask by presets and regex"
        )
    if attributes is not None and attributes.join == "id" and not (source.id and has_fields):
        raise ConfigError(
            f"metadata.attributes: its tables are joined by id, and a source of {format} files has none: set `id` of "
            f'the source, or write join = "ordinal"'
        )
    known = of_tables | {one.name for one in metadata}  # which [[map]] may fill
    unknown = [one.name for one in fields if one.name not in known]
    if unknown and not has_fields:
        raise ConfigError(
            f"filter: text files have no fields, and a filter looks at {unknown[0]!r}: write their documents as "
            f"jsonl or Parquet, or filter by a ready rule"
        )
    unit = "" if has_fields else source.unit or ("separator" if source.separator else "file")
    return ReadSettings(
        format=format,
        compression="none" if format in ("parquet", "arrow") else compression,
        text=source.text if has_fields and format != "warc" else "",
        id=(source.id or "") if has_fields else "",
        lang=normalize_lang(source.lang or "") if normalizes_langs else source.lang or "",
        lang_field=source.lang_field or "",
        invalid_utf8=source.invalid_utf8,
        max_document_bytes=source.max_document_bytes,
        unit=unit,
        separator=(source.separator or "") if unit == "separator" else "",
        forbidden=forbidden,
        encoding="" if source.encoding == UTF8 or format in ("parquet", "arrow", "warc") else source.encoding,
        delimiter=(source.delimiter or {"csv": ",", "tsv": "\t"}[format]) if is_delimited else "",
        quotes=source.quotes or not is_delimited,
        validation=source.validation,
        group=(source.group or "") if has_fields else "",
        name=source.name or "",
        lang_normalize="bcp47" if normalizes_langs and (source.lang_field or maps) else "",
        plugin=READERS.find_version(format) if format not in get_args(FileFormat) else "",
        lang_map=tuple(sorted((source.lang_map or {}).items())) if source.lang_field else (),
        fields=_add_metadata(fields, metadata),
        metadata=metadata,
        attributes=attributes,
        maps=maps,
        filters=filters,
        mask=mask,
        order=order,
    )


def list_looked_at(
    filters: Sequence[FilterRule], mask: MaskRule | None = None, compared: Sequence[FieldOfRecord] = ()
) -> tuple[FieldOfRecord, ...]:
    """The fields that filters, a mask and deduplication look at, each once, by name.

    Types agree, which config_checks sees to; what is compared as a name may be of another type.
    """
    kinds: dict[str, FieldKind] = {mask.spans: "spans"} if mask is not None and mask.spans else {}
    kinds |= {one.name: one.kind for one in compared if one.kind != "name"}
    for rule in filters:
        for name, kind in (parse_expression(rule.keep).fields if rule.keep else {}).items():
            kinds[name] = kind if kinds.get(name, "any") == "any" else kinds[name]
    for one in compared:
        if kinds.get(one.name, "any") == "any":
            kinds[one.name] = one.kind
    return tuple(FieldOfRecord(name, kind) for name, kind in sorted(kinds.items()))


def _add_metadata(fields: tuple[FieldOfRecord, ...], metadata: tuple[MetadataField, ...]) -> tuple[FieldOfRecord, ...]:
    """The fields that rules look at, and those that go into shards, each once, by name."""
    kinds = {one.name: one.kind for one in fields} | {one.name: one.kind for one in metadata}
    return tuple(FieldOfRecord(name, kind) for name, kind in sorted(kinds.items()))


def read_documents(
    file: FileId, start: int, end: int, settings: ReadSettings, meter: Meter | None = None, extent: int = 0
) -> Iterator[Batch]:
    """The records of a range in order, in batches of a few megabytes; at least one batch, which may be empty.

    A record belongs to the range that holds its first byte. A format that cannot be cut ignores start and end and reads
    the whole file. extent: as of InputFile; if it is set, start and end are bytes of text or rows, and the file's
    ranges must have been proved. Raises FileRejected before the first batch if the whole file is rejected (of a range
    that was not proved, at any place), and StageError if it cannot be read or is not the pinned file. meter: counts the
    stored bytes read.
    """
    batches = read_as_written(file, start, end, leave_attributes(settings), meter or Meter(), extent)
    return (settle_batch(batch, settings, file.url, start) for batch in batches)


def settle_batch(batch: Batch, settings: ReadSettings, url: str, start: int = 0) -> Batch:
    """A batch as its source has it, out of one as records have it: every format goes through here.

    url, start: its file, and the first byte of its range.
    """
    where = url + (f", range from byte {start}" if start else "")
    if settings.attributes is not None:
        from tokcore_pipelines.reading.attributes import join_attributes  # loads pyarrow.parquet

        batch = join_attributes(batch, settings, url, start)
    if settings.lang_normalize or settings.lang_map:
        batch = settle_langs(batch, settings)
    if settings.maps:
        # Most builds have none, and it loads pyarrow.ipc.
        from tokcore_pipelines.reading.maps import map_batch

        batch = map_batch(batch, settings, where)
    if settings.metadata:
        batch = settle_metadata(batch, settings)
    if settings.mask is not None:
        batch = mask_batch(batch, settings.mask, settings.forbidden)
    return filter_batch(batch, settings.filters) if settings.filters else batch
