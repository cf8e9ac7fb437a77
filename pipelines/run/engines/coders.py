"""Beam coders of our element types: deterministic, without pickle."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
from apache_beam import coders
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.options.pipeline_options import SetupOptions
from apache_beam.utils.timestamp import Timestamp

from tokcore.files.canonical_json import write_canonical_json
from tokcore.files.jsonable import from_jsonable, to_jsonable
from tokcore_pipelines.run.engines.driver_options import tell_workers
from tokcore_pipelines.work.read_source import Record
from tokcore_schemas.arrivals import Arrival, Batch, PaneCommitted
from tokcore_schemas.document import Document, DocumentChunk, EncodedDocument, RejectedRecord
from tokcore_schemas.plan import Assignment
from tokcore_schemas.refs import (
    DropPiece,
    ItemEncoded,
    JudgePart,
    MixPart,
    PackGroup,
    RangeToProve,
    RunRef,
    ShardsCommitted,
    ShufflePart,
    TablePart,
    TableRef,
)
from tokcore_schemas.verified import (
    FilesToHash,
    IdsToAddUp,
    ItemsToDecode,
    PieceToMake,
    ShardsToRead,
    TableToRead,
)

_URN = "tokcore:coder:json:v1"
_BOOT_PLUGIN = "tokcore_pipelines.run.engines.boot_plugin"
_REFS = (
    Arrival,
    Assignment,
    Batch,
    DocumentChunk,
    DropPiece,
    FilesToHash,
    IdsToAddUp,
    ItemEncoded,
    ItemsToDecode,
    JudgePart,
    MixPart,
    PackGroup,
    PaneCommitted,
    PieceToMake,
    RangeToProve,
    RejectedRecord,
    RunRef,
    ShardsCommitted,
    ShardsToRead,
    ShufflePart,
    TablePart,
    TableRef,
    TableToRead,
)
_CLASSES: dict[str, type] = {cls.__name__: cls for cls in _REFS}


def import_in_workers(pipeline: Any) -> None:
    """Make worker processes import this module first: they find its coders by name, not in a pickle.

    Workers are also told which release drives them, and where the stores are found; boot_plugin has those answer that
    tokcore-worker did not start.
    """
    tell_workers(pipeline.options)
    options = pipeline.options.view_as(SetupOptions)
    plugins = options.beam_plugins or []
    options.beam_plugins = [*plugins, *(one for one in (_BOOT_PLUGIN, __name__) if one not in plugins)]


class JsonCoder(coders.Coder):
    """One of our frozen dataclasses as canonical JSON."""

    def __init__(self, cls: type) -> None:
        assert _CLASSES.get(cls.__name__) is cls, f"{cls} is not a ref"
        self.cls = cls

    def encode(self, value: Any) -> bytes:
        return write_canonical_json(to_jsonable(value))

    def decode(self, encoded: bytes) -> Any:
        return from_jsonable(self.cls, json.loads(encoded), self.cls.__name__)

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type:
        return self.cls

    @classmethod
    def from_type_hint(cls, typehint: Any, _registry: Any) -> JsonCoder:
        return cls(typehint)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonCoder) and self.cls is other.cls

    def __hash__(self) -> int:
        return hash(self.cls.__name__)

    def to_runner_api_parameter(self, _context: Any) -> tuple[str, bytes, list[Any]]:
        return _URN, self.cls.__name__.encode(), []


@coders.Coder.register_urn(_URN, bytes)
def _make_json_coder(payload: bytes, _components: Any, _context: Any) -> JsonCoder:
    return JsonCoder(_CLASSES[payload.decode()])


class _PlainCoder(coders.Coder):
    """A coder of one class, without settings."""

    cls: type
    urn: str

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type:
        return self.cls

    def to_runner_api_parameter(self, _context: Any) -> tuple[str, bytes, list[Any]]:
        return self.urn, b"", []


class DocumentCoder(_PlainCoder):
    """A Document: each field after its length. Keeps the type of text, and an id of None."""

    cls = Document
    urn = "tokcore:coder:document:v1"

    def encode(self, value: Document) -> bytes:
        text, kind = (value.text.encode(), b"s") if isinstance(value.text, str) else (value.text, b"b")
        return kind + _join(value.lang.encode(), _pack_id(value.id), text)

    def decode(self, encoded: bytes) -> Document:
        lang, name, text = _split(encoded[1:], 3)
        return Document(lang.decode(), _unpack_id(name), text.decode() if encoded[:1] == b"s" else text)


class EncodedDocumentCoder(_PlainCoder):
    """An EncodedDocument: each field after its length; tokens as int32, little-endian."""

    cls = EncodedDocument
    urn = "tokcore:coder:encoded-document:v1"

    def encode(self, value: EncodedDocument) -> bytes:
        return _join(value.lang.encode(), _pack_id(value.id), np.asarray(value.tokens, "<i4").tobytes())

    def decode(self, encoded: bytes) -> EncodedDocument:
        lang, name, tokens = _split(encoded, 3)
        return EncodedDocument(lang.decode(), _unpack_id(name), np.frombuffer(tokens, "<i4"))


class RecordCoder(_PlainCoder):
    """A Record: a letter, then its document or what was rejected."""

    cls = Record
    urn = "tokcore:coder:record:v1"

    _documents = DocumentCoder()

    def encode(self, value: Record) -> bytes:
        if value.document is not None:
            return b"d" + self._documents.encode(value.document)
        return b"r" + JsonCoder(RejectedRecord).encode(value.rejected)

    def decode(self, encoded: bytes) -> Record:
        if encoded[:1] == b"d":
            return Record(self._documents.decode(encoded[1:]), None)
        return Record(None, JsonCoder(RejectedRecord).decode(encoded[1:]))


class RangeCoder(_PlainCoder):
    """A range of numbers. Beam would pickle it."""

    cls = OffsetRange
    urn = "tokcore:coder:range:v1"

    def encode(self, value: OffsetRange) -> bytes:
        return struct.pack(">QQ", value.start, value.stop)

    def decode(self, encoded: bytes) -> OffsetRange:
        return OffsetRange(*struct.unpack(">QQ", encoded))


class TimeCoder(_PlainCoder):
    """A time in microseconds, or none. Beam would pickle its own coder."""

    cls = Timestamp
    urn = "tokcore:coder:time:v1"

    def encode(self, value: Timestamp | None) -> bytes:
        return b"" if value is None else struct.pack(">q", value.micros)

    def decode(self, encoded: bytes) -> Timestamp | None:
        return Timestamp(micros=struct.unpack(">q", encoded)[0]) if encoded else None


# Stands for an id of None. UTF-8 never holds this byte, so no id looks like it.
_NO_ID = b"\xff"


def _pack_id(id: str | None) -> bytes:
    return _NO_ID if id is None else id.encode()


def _unpack_id(encoded: bytes) -> str | None:
    return None if encoded == _NO_ID else encoded.decode()


def _join(*fields: bytes) -> bytes:
    return b"".join(len(field).to_bytes(8, "little") + field for field in fields)


def _split(data: bytes, num_fields: int) -> list[bytes]:
    fields, start = [], 0
    for _ in range(num_fields):
        size = int.from_bytes(data[start : start + 8], "little")
        fields.append(data[start + 8 : start + 8 + size])
        start += 8 + size
    return fields


def _register_urn(coder: type[_PlainCoder]) -> None:
    coders.Coder.register_urn(coder.urn, bytes, lambda _payload, _components, _context: coder())


for _cls in _CLASSES.values():
    coders.registry.register_coder(_cls, JsonCoder)
for _coder in (DocumentCoder, EncodedDocumentCoder, RecordCoder):
    coders.registry.register_coder(_coder.cls, _coder)
    _register_urn(_coder)
for _coder in (RangeCoder, TimeCoder):  # of a stream's steps alone: others in this process keep Beam's
    _register_urn(_coder)
