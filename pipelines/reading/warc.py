"""WARC and WET: each record that holds plain text is a document, its payload the text.

Read are `conversion` and `resource` records of the type text/plain (a WET file has the former), and `response` records
with an answer 200 of that type. Nothing is extracted from HTML: a record of any other type is rejected. Records about
records (`warcinfo`, `request`, `metadata`, `revisit`) are no documents; they are counted.

The warcio library parses headers. Where a record ends is checked here: its length must lead to the blank lines that
end it, and the last record must end where the file does. A digest that a record states must be that of its content.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from warcio.statusandheaders import StatusAndHeaders, StatusAndHeadersParser, StatusAndHeadersParserException

from tokcore_pipelines.reading.fields import add_document, fill
from tokcore_pipelines.reading.records import SAMPLE_BYTES, Batch, BatchBuilder, FileRejected, make_printable
from tokcore_schemas.field_template import list_paths
from tokcore_schemas.plan import ReadSettings

MAX_HEADER_BYTES = 1 << 20
_ABOUT_RECORDS = frozenset({"warcinfo", "request", "metadata", "revisit"})
_HEADER_END = b"\r\n\r\n"
_DIGESTS = frozenset({"md5", "sha1", "sha224", "sha256", "sha384", "sha512"})
_LANGUAGES = "warc-identified-content-language"  # of Common Crawl: several, the most frequent first

_WARC = StatusAndHeadersParser(["WARC/1.1", "WARC/1.0", "WARC/0.17", "WARC/0.18"])
_HTTP = StatusAndHeadersParser(["HTTP/1.0", "HTTP/1.1", "HTTP/2.0", "HTTP/2", "HTTP/3"])


class _Rejected(Exception):  # noqa: N818 - an outcome, not a fault of ours
    """A record is rejected. reason: a key of REASONS."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


class _Content(NamedTuple):
    """The block of a record. If it is over the limit, only its start."""

    data: bytes
    size_bytes: int


def read_warc(blocks: Iterable[bytes], settings: ReadSettings) -> Iterator[Batch]:
    """The records of a whole file, in batches. Raises FileRejected for broken framing, maybe as late as at the end."""
    limit = settings.max_document_bytes + MAX_HEADER_BYTES
    stream = _Stream(blocks)
    builder = BatchBuilder(settings)
    while (start := stream.position, head := stream.read_header())[1]:
        header = _parse_header(head, start)
        kind = (header.get_header("WARC-Type") or "").lower()
        size_bytes = _parse_length(header, start)
        content = stream.read(size_bytes, 0 if kind in _ABOUT_RECORDS else limit, start)
        if kind in _ABOUT_RECORDS:
            builder.skip(kind)
            continue
        try:
            text = _extract_text(header, kind, content, settings)
        except _Rejected as rejected:
            builder.reject(rejected.reason, rejected.detail, content.data[:SAMPLE_BYTES])
        else:
            name, lang, group = (
                fill(setting, [header.get_header(path) for path in list_paths(setting)]) if setting else None
                for setting in (settings.id, settings.lang_field, settings.group)
            )
            if isinstance(lang, str) and settings.lang_field.lower() == _LANGUAGES:
                lang = lang.partition(",")[0].strip()
            values = [header.get_header(one.name) for one in settings.fields]
            add_document(builder, settings, "header", text, name, lang, group=group, values=values)
        if builder.is_full:
            yield builder.take()
    yield builder.take()


def _parse_header(head: bytes, start: int) -> StatusAndHeaders:
    try:
        return _WARC.parse(io.BytesIO(head))
    except (StatusAndHeadersParserException, EOFError) as error:
        raise FileRejected("corrupt", f"no WARC record at byte {start}: {make_printable(head[:60])}") from error


def _parse_length(header: StatusAndHeaders, start: int) -> int:
    stated = {value for name, value in header.headers if name.lower() == "content-length"}
    if len(stated) != 1 or not re.fullmatch(r"[0-9]{1,18}", length := stated.pop()):
        raise FileRejected("corrupt", f"the WARC record at byte {start} has no valid Content-Length")
    return int(length)


def _extract_text(header: StatusAndHeaders, kind: str, content: _Content, settings: ReadSettings) -> bytes:
    """The text of a record. Raises _Rejected if it holds no plain text, or not the text that it promises."""
    media_type = _find_media_type(header)
    if header.get_header("WARC-Segment-Number") is not None or kind == "continuation":
        raise _Rejected("not_text", "a part of a record in several segments, which are not put together")
    is_answer = kind == "response" and media_type == "application/http"
    if not is_answer and (kind not in ("conversion", "resource") or media_type != "text/plain"):
        raise _Rejected("not_text", _describe_no_text(kind, media_type))
    if content.size_bytes > len(content.data):
        detail = f"a record of {content.size_bytes} bytes, max_document_bytes = {settings.max_document_bytes}"
        raise _Rejected("document_too_large", detail)
    payload = _extract_answer(content.data) if is_answer else content.data
    for name, data in (("WARC-Block-Digest", content.data), ("WARC-Payload-Digest", payload)):
        if (stated := header.get_header(name)) is not None and not _is_digest_of(stated, data):
            raise _Rejected("bad_digest", f"the content does not have its {name} {make_printable(stated.encode())}")
    return payload


