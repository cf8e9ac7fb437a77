"""JSON lines: each line is an object, whose fields are the document."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import orjson

from tokcore import kernel
from tokcore.shards.labels import Labels, repeat_label
from tokcore.text.texts import decode_texts
from tokcore_pipelines.reading.fields import Lacking
from tokcore_pipelines.reading.json_line import parse_json_line, tame_numbers
from tokcore_pipelines.reading.records import BAD, MAX_ID_BYTES, Batch, BatchBuilder, make_printable, to_id, to_value
from tokcore_pipelines.reading.streams import LongPiece, PieceLimit, cut_into_whole_lines
from tokcore_pipelines.reading.utf8 import describe_not_utf8, guess_encoding
from tokcore_schemas.document import is_valid_lang
from tokcore_schemas.field_path import EACH, JOINER, MAX_HINT_LENGTH, TEXT_NAMES, Step, has_each, parse_steps
from tokcore_schemas.field_template import fill_template, is_template, parse_template
from tokcore_schemas.plan import ReadSettings

# A longer record is not read: this much, besides its text, may be other fields and syntax.
OTHER_FIELDS_BYTES = 1 << 24
# A line of invalid UTF-8 that is nested deeper is bad_json: the standard library, which parses it, recurses.
MAX_DEPTH = 200
_LOOKED_AT = 10  # members of lists and objects, when texts are looked for to give advice

_ESCAPE = re.compile(rb"\\(?:u([0-9A-Fa-f]{4})|.)", re.DOTALL)


def read_json_lines(blocks: Iterable[bytes], settings: ReadSettings) -> Iterator[Batch]:
    """The records in a stream of lines, in batches."""
    return _Reader(settings).read(blocks)


class _Reader:
    """Reads plain lines in the kernel and all others one by one with orjson; the results are the same."""

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings
        self._text = _make_getter(settings.text)
        self._group = _make_getter(settings.group) if settings.group else None
        self._id = _make_getter(settings.id) if settings.id else None
        self._lang = _make_getter(settings.lang_field) if settings.lang_field else None
        self._fields = [make_field_getter(field.name) for field in settings.fields]
        fields = (settings.text, settings.id, settings.lang_field)
        values = [field.name for field in settings.fields]
        # The kernel reads neither groups nor templates, nor lists.
        self._is_plain = not (
            any(map(has_each, (settings.text, *values)))
            or any(map(is_template, fields))
            or self._group is not None
            or len(values) > kernel.MOST_JSON_VALUES
        )
        limits = (settings.max_document_bytes, MAX_ID_BYTES)
        self._plain = kernel.JsonLines(*fields, settings.forbidden, *limits, values if self._is_plain else ())
        self._lang_map = dict(settings.lang_map)
        self._parse = orjson.loads if settings.as_before else parse_json_line
        self._langs: dict[str, int] = {}  # valid language codes -> the kernel's number for them

    def read(self, blocks: Iterable[bytes]) -> Iterator[Batch]:
        limit = self._settings.max_document_bytes
        builder = BatchBuilder(self._settings)
        for part in cut_into_whole_lines(
            blocks, PieceLimit(3 * limit + OTHER_FIELDS_BYTES, limit + OTHER_FIELDS_BYTES)
        ):
            if isinstance(part, LongPiece):
                if not part.is_blank:
                    detail = f"a line of {part.size_bytes} bytes, max_document_bytes = {limit}"
                    builder.reject("document_too_large", detail, part.start)
                if builder.is_full:
                    yield builder.take()
                continue
            position = part.start
            while position < part.end:
                position = self._read_some(builder, part.block, position, part.end)
                if builder.is_full:
                    yield builder.take()
        yield builder.take()

    def _read_some(self, builder: BatchBuilder, block: bytes, start: int, end: int) -> int:
        """Add records until the batch is full or the lines end; returns where the next record begins."""
        if not self._is_plain:
            return self._read_line_by_line(builder, block, start, end)
        documents = self._plain.read(block, start, end, *builder.room)
        if num := documents.texts.num_texts:
            if (rows := self._read_values(documents.values)) is None:
                return self._read_line_by_line(builder, block, start, documents.position)
            is_read = self._lang is not None
            langs = Labels(tuple(self._langs), documents.langs) if is_read else repeat_label(self._settings.lang, num)
            builder.accept_checked(documents.texts, decode_texts(documents.ids), langs, rows)
        if builder.is_full or documents.refused_end is None:
            return documents.position
        self._read_line(builder, block[documents.position : documents.refused_end])
        return documents.refused_end + 1

    def _read_values(self, spelled: bytes) -> list[list[Any]] | None:
        """The values of fields of each document; None if one is of another type, so that its record is rejected."""
        kinds = [field.kind for field in self._settings.fields]
        if not kinds:
            return []
        rows = [
            [to_value(value, kind, False) for value, kind in zip(row, kinds, strict=True)]
            for row in orjson.loads(b"[%s]" % spelled[:-1])
        ]
        return None if any(value is BAD for row in rows for value in row) else rows

    def _read_line_by_line(self, builder: BatchBuilder, block: bytes, start: int, end: int) -> int:
        """Add the records of lines one by one, until the batch is full; returns where the next one begins."""
        while start < end and not builder.is_full:
            line_end = block.find(b"\n", start, end)
            line_end = end if line_end < 0 else line_end
            self._read_line(builder, block[start:line_end])
            start = line_end + 1
        return start

    def _read_line(self, builder: BatchBuilder, line: bytes) -> None:
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            self._refused(builder, line)
        else:
            self._parsed(builder, line, record)

    def _parsed(self, builder: BatchBuilder, line: bytes, record: Any, errors: str = "strict") -> None:
        """Add a record whose line is JSON. errors: surrogateescape if surrogates stand for invalid UTF-8."""
        if not isinstance(record, dict):
            builder.reject("not_object", f"expected an object, found {name_json_type(record)}", line)
            return
        text = self._text(record)
        if not isinstance(text, str):
            if text is None or isinstance(text, Lacking):
                builder.reject("missing_text", _get_field(_name_lacking(text, self._settings.text)), line)
            elif isinstance(text, _Unfit):
                detail = f"{_get_field(text.name)}: expected a string or a whole number, found "
                builder.reject("bad_text", f"{detail}{name_json_type(text.value)}", line)
            else:
                detail = f"{_get_field(self._settings.text)}: expected a string, found {name_json_type(text)}"
                if not has_each(self._settings.text) and (hint := suggest_path(text, self._settings.text)):
                    detail += f'; texts are in it: write text = "{make_printable(hint.encode())}"'
                builder.reject("bad_text", detail, line)
            return
        names = []
        for what, get, field in (("id", self._id, self._settings.id), ("group", self._group, self._settings.group)):
            value = get(record) if get is not None else ""
            if value is None or isinstance(value, Lacking):
                builder.reject(f"missing_{what}", _get_field(_name_lacking(value, field)), line)
                return
            known = to_id(value)
            if known is None:
                named, found = value if isinstance(value, _Unfit) else (field, value)
                builder.reject(f"bad_{what}", f"{_get_field(named)}: found {name_json_type(found)}", line)
                return
            names.append(known)
        lang = self._settings.lang
        if self._lang is not None:
            lang = self._lang(record)
            if not isinstance(lang, str) or (lang not in self._langs and not self._is_new_lang(lang)):
                detail = f"{_get_field(self._settings.lang_field)}: expected a language code"
                builder.reject("bad_lang", detail, line)
                return
        values = [get(record) for get in self._fields]
        builder.accept(text.encode(errors=errors), names[0], lang, names[1], values)

    def _is_new_lang(self, lang: str) -> bool:
        if lang not in self._lang_map and not is_valid_lang(lang):
            return False
        self._langs[lang] = self._plain.know_lang(lang)
        return True

    def _refused(self, builder: BatchBuilder, line: bytes) -> None:
        """Add a record that the parser refused, or reject it with the reason. A blank line is not a record."""
        if not line.strip():
            return
        policy = self._settings.invalid_utf8
        sound, errors = line, "strict"
        try:
            line.decode()
        except UnicodeDecodeError as error:
            if policy == "reject":
                detail = f"at byte {error.start} of the line{guess_encoding(line)}"
                if self._settings.encoding:
                    detail = describe_not_utf8(line, self._settings)
                builder.reject("invalid_utf8", detail, line)
                return
            sound, errors = line.decode(errors="replace").encode(), "surrogateescape"
        try:
            record = self._parse(sound)
        except orjson.JSONDecodeError:
            if self._is_json(_replace_lone_surrogates(sound)):
                builder.reject("lone_surrogate", "an escape of half a surrogate pair", line)
            else:
                guess = guess_encoding(line) if b"\0" in line else ""
                builder.reject("bad_json", f"not a JSON value{guess}", line)
            return
        if policy == "bytes" and errors != "strict":
            if _measure_depth(record) > MAX_DEPTH:
                builder.reject("bad_json", f"invalid UTF-8 and nested more than {MAX_DEPTH} deep", line)
                return
            # This parser accepts more than JSON, but the other one has already accepted the line.
            record = json.loads(tame_numbers(line).decode(errors=errors))
        self._parsed(builder, line, record, errors)

    def _is_json(self, line: bytes) -> bool:
        try:
            self._parse(line)
        except orjson.JSONDecodeError:
            return False
        return True


class _Unfit(NamedTuple):
    """Stands for a template of which a field holds neither text nor a whole number."""

    name: str
    value: Any


def _name_lacking(value: Lacking | None, field: str) -> str:
    return value.name if value is not None else field


def _make_getter(setting: str) -> Callable[[dict[str, Any]], Any]:
    """A function from a record to the value that a setting names, which may be a template.

    As make_field_getter; of a template also Lacking for a field that must be there, or _Unfit.
    """
    if not is_template(setting):
        return make_field_getter(setting)
    literals, parts = parse_template(setting)
    getters = [make_field_getter(part.name, part.joiner) for part in parts]

    def get(record: dict[str, Any]) -> Any:
        values: list[str | None] = []
        for part, get_one in zip(parts, getters, strict=True):
            value = get_one(record)
            if isinstance(value, int) and not isinstance(value, bool):
                value = str(value)
            if value is None and not part.is_optional:
                return Lacking(part.name)
            if value is not None and not isinstance(value, str):
                return _Unfit(part.name, value)
            values.append(value if value or not part.is_optional else None)
        return fill_template(literals, values)

    return get


def make_field_getter(name: str, joiner: str = JOINER) -> Callable[[dict[str, Any]], Any]:
    """A function from a record to the field's value, or to None if the record lacks the field.

    A name with dots means the field of exactly that name if there is one, else a path into nested objects. Of a path
    with `[*]` the value is the texts, joined with joiner; None if there are none; a value that is not text if one
    of them is not a string.
    """
    path = parse_steps(name)
    if path == (name,):
        return lambda record: record.get(name)

    def get(record: dict[str, Any]) -> Any:
        if name in record:
            return record[name]
        if EACH in path:
            try:
                return joiner.join(texts) if (texts := list(_find_texts(record, path))) else None
            except _NoText as found:
                return found.value
        value: Any = record
        for step in path:
            if not isinstance(value, dict) or step not in value:
                return None
            value = value[step]
        return value

    return get


class _NoText(Exception):  # noqa: N818 - an outcome
    """A path leads to something that is no text."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def _find_texts(value: Any, path: tuple[Step, ...]) -> Iterator[str]:
    """The texts that a path finds, in order. Raises _NoText for a value that is neither null nor as the path says."""
    if value is None:
        return
    if not path:
        if not isinstance(value, str):
            raise _NoText(value)
        yield value
    elif path[0] is EACH:
        if not isinstance(value, list):
            raise _NoText(_Misplaced(value))
        for member in value:
            yield from _find_texts(member, path[1:])
    elif isinstance(value, dict):
        yield from _find_texts(value.get(path[0]), path[1:])
    else:
        raise _NoText(_Misplaced(value))


