"""The result of reading: batches of accepted documents, and the rejected records with their reasons."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.errors import FormatError
from tokcore.shards.labels import Labels
from tokcore.text.texts import Texts
from tokcore_pipelines.reading.span_fields import read_spans, spell_spans
from tokcore_pipelines.store.printable import UNPRINTABLE, escape_match
from tokcore_schemas.document import compute_document_key, normalize_lang
from tokcore_schemas.plan import FieldKind, ReadSettings
from tokcore_schemas.refs import OverlapRef

# The record that reaches one of these limits closes the batch.
BATCH_BYTES = 1 << 22
BATCH_RECORDS = 1 << 16
SAMPLE_BYTES = 200
MAX_ID_BYTES = 1 << 16

# What a field has to be, by its kind.
EXPECTED: Mapping[str, str] = {
    **{kind: f"expected a {kind}" for kind in ("string", "number", "boolean", "any")},
    "name": "deduplication expects a string or a whole number",
    "spans": "a mask expects a list of [start, end] or [start, end, kind], in characters of the text",
}

# Reason codes are part of the output format: a code never changes its meaning.
REASONS: Mapping[str, str] = {
    # of a record
    "bad_json": "the line is not a JSON value, or is nested too deeply",
    "not_object": "the line is JSON, but not an object",
    "missing_text": "the text field is missing or null",
    "bad_text": "the text is not a string",
    "missing_id": "the id field is missing or null",
    "bad_id": f"the id is neither a string nor a 64-bit integer, or is longer than {MAX_ID_BYTES} bytes",
    "missing_group": "the group field is missing or null",
    "bad_group": f"the group is neither a string nor a 64-bit integer, or is longer than {MAX_ID_BYTES} bytes",
    "bad_lang": "the language field is missing or is not a language code",
    "bad_field": "a field that the build file names is of another type, or spans are not inside of the text",
    "missing_row": "no row of metadata.attributes is of the document, and missing is reject",
    "missing_field": "a field that [metadata] requires is missing or null",
    "invalid_utf8": "the bytes are not UTF-8, or not of the source's encoding",
    "lone_surrogate": "an escape names half of a surrogate pair, which UTF-8 cannot hold",
    "document_too_large": "the text is longer than max_document_bytes, or the record is too long to be read",
    "bad_row": "the row of a csv or tsv file has not as many fields as the header, or cannot be split into fields",
    "not_text": "the WARC record holds no plain text that can be read as it is",
    "bad_digest": "the content does not have the digest that the WARC record states",
    "special_text": "the text spells a special token, and encode.special_text is reject",
    # of a file
    "truncated": "the file is truncated: it is unknown what is missing",
    "corrupt": "the file fails a checksum or a check of its structure",
    "wrong_encoding": "the file begins with the byte order mark of another encoding, or lacks the one it needs",
    "over_limit": "reading the file would need more memory or output than is allowed",
    "reader_crashed": "the library that decodes the file twice ended the process that reads it",
    "unreadable_name": "the library of the store cannot ask for a file of this name",
}


class FileRejected(FormatError):  # noqa: N818 - an outcome, not a fault of ours
    """The whole file is rejected. Raised before any of its records is yielded.

    reason: a key of REASONS. detail: depends only on the file's bytes, not on library versions.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


class Reject(NamedTuple):
    """One rejected record.

    record: the record's number within its range, from 0; None for a whole file.
    reason: a key of REASONS.
    detail: what was expected and what was found; depends only on bytes and configuration.
    sample: the start of the record, made printable; at most SAMPLE_BYTES bytes.
    """

    record: int | None
    reason: str
    detail: str
    sample: str


class LongText(NamedTuple):
    """Stands for a text that is over its limit, and was not put together."""

    size_bytes: int


