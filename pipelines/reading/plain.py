"""Plain text: each document is a file, a line, a paragraph, or the text between two separators.

Line breaks around a document belong to the file, not to the document, so that files can be joined and split. Only a
document that is a whole file keeps them. White space alone is not a record.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

from tokcore_pipelines.reading.records import Batch, BatchBuilder, encode_utf8
from tokcore_pipelines.reading.streams import LongPiece, Pending, PieceLimit, split_lines
from tokcore_pipelines.reading.utf8 import describe_not_utf8
from tokcore_schemas.plan import ReadSettings

# A record may have this much more than max_document_bytes before it is stripped. More than a block, see PieceLimit.
SLACK_BYTES = 1 << 22
# A small file may unfold to gigabytes of line breaks, and lines are dealt with one by one. Possessive, so that the time
# is linear.
_BLANK_LINES = re.compile(rb"\n(?:[ \t\r\x0b\f]*+\n){2,}+")
_MANY = 256


def read_plain_text(blocks: Iterable[bytes], settings: ReadSettings) -> Iterator[Batch]:
    """The records in a stream of bytes, in batches."""
    limit = PieceLimit(*[settings.max_document_bytes + SLACK_BYTES] * 2)
    pieces = {
        "file": lambda: _read_whole(blocks, limit),
        "line": lambda: _read_lines(blocks, limit),
        "paragraph": lambda: _read_paragraphs(blocks, limit),
        "separator": lambda: _split_at_separators(blocks, settings.separator.encode(), limit),
    }[settings.unit]()
    builder = BatchBuilder(settings)
    nothing = [None] * len(settings.fields)  # which [[map]] may fill
    for piece in pieces:
        if isinstance(piece, LongPiece):
            detail = f"a record of {piece.size_bytes} bytes, max_document_bytes = {settings.max_document_bytes}"
            builder.reject("document_too_large", detail, piece.start)
        elif (text := encode_utf8(piece, settings)) is None:
            builder.reject("invalid_utf8", describe_not_utf8(piece, settings), piece)
        else:
            builder.accept(text, "", settings.lang, values=nothing)
        if builder.is_full:
            yield builder.take()
    yield builder.take()


def _read_whole(blocks: Iterable[bytes], limit: PieceLimit) -> Iterator[bytes | LongPiece]:
    pending = Pending(limit)
    for block in blocks:
        pending.add(block)
    yield pending.take()


def _read_lines(blocks: Iterable[bytes], limit: PieceLimit) -> Iterator[bytes | LongPiece]:
    for lines in split_lines(map(_join_blank_lines, blocks), limit):
        for line in lines:
            if isinstance(line, LongPiece):
                yield from _skip_blank(line)
            elif line.strip():
                yield line.removesuffix(b"\r")


def _read_paragraphs(blocks: Iterable[bytes], limit: PieceLimit) -> Iterator[bytes | LongPiece]:
    pending = Pending(limit)
    for lines in split_lines(map(_join_blank_lines, blocks), limit):
        for line in lines:
            if isinstance(line, LongPiece) and not line.is_blank:
                pending.add_long(line)
            elif isinstance(line, bytes) and line.strip():
                if pending:
                    pending.add(b"\n")
                pending.add(line)
            elif pending:
                yield _strip_line_breaks(pending.take())
    if pending:
        yield _strip_line_breaks(pending.take())


def _split_at_separators(blocks: Iterable[bytes], separator: bytes, limit: PieceLimit) -> Iterator[bytes | LongPiece]:
    """The pieces between separators, which are found from left to right without overlap."""
    pending = Pending(limit)
    tail = b""  # the last bytes seen: a separator may start in them, so they are not in pending yet
    for block in blocks:
        *pieces, rest = _join_repeated(tail + block, separator).split(separator)
        for piece in itertools.chain(pieces[:1], filter(bytes.strip, pieces[1:])):
            pending.add(piece)
            yield from _skip_blank(pending.take())
        kept = min(len(rest), len(separator) - 1)
        pending.add(rest[: len(rest) - kept])
        tail = rest[len(rest) - kept :]
    pending.add(tail)
    yield from _skip_blank(pending.take())


def _join_blank_lines(block: bytes) -> bytes:
    """The block with one blank line in place of several that follow each other."""
    return _BLANK_LINES.sub(b"\n\n", block.replace(b"\n" * _MANY, b"\n\n"))


def _join_repeated(data: bytes, separator: bytes) -> bytes:
    """The data with fewer separators where very many follow each other. It has the same pieces but for empty ones."""
    return data.replace(separator * _MANY, separator)


def _skip_blank(piece: bytes | LongPiece) -> Iterator[bytes | LongPiece]:
    if not piece.is_blank if isinstance(piece, LongPiece) else piece.strip():
        yield _strip_line_breaks(piece)


def _strip_line_breaks(piece: bytes | LongPiece) -> bytes | LongPiece:
    return piece if isinstance(piece, LongPiece) else piece.strip(b"\r\n")
