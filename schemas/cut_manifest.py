"""A manifest that is known to be as tokcore wrote it, without an object for each of its files: there may be millions.

Who knows that: another manifest has its sha256. Any other is read by tokcore_schemas.stage_manifests, which checks each
field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from tokcore.files.canonical_json import MANIFEST_FORMAT

# Canonical JSON has one spelling, with its keys sorted, and quotes inside of a string are escaped. So these stand where
# the files begin, where they end, and between two of them, and nowhere else: settings may list files, too, such as
# tables of attributes or test items, but no other list has entries that begin with "about".
_END = f'],"format":"{MANIFEST_FORMAT}"'.encode()
_BEGIN = re.compile(rb'"files":\[(?=\{"about":|%b)' % re.escape(_END))
_BETWEEN = b'},{"about":'

_BLOCK_BYTES = 1 << 18  # of JSON, read together: more would not stay in a processor's cache


def read_head(chunks: Iterable[bytes]) -> dict[str, Any]:
    """A manifest with no files, as JSON has it. chunks: what tokcore wrote, which is not checked, of any lengths.

    >>> made = b'{"config":{},"files":[{"about":{},"path":"a"}],"format":"tokcore-manifest","totals":{}}'
    >>> read_head([made])["totals"], [*read_files([made])]
    ({}, [{'about': {}, 'path': 'a'}])
    """
    stream = ManifestStream(chunks)
    stream.skip()
    head: dict[str, Any] = orjson.loads(stream.before + stream.after)
    return head


def read_files(chunks: Iterable[bytes], block_bytes: int = _BLOCK_BYTES) -> Iterator[dict[str, Any]]:
    """The files of a manifest, in their order, read as they are asked for. block_bytes: are read together."""
    blocks = ManifestStream(chunks).cut(block_bytes)
    return (entry for block in blocks for entry in orjson.loads(b"[%b]" % block))


class ManifestStream:
    """A manifest that is read from its beginning on, so that no more than a block of it is held."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        """chunks: what may be one, of any lengths. Raises ValueError for what has no files."""
        self._chunks = iter(chunks)
        data = b""
        while (found := _BEGIN.search(data)) is None:
            data += self._next()
        self.before, self._rest = data[: found.end()], data[found.end() :]
        self.after = b""  # what follows the files, once these were cut

    def cut(self, block_bytes: int = _BLOCK_BYTES) -> Iterator[bytes]:
        """JSON of the files in blocks, without the commas between these. Raises ValueError if they do not end."""
        return _cut_blocks(self._read_files(), block_bytes)

    def skip(self) -> None:
        """Read on to the end, without the files. Raises ValueError if they do not end."""
        for _ in self._read_files():
            pass

    def _read_files(self) -> Iterator[bytes]:
        data, most = self._rest, len(_END) - 1  # bytes that may be the beginning of the end
        while (end := data.find(_END)) < 0:
            yield data[:-most]
            data = data[-most:] + self._next()
        yield data[:end]
        self.after = b"".join([data[end:], *self._chunks])

    def _next(self) -> bytes:
        if not (chunk := next(self._chunks, b"")):
            raise ValueError("not a manifest: it has no files, or does not end")
        return chunk


def _cut_blocks(chunks: Iterable[bytes], block_bytes: int) -> Iterator[bytes]:
    waiting = b""
    for chunk in chunks:
        waiting += chunk
        start = 0  # one chunk may be all of it, and what is left is not copied for each block
        while after := waiting.find(_BETWEEN, start + block_bytes) + 1:
            yield waiting[start:after]
            start = after + 1  # without the comma
        waiting = waiting[start:]
    if waiting:
        yield waiting