class Batch(NamedTuple):
    """Consecutive records of one range.

    texts: the raw bytes of the n accepted documents, in order.
    ids: n ids, or None if the source has no id field.
    langs: n language codes, as Labels.
    ordinals: int64[n], the number of each document's record within the range; rejected records count too.
    rejects: the rejected records, in order.
    num_records: accepted and rejected together.
    skipped: kind of record -> number, of what is no document by its kind and was neither accepted nor rejected.
    groups: n groups, which decide about splits, or None if the source has no group field.
    respelled: language -> number of documents whose records spell it in other case.
    fields: field of filters and metadata -> n values: str, int, float or bool, None where there is none.
    filtered: language -> name of a rule and reason -> number of records that were documents and are not kept.
    masked: language -> kind -> number of spans that texts no longer have.
    cut: language -> line or paragraph, and bytes -> number that are duplicates, and that texts no longer have.
    overlaps: the documents that are not kept because of test items, in order.
    """

    texts: Texts
    ids: list[str] | None
    langs: Labels
    ordinals: npt.NDArray[np.int64]
    rejects: list[Reject]
    num_records: int
    skipped: Mapping[str, int] = MappingProxyType({})
    groups: list[str] | None = None
    respelled: Mapping[str, int] = MappingProxyType({})
    fields: Mapping[str, list[Any]] = MappingProxyType({})
    filtered: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    masked: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    cut: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    overlaps: tuple[OverlapRef, ...] = ()

    def get_id(self, i: int) -> str | None:
        """The id of document i; None if the source has no id field."""
        return self.ids[i] if self.ids is not None else None

    def compute_key(self, i: int) -> bytes:
        """The document key of document i."""
        document_id = self.get_id(i)
        # Of a document with an id, the text is not looked at, and it would be copied.
        return compute_document_key(self.langs[i], document_id, self.texts.text(i) if document_id is None else b"")


def settle_langs(batch: Batch, settings: ReadSettings) -> Batch:
    """The batch with the languages that lang_map means, and as BCP 47 spells them if the source wants that."""
    was, meant = batch.langs, dict(settings.lang_map)
    mapped = [meant.get(name, name) for name in was.names]
    names = [*map(normalize_lang, mapped)] if settings.lang_normalize else mapped
    if names == [*was.names]:
        return batch
    code_of: dict[str, int] = {}
    codes = np.array([code_of.setdefault(name, len(code_of)) for name in names], np.int32)
    respelled: Counter[str] = Counter()
    for name, spelled, number in zip(mapped, names, np.bincount(was.codes, minlength=len(names)), strict=True):
        if spelled != name and number:
            respelled[spelled] += int(number)
    return batch._replace(langs=Labels(tuple(code_of), codes[was.codes]), respelled=respelled)


def take_documents(batch: Batch, where: npt.NDArray[np.int64]) -> Batch:
    """The documents at these positions, which ascend; what is counted stays."""

    def take(values: list[Any] | None) -> Any:
        return [values[i] for i in where.tolist()] if values is not None else None

    return batch._replace(
        texts=batch.texts.take(where),
        ids=take(batch.ids),
        langs=batch.langs.take(where),
        ordinals=batch.ordinals[where],
        groups=take(batch.groups),
        fields={name: take(values) for name, values in batch.fields.items()},
    )


def add_filtered(batch: Batch, named: Iterable[tuple[str, str]]) -> Batch:
    """The batch with more records that are not kept. named: (language, name of a rule and reason) of each."""
    filtered = {lang: dict(by_reason) for lang, by_reason in batch.filtered.items()}
    for lang, reason in named:
        of_lang = filtered.setdefault(lang, {})
        of_lang[reason] = of_lang.get(reason, 0) + 1
    return batch._replace(filtered=filtered)


def drop_documents(batch: Batch, reasons: Mapping[int, str], refused: Collection[int] = ()) -> Batch:
    """The batch without these documents, by number, which it counts by language and reason.

    refused: documents that go, too, and are counted elsewhere.
    """
    if not reasons and not refused:
        return batch
    counted = add_filtered(batch, ((batch.langs[i], reason) for i, reason in reasons.items()))
    goes = np.zeros(batch.texts.num_texts, bool)
    goes[[*reasons, *refused]] = True
    return take_documents(counted, np.flatnonzero(~goes))


def reject_documents(batch: Batch, rejects: Mapping[int, Reject]) -> Batch:
    """The batch without these documents, by number, each with why it is rejected."""
    if not rejects:
        return batch
    kept = np.array([i for i in range(batch.texts.num_texts) if i not in rejects], np.int64)
    together = sorted([*batch.rejects, *rejects.values()], key=lambda one: one.record or 0)
    return take_documents(batch, kept)._replace(rejects=together)


