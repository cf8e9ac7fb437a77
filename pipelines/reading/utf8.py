"""Text of another encoding as UTF-8, block by block, and files that are of another encoding than their source says.

Nothing is guessed. What an encoding has no character for becomes bytes that are not UTF-8 either, so it costs a record,
under the source's policy for invalid UTF-8, as a bad byte of UTF-8 does.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import NoReturn

from tokcore_pipelines.reading.records import FileRejected
from tokcore_schemas.encodings import UTF16
from tokcore_schemas.plan import ReadSettings

MARK_BYTES = 4  # the longest byte order mark

_UTF8_MARK = b"\xef\xbb\xbf"
# In this order: the mark of UTF-32 begins as that of UTF-16.
_MARKS = (
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (_UTF8_MARK, "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
# Stands for a byte that the encoding has no character for, and for half of a UTF-16 unit at the end of a file. The byte
# itself would not do: two of them in a row may be UTF-8.
_INVALID = b"\xff"
_GUESSED_BYTES = 1000
_INVALID_ERRORS = "tokcore-invalid"
_WESTERN = re.compile(rb"(?<![\x80-\xff])[\xa0-\xff](?![\x80-\xff])")


def _replace_invalid(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    invalid = _INVALID * (error.end - error.start)
    return invalid.decode(errors="surrogateescape"), error.end


codecs.register_error(_INVALID_ERRORS, _replace_invalid)


def convert_to_utf8(blocks: Iterable[bytes], settings: ReadSettings, at_start: bool) -> Iterator[bytes]:
    """The blocks of a stream as UTF-8, without the byte order mark that a file may begin with.

    at_start: whether the stream begins where the file does. Raises FileRejected before the first block if the file
    begins with the mark of another encoding. The joined result does not depend on the blocks.
    """
    encoding = settings.encoding or "utf-8"
    if at_start:
        mark, blocks = _peek_start(blocks)
        found = check_mark(mark, settings)
        blocks = _skip(blocks, len(found))
        if encoding == "utf-16":
            encoding = dict(_MARKS).get(found, "utf-16-le")
    if encoding == "utf-8":
        yield from blocks
        return
    errors, back = _INVALID_ERRORS, "surrogateescape"
    if encoding in UTF16:
        errors = back = "surrogatepass"
    if settings.invalid_utf8 == "replace":
        errors = "replace"
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    for block in blocks:
        if text := decoder.decode(block):
            yield text.encode("utf-8", back)
    rest, _ = decoder.getstate()  # a surrogate without its other half, or an odd byte
    if rest:
        whole = len(rest) // 2 * 2
        last = rest[:whole].decode(encoding, errors).encode("utf-8", back)
        yield last + _INVALID * (len(rest) - whole)


def check_mark(start: bytes, settings: ReadSettings) -> bytes:
    """The byte order mark of the source's encoding at the start of a file, or b"".

    start: the first MARK_BYTES of the file, or all of it. Raises FileRejected for the mark of another encoding, and if
    the encoding is utf-16 and nothing tells the order of its bytes.
    """
    encoding = settings.encoding or "utf-8"
    mark, found = next(((mark, name) for mark, name in _MARKS if start.startswith(mark)), (b"", ""))
    if settings.invalid_utf8 == "bytes":  # any bytes are text then
        return mark if found == "utf-8" else b""
    if found == "utf-32":
        raise FileRejected("wrong_encoding", "it starts with the byte order mark of UTF-32: convert it to UTF-8")
    if encoding == "utf-16":
        if found == "utf-8":
            _reject(found, encoding)
        if start and not found:
            detail = 'UTF-16 without a byte order mark: set encoding = "utf-16-le" or "utf-16-be"'
            raise FileRejected("wrong_encoding", detail)
    elif found and found != encoding:
        _reject(found, encoding)
    return mark


def describe_not_utf8(data: bytes, settings: ReadSettings) -> str:
    """The detail of a record whose bytes are not UTF-8, or were not what the source's encoding can be."""
    if settings.encoding:
        return f"the text has bytes that are not {settings.encoding}"
    return f"the text is not UTF-8{guess_encoding(data)}"


def guess_encoding(data: bytes) -> str:
    """For an error about bytes that are not UTF-8: which encoding they look like, what to write; "" if unknown."""
    if 3 * data.count(0) >= len(data) > 3:
        return '; it looks like UTF-16: set encoding = "utf-16-le" or "utf-16-be"'
    high = sum(byte >= 0x80 for byte in data[:_GUESSED_BYTES])
    if high and len(_WESTERN.findall(data[:_GUESSED_BYTES])) == high:
        return '; it looks like Windows-1252 or Latin-1: set encoding = "cp1252" or "latin-1"'
    return ""


def _reject(found: str, encoding: str) -> NoReturn:
    name = "utf-16" if found in UTF16 else found
    detail = f'it starts with the byte order mark of {found.upper()}: set encoding = "{name}", not "{encoding}"'
    raise FileRejected("wrong_encoding", detail)


def _peek_start(blocks: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """(the first MARK_BYTES of a stream, or all of it; the same stream)."""
    rest = iter(blocks)
    first = b""
    while len(first) < MARK_BYTES and (block := next(rest, None)) is not None:
        first += block

    def again() -> Iterator[bytes]:
        if first:
            yield first
        yield from rest

    return first[:MARK_BYTES], again()


def _skip(blocks: Iterable[bytes], size_bytes: int) -> Iterator[bytes]:
    """The stream without its first bytes, which are all in its first block."""
    for block in blocks:
        yield block[size_bytes:]
        size_bytes = 0
