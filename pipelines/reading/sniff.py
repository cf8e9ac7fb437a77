"""What a file holds, by its first bytes, whatever its name says."""

from __future__ import annotations

import re
from typing import Literal

import orjson

from tokcore_pipelines.reading.json_line import parse_json_line
from tokcore_schemas.input_format import FileFormat

Content = Literal[
    "empty", "gz", "zst", "bz2", "xz", "parquet", "arrow", "utf-16", "binary",
    "json lines", "json array", "json object", "warc", "text",
]  # fmt: skip

_MAGIC: tuple[tuple[bytes, Content], ...] = (
    (b"\x1f\x8b\x08", "gz"),
    (b"\x28\xb5\x2f\xfd", "zst"),
    (b"BZh", "bz2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"PAR1", "parquet"),
    (b"ARROW1", "arrow"),
    (b"\xff\xff\xff\xff", "arrow"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"WARC/", "warc"),
)
COMPRESSED = ("gz", "zst", "bz2", "xz")
# A skippable frame may come before the first one of zstd.
_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")

# What the build file calls formats that content tells.
FORMATS: dict[str, FileFormat] = {
    "json lines": "jsonl",
    "parquet": "parquet",
    "arrow": "arrow",
    "text": "text",
    "warc": "warc",
}

# In words, for messages.
WORDS: dict[str, str] = {
    "gz": "compressed with gzip",
    "zst": "compressed with zstd",
    "bz2": "compressed with bzip2",
    "xz": "compressed with xz",
    "parquet": "a Parquet file",
    "arrow": "an Arrow file",
    "utf-16": "UTF-16 text",
    "binary": "binary data",
    "json lines": "JSON lines",
    "json array": "one JSON array",
    "json object": "one JSON object over several lines",
    "warc": "a WARC file",
    "text": "plain text",
    "empty": "empty",
}


def detect_content(head: bytes) -> Content:
    """What the first bytes of a file are.

    >>> detect_content(b'{"text": "a"}\\n'), detect_content(b'[\\n {"text": "a"}'), detect_content(b"PAR1...")
    ('json lines', 'json array', 'parquet')
    """
    if not head:
        return "empty"
    for magic, content in _MAGIC:
        if head.startswith(magic):
            return content
    if _SKIPPABLE.match(head):
        return "zst"
    if b"\0" in head[:4096]:
        return "binary"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] == b"[":
        return "json array" if re.match(rb"\[\s*[\[{\"]", text) and not _is_line(text) else "text"
    if text[:1] == b"{":
        line, ended, _ = text.partition(b"\n")
        if _is_object(line) or not ended:
            return "json lines"
        return "json object" if re.match(rb"\{\s*\"", text) and line.rstrip()[-1:] in b"{[," else "text"
    return "text"


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(parse_json_line(line.decode(errors="replace").encode()), dict)
    except orjson.JSONDecodeError:
        return False


def _is_line(text: bytes) -> bool:
    """Whether the first line is a value of its own, and another line follows it."""
    line, _, rest = text.partition(b"\n")
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return bool(rest.strip())