class BatchBuilder:
    """Collects records in order and makes the checks that all formats share."""

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings
        self._forbidden = [text.encode() for text in settings.forbidden]
        self._num_before = 0
        self._start()

    @property
    def is_full(self) -> bool:
        """Whether it is time to take()."""
        return self._size_bytes >= BATCH_BYTES or self._num_records >= BATCH_RECORDS

    @property
    def room(self) -> tuple[int, int]:
        """(bytes of text, records) that are missing until the batch is full."""
        return BATCH_BYTES - self._size_bytes, BATCH_RECORDS - self._num_records

    def accept_checked(self, texts: Texts, ids: list[str], langs: Labels, rows: Sequence[Sequence[Any]] = ()) -> None:
        """Add documents, after the caller has checked their lengths and looked for forbidden texts.

        rows: of each document what to_value() gives for settings.fields, if there are any.
        """
        for values_of_field, values in zip(self._values, zip(*rows, strict=True), strict=bool(rows)):
            values_of_field += values
        num = texts.num_texts
        self._texts.append(texts.data)
        self._lengths += np.diff(texts.offsets).tolist()
        self._ids += ids
        lang_codes = np.empty(num, np.int32)
        for lang, where in langs.by_label().items():
            lang_codes[where] = self._code_of(lang)
        self._lang_codes += lang_codes.tolist()
        self._ordinals += range(self._num_before + self._num_records, self._num_before + self._num_records + num)
        self._num_records += num
        self._size_bytes += texts.size_bytes

    def accept(self, text: bytes, document_id: str, lang: str, group: str = "", values: Sequence[Any] = ()) -> None:
        """Add a document, or reject it if its text is too long or holds a forbidden text, or a field is no such value.

        values: of settings.fields, as the format gives them.
        """
        if len(text) > self._settings.max_document_bytes:
            self.reject("document_too_large", describe_too_large(len(text), self._settings), text)
            return
        for special in self._forbidden:
            if special in text:
                detail = f"the text spells {make_printable(special)} at byte {text.index(special)}"
                self.reject("special_text", detail, text)
                return
        told = []
        for field, value in zip(self._settings.fields, values, strict=True):
            known = to_value(value, field.kind, self._settings.format in _OF_STRINGS)
            if known is BAD:
                shown = make_printable(field.name.encode())
                self.reject("bad_field", f"field {shown}: {EXPECTED[field.kind]}", text)
                return
            told.append(known)
        for values_of_field, known in zip(self._values, told, strict=True):
            values_of_field.append(known)
        self._texts.append(text)
        self._lengths.append(len(text))
        self._ids.append(document_id)
        self._groups.append(group)
        self._lang_codes.append(self._code_of(lang))
        self._ordinals.append(self._num_before + self._num_records)
        self._num_records += 1
        self._size_bytes += len(text)

    def reject(self, reason: str, detail: str, record: bytes) -> None:
        """Add a rejected record."""
        number = self._num_before + self._num_records
        self._rejects.append(Reject(number, reason, detail, make_printable(record)))
        self._num_records += 1

    def skip(self, kind: str) -> None:
        """Count something that is no document by its kind, and has no number among the records."""
        self._skipped[kind] += 1

    def take(self) -> Batch:
        """The batch so far. The numbering of records goes on in the next batch."""
        offsets = np.zeros(len(self._lengths) + 1, np.int64)
        np.cumsum(self._lengths, out=offsets[1:])
        batch = Batch(
            texts=Texts(np.frombuffer(b"".join(self._texts), np.uint8), offsets),
            ids=self._ids if self._settings.id else None,
            langs=Labels(tuple(self._langs), np.array(self._lang_codes, np.int32)),
            ordinals=np.array(self._ordinals, np.int64),
            rejects=self._rejects,
            num_records=self._num_records,
            skipped=self._skipped,
            groups=self._groups if self._settings.group else None,
            fields={one.name: values for one, values in zip(self._settings.fields, self._values, strict=True)},
        )
        self._num_before += self._num_records
        self._start()
        return batch

    def _code_of(self, lang: str) -> int:
        return self._langs.setdefault(lang, len(self._langs))

    def _start(self) -> None:
        self._texts: list[Any] = []  # buffers of one text or several
        self._lengths: list[int] = []
        self._ids: list[str] = []
        self._groups: list[str] = []
        self._langs: dict[str, int] = {}  # language -> its code in this batch
        self._lang_codes: list[int] = []
        self._ordinals: list[int] = []
        self._values: list[list[Any]] = [[] for _ in self._settings.fields]
        self._rejects: list[Reject] = []
        self._skipped: Counter[str] = Counter()
        self._num_records = 0
        self._size_bytes = 0


