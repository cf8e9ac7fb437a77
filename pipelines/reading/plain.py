"""Plain text: a document a file, a line, a paragraph, or whatever stands between separators.

Line breaks around a document belong to the file, not to the document, so that files may be joined and split; only a
document that is a whole file keeps them. A line, paragraph or piece of white space alone is no record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pipelines.reading.records import Batch, BatchBuilder, ReadSettings, utf8
from pipelines.reading.streams import LongPiece, Pending, PieceLimit, split_lines

# Beyond max_document_bytes: what is stripped from a record, or could be. More than a block, see PieceLimit.
SLACK_BYTES = 1 << 22


def read_plain_text(blocks: Iterable[bytes], settings: ReadSettings) -> Iterator[Batch]:
    """Batches of the records in a stream of bytes."""
    limit = PieceLimit(*[settings.max_document_bytes + SLACK_BYTES] * 2)
    pieces = {
        "file": lambda: _whole(blocks, limit),
        "line": lambda: _lines(blocks, limit),
        "paragraph": lambda: _paragraphs(blocks, limit),
        "separator": lambda: _separated(blocks, settings.separator.encode(), limit),
    }[settings.unit]()
    builder = BatchBuilder(settings)
    for piece in pieces:
        if isinstance(piece, LongPiece):
            detail = f"a record of {piece.size_bytes} bytes, max_document_bytes = {settings.max_document_bytes}"
            builder.reject("document_too_large", detail, piece.start)
        elif (text := utf8(piece, settings)) is None:
            builder.reject("invalid_utf8", "the text is not UTF-8", piece)
        else:
            builder.accept(text, "", settings.lang)
        if builder.is_full:
            yield builder.take()
    yield builder.take()


def _whole(blocks: Iterable[bytes], limit: PieceLimit) -> Iterator[bytes | LongPiece]:
    pending = Pending(limit)
    for block in blocks:
        pending.add(block)
    yield pending.take()


def _lines(blocks: Iterable[bytes], limit: PieceLimit) -> Iterator[bytes | LongPiece]:
    for lines in split_lines(blocks, limit):
        for line in lines:
            if isinstance(line, LongPiece):
                yield from _unless_blank(line)
            elif line.strip():
                yield line.removesuffix(b"\r")


def _paragraphs(blocks: Iterable[bytes], limit: PieceLimit) -> Iterator[bytes | LongPiece]:
    pending = Pending(limit)
    for lines in split_lines(blocks, limit):
        for line in lines:
            if isinstance(line, LongPiece) and not line.is_blank:
                pending.add_long(line)
            elif isinstance(line, bytes) and line.strip():
                if pending:
                    pending.add(b"\n")
                pending.add(line)
            elif pending:
                yield _stripped(pending.take())
    if pending:
        yield _stripped(pending.take())


def _separated(blocks: Iterable[bytes], separator: bytes, limit: PieceLimit) -> Iterator[bytes | LongPiece]:
    """Pieces between separators, found from left to right without overlap."""
    pending = Pending(limit)
    tail = b""  # the end of what was seen, which may be the start of a separator; not yet in pending
    for block in blocks:
        *pieces, rest = (tail + block).split(separator)
        for piece in pieces:
            pending.add(piece)
            yield from _unless_blank(pending.take())
        kept = min(len(rest), len(separator) - 1)
        pending.add(rest[: len(rest) - kept])
        tail = rest[len(rest) - kept :]
    pending.add(tail)
    yield from _unless_blank(pending.take())


def _unless_blank(piece: bytes | LongPiece) -> Iterator[bytes | LongPiece]:
    if not piece.is_blank if isinstance(piece, LongPiece) else piece.strip():
        yield _stripped(piece)


def _stripped(piece: bytes | LongPiece) -> bytes | LongPiece:
    return piece if isinstance(piece, LongPiece) else piece.strip(b"\r\n")