class _Misplaced(NamedTuple):
    """A value where the path has a list or an object. It may be a string, and is no text all the same."""

    value: Any


def suggest_path(value: Any, name: str) -> str:
    """How to name the texts in a value that is none itself: `messages[*].content`; "" if there are none."""
    if isinstance(value, str):
        return name
    if len(name) > MAX_HINT_LENGTH:
        return ""
    if isinstance(value, list):
        return next(filter(None, (suggest_path(member, f"{name}[*]") for member in value[:_LOOKED_AT])), "")
    if isinstance(value, dict):
        order = sorted(value, key=lambda one: TEXT_NAMES.index(one) if one in TEXT_NAMES else len(TEXT_NAMES))
        return next(filter(None, (suggest_path(value[one], f"{name}.{one}") for one in order[:_LOOKED_AT])), "")
    return ""


def name_json_type(value: Any) -> str:
    """The JSON name of a value's type, with an article."""
    if value is None:
        return "null"
    if isinstance(value, _Misplaced):
        value = value.value
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "an array"}
    return names.get(type(value), "an object")


def _get_field(name: str) -> str:
    return f"field {make_printable(name.encode())}"


def _replace_lone_surrogates(line: bytes) -> bytes:
    """The line with each escape of half a surrogate pair replaced by an escape of U+FFFD."""
    out: list[bytes] = []
    copied = 0
    high_end = -1  # end of an escape of a high surrogate whose other half has not come yet
    high_start = 0

    def replace(start: int, end: int) -> None:
        nonlocal copied
        out.extend((line[copied:start], rb"\ufffd"))
        copied = end

    for match in _ESCAPE.finditer(line):
        code = int(match[1], 16) if match[1] else 0
        is_low = 0xDC00 <= code <= 0xDFFF
        if high_end >= 0 and not (is_low and match.start() == high_end):
            replace(high_start, high_end)
            high_end = -1
        if is_low:
            if high_end < 0:
                replace(match.start(), match.end())
            high_end = -1
        elif 0xD800 <= code <= 0xDBFF:
            high_start, high_end = match.span()
    if high_end >= 0:
        replace(high_start, high_end)
    out.append(line[copied:])
    return b"".join(out)


def _measure_depth(value: Any) -> int:
    """How deep arrays and objects are nested."""
    depth = 0
    level = [value]
    while level:
        depth += 1
        level = [
            item
            for container in level
            if isinstance(container, (dict, list))
            for item in (container.values() if isinstance(container, dict) else container)
        ]
    return depth