def describe_too_large(size_bytes: int, settings: ReadSettings) -> str:
    """The detail of a rejected text that is over its limit."""
    return f"{size_bytes} bytes of text, max_document_bytes = {settings.max_document_bytes}"


def encode_utf8(data: bytes, settings: ReadSettings) -> bytes | None:
    """The text's bytes under the source's policy for invalid UTF-8; None if that policy rejects them."""
    if settings.invalid_utf8 == "bytes":
        return data
    try:
        data.decode()
    except UnicodeDecodeError:
        return None if settings.invalid_utf8 == "reject" else data.decode(errors="replace").encode()
    return data


def to_id(value: Any) -> str | None:
    """The document id in a field's value, integers in decimal; None if the value is no valid id."""
    if isinstance(value, str) and len(value) <= MAX_ID_BYTES:
        if value.isascii():
            return value
        try:
            return value if len(value.encode()) <= MAX_ID_BYTES else None
        except UnicodeEncodeError:  # surrogates that stand for invalid UTF-8
            return None
    if isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 64:
        return str(value)
    return None


BAD = object()  # what to_value() gives for a value of another type
_OF_STRINGS = frozenset({"csv", "tsv", "warc"})  # formats whose fields are all text
_INTEGER = re.compile("[+-]?[0-9]{1,18}")
_BOOLEANS = {"true": True, "false": False}


def to_value(value: Any, kind: FieldKind, is_text: bool) -> Any:
    """The value of a field as filters compare it: a str, int, float or bool; None for none; BAD for another type.

    Of spans, it is what spell_spans() gives.
    is_text: whether the format has nothing but text, which is then read as a number or as true or false. NaN is none,
    as is an empty text in place of a number.

    >>> to_value("0.5", "number", True), to_value("0.5", "number", False) is BAD, to_value(3, "number", False)
    (0.5, True, 3)
    """
    if value is None:
        return None
    if kind == "any":
        return True
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if kind == "spans":
        return BAD if (spans := read_spans(value)) is None else spell_spans(spans)
    if kind == "name":
        return BAD if (name := to_id(value)) is None else name
    if kind == "string":
        return value if isinstance(value, str) else BAD
    if is_text and isinstance(value, str):
        value = value.strip()
        if not value:
            return None
        if kind == "boolean":
            return _BOOLEANS.get(value.lower(), BAD)
        try:
            value = int(value) if _INTEGER.fullmatch(value) else float(value)
        except ValueError:
            return BAD
    if kind == "boolean":
        return value if isinstance(value, bool) else BAD
    if isinstance(value, bool) or not isinstance(value, int | float):
        return BAD
    return None if isinstance(value, float) and math.isnan(value) else value


# The backslash, too, so that what is quoted can be told from an escape.
_UNPRINTABLE = re.compile(f"{UNPRINTABLE.pattern[:-1]}\\\\]")


def make_printable(data: bytes) -> str:
    """The start of the bytes as one line of harmless text, at most SAMPLE_BYTES bytes long.

    Escapes invalid UTF-8, control, format and invisible characters, and the backslash.

    >>> make_printable(b"a\\n\\x1b[31m\\xff")
    'a\\\\n\\\\x1b[31m\\\\xff'
    """
    out: list[str] = []
    size = 0
    # Cut first, so that a long record costs nothing to decode. A character divided by the cut shows as escapes.
    for character in data[:SAMPLE_BYTES].decode(errors="surrogateescape"):
        shown = _UNPRINTABLE.sub(escape_match, character)
        size += len(shown.encode())
        if size > SAMPLE_BYTES:
            break
        out.append(shown)
    return "".join(out)
