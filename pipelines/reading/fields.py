"""Documents out of named fields: the checks that columns, rows and records with headers share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tokcore_pipelines.reading.records import (
    BatchBuilder,
    LongText,
    describe_too_large,
    encode_utf8,
    make_printable,
    to_id,
)
from tokcore_pipelines.reading.utf8 import describe_not_utf8
from tokcore_schemas.document import is_valid_lang
from tokcore_schemas.field_template import fill_template, is_template, parse_template
from tokcore_schemas.plan import ReadSettings


class NoText(NamedTuple):
    """Stands for a value that is neither text nor an id."""

    kind: str = ""  # of its column; empty: not known


class Lacking(NamedTuple):
    """Stands for a template whose record lacks a field that must be there."""

    name: str


def fill(setting: str, values: Sequence[Any]) -> Any:
    """What a setting that names fields gives, from the values of list_paths(setting): bytes, str or int, None, ...

    Of a single field its value as it is. Of a template bytes; Lacking for a missing field; a value that cannot be part
    of a text as it is, with the length of all for LongText.
    """
    template = parse_template(setting)
    if not is_template(setting):
        return values[0]
    parts: list[bytes | None] = []
    long_bytes = 0
    for part, value in zip(template.parts, values, strict=True):
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if isinstance(value, str):
            value = value.encode(errors="surrogateescape")
        if value is None and not part.is_optional:
            return Lacking(part.name)
        if part.is_optional and value == b"":
            value = None
        if isinstance(value, LongText):
            long_bytes += value.size_bytes
        elif value is not None and not isinstance(value, bytes):
            return value
        else:
            parts.append(value)
    if long_bytes:
        return LongText(long_bytes + sum(map(len, filter(None, parts))))
    return fill_template([one.encode() for one in template.literals], parts)


def add_document(
    builder: BatchBuilder,
    settings: ReadSettings,
    noun: str,
    text: Any,
    document_id: Any,
    lang: Any,
    missing: str = "",
    bad: str = "",
    group: Any = None,
    values: Sequence[Any] = (),
) -> None:
    """Add a document, or reject it with the reason.

    text: bytes, or LongText; None or Lacking if it is missing; anything else is no text. document_id, lang, group: str
    or bytes; None or Lacking if they are missing. values: of settings.fields.
    noun: what the format calls a field. missing, bad: ends of the details about a field that is missing, and about a
    value that is not text.
    """
    if isinstance(text, LongText):
        builder.reject("document_too_large", describe_too_large(text.size_bytes, settings), b"")
        return
    if text is None or isinstance(text, Lacking):
        builder.reject("missing_text", f"{_name_field(noun, settings.text, text)}{missing}", b"")
        return
    if not isinstance(text, bytes):
        builder.reject("bad_text", f"{_name_field(noun, settings.text)} holds no strings{bad}", b"")
        return
    names = []
    for what, value, field in (("id", document_id, settings.id), ("group", group, settings.group)):
        if field and (value is None or isinstance(value, Lacking)):
            builder.reject(f"missing_{what}", f"{_name_field(noun, field, value)}{missing}", text)
            return
        known = to_id(_decode(value)) if field else ""
        if known is None:
            is_named = isinstance(value, NoText) and value.kind and not settings.as_before
            kind = f" holds {value.kind}" if is_named else ""
            builder.reject(f"bad_{what}", f"{_name_field(noun, field)}{kind}", text)
            return
        names.append(known)
    code = settings.lang
    if settings.lang_field:
        code = _decode(lang)
        is_known = isinstance(code, str) and any(code == spelled for spelled, _ in settings.lang_map)
        if not isinstance(code, str) or not (is_known or is_valid_lang(code)):
            detail = f"{_name_field(noun, settings.lang_field)}: expected a language code"
            builder.reject("bad_lang", f"{detail}{missing if lang is None else ''}", text)
            return
    kept = encode_utf8(text, settings)
    if kept is None:
        detail = describe_not_utf8(text, settings) if settings.format in ("csv", "tsv") else "the text is not UTF-8"
        builder.reject("invalid_utf8", detail, text)
    else:
        builder.accept(kept, names[0], code, names[1], values)


def _name_field(noun: str, name: str, lacking: Any = None) -> str:
    return f"{noun} {make_printable((lacking.name if isinstance(lacking, Lacking) else name).encode())}"


def _decode(value: Any) -> Any:
    """Bytes as a str, or None if they are not UTF-8; any other value as it is."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
