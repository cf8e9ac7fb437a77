"""The format and compression of a file, by its name."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Literal

from tokcore.plugins.reader import find_reader_of

FileFormat = Literal["jsonl", "parquet", "arrow", "text", "csv", "tsv", "warc"]
Compression = Literal["none", "gz", "zst", "bz2", "xz"]

# Of files that hold columns, with a schema.
COLUMN_FORMATS: frozenset[str] = frozenset({"parquet", "arrow"})

_COMPRESSIONS: Mapping[str, Compression] = {
    ".gz": "gz",
    ".gzip": "gz",
    ".zst": "zst",
    ".zstd": "zst",
    ".bz2": "bz2",
    ".xz": "xz",
}
_SUFFIXES: Mapping[FileFormat, tuple[str, ...]] = {
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "parquet": (".parquet",),
    "arrow": (".arrow", ".arrows", ".ipc", ".feather"),
    "text": (".txt", ".text", ".md"),
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "warc": (".warc", ".wet"),
}
_FORMATS = {suffix: format for format, suffixes in _SUFFIXES.items() for suffix in suffixes}
_WEB_QUERY = re.compile(r"(https?://[^?#]*)[?#].*", re.DOTALL)


def find_format(uri: str) -> tuple[str | None, Compression] | None:
    """(format, compression) of a file by its name; (None, compression) for an unknown format, None if both are unknown.

    The format is a FileFormat, or the name of a reader of another distribution.

    >>> find_format("a/b.jsonl.zst"), find_format("b.parquet"), find_format("notes")
    (('jsonl', 'zst'), ('parquet', 'none'), None)
    """
    name = uri.lower()
    if name.startswith("http"):
        name = _WEB_QUERY.sub(r"\1", name)
    stem, suffix = posixpath.splitext(name)
    compression = _COMPRESSIONS.get(suffix, "none")
    if compression != "none":
        suffix = posixpath.splitext(stem)[1]
    found = _FORMATS.get(suffix) or (find_reader_of(suffix) if suffix else None)
    return (found, compression) if found or compression != "none" else None
