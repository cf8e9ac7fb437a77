"""The format and compression of a file, by its name."""

from __future__ import annotations

import posixpath
import re

_COMPRESSIONS = {".gz": "gz", ".gzip": "gz", ".zst": "zst", ".zstd": "zst"}
_FORMATS = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    ".parquet": "parquet",
    **dict.fromkeys((".arrow", ".arrows", ".ipc", ".feather"), "arrow"),
    **dict.fromkeys((".txt", ".text", ".md"), "text"),
}
_WEB_QUERY = re.compile(r"(https?://[^?#]*)[?#].*", re.DOTALL)


def format_of(uri: str) -> tuple[str, str] | None:
    """(format, compression) of a file by its name; ("", compression) for an unknown format, None if both are unknown.

    >>> format_of("a/b.jsonl.zst"), format_of("b.parquet"), format_of("notes")
    (('jsonl', 'zst'), ('parquet', 'none'), None)
    """
    name = _WEB_QUERY.sub(r"\1", uri.lower())
    stem, suffix = posixpath.splitext(name)
    compression = _COMPRESSIONS.get(suffix, "none")
    if compression != "none":
        suffix = posixpath.splitext(stem)[1]
    found = _FORMATS.get(suffix, "")
    return (found, compression) if found or compression != "none" else None
