"""csv and tsv: the first row names the fields, and each other row is a document.

The rows are those of RFC 4180: a field may stand in quotes, and may then hold delimiters, line breaks, and quotes that
are doubled. Python's csv module splits a row into fields. Where a row ends is found here, so that a row that is too
long costs only itself. A quote that is never closed, or that is closed within a field, leaves no row after it certain:
such a file is rejected whole. So a file is read to its end before any document is given out.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Iterator

from tokcore_pipelines.reading.fields import add_document, fill
from tokcore_pipelines.reading.records import Batch, BatchBuilder, FileRejected, make_printable
from tokcore_pipelines.reading.streams import LongPiece, Pending, PieceLimit, split_lines
from tokcore_schemas.field_template import list_paths
from tokcore_schemas.plan import ReadSettings

# A longer row is not read: this much, besides its text, may be other fields.
OTHER_FIELDS_BYTES = 1 << 24
_NAMES_SHOWN = 20

# Rows are limited before the csv module sees them. Its own limit is one for the whole process.
csv.field_size_limit(sys.maxsize)

_QUOTE, _LINE_FEED, _RETURN = b'"\n\r'


def read_delimited(blocks: Iterable[bytes], settings: ReadSettings) -> Iterator[Batch]:
    """The rows of a whole file, in batches. Raises FileRejected for bad quoting, maybe as late as at the end."""
    most = 2 * settings.max_document_bytes + OTHER_FIELDS_BYTES  # a text of nothing but quotes doubles
    limit = PieceLimit(most, most)
    rows = _split_quoted_rows(blocks, settings, limit) if settings.quotes else _split_plain_rows(blocks, limit)
    split = _Splitter(settings)
    named = (settings.text, settings.id, settings.lang_field, settings.group)
    builder = BatchBuilder(settings)
    header: list[str] | None = None
    missing = ""
    for row in rows:
        if isinstance(row, LongPiece):
            if header is None:
                raise FileRejected("over_limit", f"a header of {row.size_bytes} bytes")
            detail = f"a row of {row.size_bytes} bytes, max_document_bytes = {settings.max_document_bytes}"
            builder.reject("document_too_large", detail, row.start)
        elif not (row := row.removesuffix(b"\r")):
            continue  # a blank line is no record
        elif header is None:
            header = _read_header(split, row)
            columns = {name: _find_column(header, name) for name in _list_fields(settings)}
            names = ", ".join(header[:_NAMES_SHOWN]).encode(errors="surrogateescape")
            missing = f"; the header names {make_printable(names)}"
        elif (fields := split.fields(row)) is None:
            builder.reject("bad_row", "a carriage return outside of quotes that ends no line", row)
        elif len(fields) != len(header):
            builder.reject("bad_row", f"{len(fields)} fields, and the header names {len(header)}", row)
        else:
            held = {
                name: None if at is None else fields[at].encode(errors="surrogateescape")
                for name, at in columns.items()
            }
            text, name, lang, group = (
                fill(setting, [held[path] for path in list_paths(setting)]) if setting else None for setting in named
            )
            values = [held[one.name] for one in settings.fields]
            add_document(builder, settings, "field", text, name, lang, missing, group=group, values=values)
        if builder.is_full:
            yield builder.take()
    yield builder.take()


def _list_fields(settings: ReadSettings) -> list[str]:
    """The fields that a row is asked for, each once."""
    named = (settings.text, settings.id, settings.lang_field, settings.group)
    names = [path for setting in named for path in list_paths(setting)] + [one.name for one in settings.fields]
    return [*dict.fromkeys(names)]


class _Splitter:
    """The fields of one row at a time, by the csv module."""

    def __init__(self, settings: ReadSettings) -> None:
        self._row: str | None = None
        self._reader = csv.reader(
            self,
            delimiter=settings.delimiter,
            quoting=csv.QUOTE_MINIMAL if settings.quotes else csv.QUOTE_NONE,
            strict=True,
        )

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        row, self._row = self._row, None
        if row is None:
            raise StopIteration
        return row

    def fields(self, row: bytes) -> list[str] | None:
        """The fields of a row, with surrogates for bytes that are not UTF-8; None if the csv module refuses the row."""
        self._row = row.decode(errors="surrogateescape")
        try:
            return next(self._reader)
        except csv.Error:
            return None


def _read_header(split: _Splitter, row: bytes) -> list[str]:
    header = split.fields(row)
    if header is None:
        detail = "a carriage return in the header: lines end with a line feed, or with both"
        raise FileRejected("corrupt", detail)
    return header


def _find_column(header: list[str], name: str) -> int | None:
    """The position of a field; None if the header does not name it."""
    if header.count(name) > 1:
        raise FileRejected("corrupt", f"the header names {make_printable(name.encode())} {header.count(name)} times")
    return header.index(name) if name and name in header else None


def _split_plain_rows(blocks: Iterable[bytes], limit: PieceLimit) -> Iterator[bytes | LongPiece]:
    for lines in split_lines(blocks, limit):
        yield from lines


def _split_quoted_rows(
    blocks: Iterable[bytes], settings: ReadSettings, limit: PieceLimit
) -> Iterator[bytes | LongPiece]:
    """The rows without their line feeds; rows over the limit as LongPiece. Linear in the size of the stream."""
    row_ends = _RowEnds(settings.delimiter)
    pending = Pending(limit)
    for block in blocks:
        view = memoryview(block)
        begin = 0
        for end in row_ends.find(block):
            if pending or end - 1 - begin > limit.size_bytes:
                pending.add(view[begin : end - 1])
                yield pending.take()
            else:
                yield block[begin : end - 1]
            begin = end
        if begin < len(block):
            pending.add(view[begin:])
    row_ends.check_closed()
    if pending:
        yield pending.take()


_START, _PLAIN, _QUOTED, _CLOSED, _CLOSED_RETURN = range(5)  # what comes before a byte: see _RowEnds


class _RowEnds:
    """Where rows end, block by block.

    A byte follows the start of a field, a plain field so far, a quoted one so far, a quote that may have closed it, or
    a carriage return after that quote.
    """

    def __init__(self, delimiter: str) -> None:
        self._delimiter = ord(delimiter)
        # In a plain field a quote is a character like any other.
        self._find_end = re.compile(rb"\n|" + re.escape(delimiter.encode()) + b'"').search
        self._state = _START
        self._num_lines = 0  # before the block
        self._quote_line = 0  # of the quote that was opened in an earlier block

    def find(self, block: bytes) -> Iterator[int]:
        """Positions after the line feeds that end a row. Raises FileRejected where a quoted field goes on."""
        state, delimiter = self._state, self._delimiter
        size_bytes, at, quote = len(block), 0, -1
        while at < size_bytes:
            if state == _QUOTED:
                at = block.find(b'"', at) + 1 or size_bytes + 1
                state = _CLOSED if at <= size_bytes else _QUOTED
                continue
            byte = block[at]
            ends = False
            if state == _CLOSED and byte == _QUOTE:
                state = _QUOTED
            elif state == _CLOSED and byte == delimiter:
                state = _START
            elif state == _CLOSED and byte == _RETURN:
                state = _CLOSED_RETURN
            elif state in (_CLOSED, _CLOSED_RETURN):
                if byte != _LINE_FEED:
                    raise FileRejected(
                        "corrupt", _describe_after_quote(self._num_lines + block.count(b"\n", 0, at) + 1)
                    )
                ends = True
            elif state == _START and byte == _QUOTE:
                state, quote = _QUOTED, at
            elif (found := self._find_end(block, at)) is None:
                state = _START if block[-1] == delimiter else _PLAIN
                break
            else:
                at = found.end() - 1
                ends = block[at] == _LINE_FEED
                if not ends:
                    state, quote = _QUOTED, at
            at += 1
            if ends:
                state = _START
                yield at
        if quote >= 0 and state in (_QUOTED, _CLOSED):
            self._quote_line = self._num_lines + block.count(b"\n", 0, quote) + 1
        self._num_lines += block.count(b"\n")
        self._state = state

    def check_closed(self) -> None:
        """Raise FileRejected if the file ends within quotes."""
        if self._state == _QUOTED:
            detail = f"the quote that opens on line {self._quote_line} is not closed. {_NO_QUOTES}"
            raise FileRejected("truncated", detail)


_NO_QUOTES = "If a quote is a character like any other here, set quotes = false"


def _describe_after_quote(line: int) -> str:
    return f"line {line}: a quoted field goes on after its quote was closed; a quote within it is doubled. {_NO_QUOTES}"