def _extract_answer(block: bytes) -> bytes:
    """The body of an HTTP answer that is plain text."""
    end = block.find(_HEADER_END) + len(_HEADER_END)
    try:
        if end < len(_HEADER_END):
            raise EOFError
        http = _HTTP.parse(io.BytesIO(block[:end]))
    except (StatusAndHeadersParserException, EOFError):
        raise _Rejected("not_text", "an HTTP answer whose headers cannot be read") from None
    status = http.get_statuscode()
    if status != "200":
        raise _Rejected("not_text", f"an HTTP answer {make_printable(status.encode())}")
    if (media_type := _find_media_type(http)) != "text/plain":
        raise _Rejected("not_text", _describe_no_text("response", media_type))
    for name in ("Content-Encoding", "Transfer-Encoding"):
        if (encoding := (http.get_header(name) or "identity").lower()) != "identity":
            raise _Rejected("not_text", f"an HTTP answer stored with {name} {make_printable(encoding.encode())}")
    return block[end:]


def _describe_no_text(kind: str, media_type: str) -> str:
    what = f"a {make_printable(kind.encode())} record of type {make_printable(media_type.encode()) or 'unknown'}"
    fix = ": text is not extracted from HTML, read the WET files instead" if "html" in media_type else ""
    return f"{what}{fix}"


def _find_media_type(header: StatusAndHeaders) -> str:
    content_type: str = header.get_header("Content-Type") or ""
    return content_type.partition(";")[0].strip().lower()


def _is_digest_of(stated: str, data: bytes) -> bool:
    """Whether a digest such as `sha1:BASE32` is that of the data. True if it is of a kind that we do not know."""
    algorithm, _, value = stated.strip().partition(":")
    algorithm = algorithm.strip().lower().replace("-", "")
    if algorithm not in _DIGESTS:
        return True
    digest = hashlib.new(algorithm, data, usedforsecurity=False).digest()
    value = value.strip()
    as_base32 = base64.b32encode(digest).decode().rstrip("=")
    as_base64 = base64.b64encode(digest).decode().rstrip("=")
    return (
        value.lower() == digest.hex()
        or value.upper().rstrip("=") == as_base32
        or value.rstrip("=").replace("-", "+").replace("_", "/") == as_base64
    )


class _Stream:
    """The bytes of a file, record by record."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self._data = b""
        self._at = 0
        self._before = 0  # bytes of earlier blocks

    @property
    def position(self) -> int:
        """In the decompressed file."""
        return self._before + self._at

    def read_header(self) -> bytes:
        """The header of the next record with its blank line; b"" at the end of the file."""
        start = self.position
        while True:
            end = self._data.find(_HEADER_END, self._at)
            held = len(self._data) - self._at
            if (held - len(_HEADER_END) if end < 0 else end - self._at) > MAX_HEADER_BYTES:
                raise FileRejected("corrupt", f"no WARC record at byte {start}: its header does not end")
            if end >= 0:
                break
            if not self._read_more():
                if not held:
                    return b""
                if not b"WARC/"[:held].startswith(self._data[self._at : self._at + 5]):
                    raise FileRejected("corrupt", f"no WARC record at byte {start}")
                raise FileRejected("truncated", f"the file ends within the header of the record at byte {start}")
        end += len(_HEADER_END)
        header = self._data[self._at : end]
        self._at = end
        return header

    def read(self, size_bytes: int, limit: int, start: int) -> _Content:
        """The block of the record at start, its start alone if it is over the limit. Then the record's end."""
        kept: list[bytes] = []
        missing = size_bytes
        room = size_bytes if size_bytes <= limit else min(limit, SAMPLE_BYTES)
        while missing:
            if self._at == len(self._data):
                self._take_next()
                if not self._data:
                    raise FileRejected("truncated", f"the file ends within the record at byte {start}")
            part = self._data[self._at : self._at + missing]
            kept.append(part[:room])
            room -= len(kept[-1])
            self._at += len(part)
            missing -= len(part)
        while len(self._data) - self._at < len(_HEADER_END) and self._read_more():
            pass
        end = self._data[self._at : self._at + len(_HEADER_END)]
        if end != _HEADER_END:
            if _HEADER_END.startswith(end):
                raise FileRejected("truncated", f"the file ends within the record at byte {start}")
            detail = f"the record at byte {start} is not {size_bytes} bytes long, as its Content-Length says"
            raise FileRejected("corrupt", detail)
        self._at += len(_HEADER_END)
        return _Content(b"".join(kept), size_bytes)

    def _read_more(self) -> bool:
        """Whether there is another block; it is put after what is left of this one."""
        block = next(self._blocks, None)
        if block is None:
            return False
        self._before += self._at
        self._data = self._data[self._at :] + block
        self._at = 0
        return True

    def _take_next(self) -> None:
        self._before += len(self._data)
        self._data = next(self._blocks, b"")
        self._at = 0
