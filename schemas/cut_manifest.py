"""A manifest that is known to be as tokcore wrote it, without an object for each of its files: there may be millions.

Who knows that: another manifest has its sha256. Any other is read by tokcore_schemas.stage_manifests, which checks each
field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import orjson

from tokcore.files.canonical_json import MANIFEST_FORMAT

# Canonical JSON has one spelling, with its keys sorted, and quotes inside of a string are escaped. So these stand where
# the files begin, where they end, and between two of them, and nowhere else: settings may list files, too, such as
# tables of attributes or test items, but no other list has entries that begin with "about".
_END = f'],"format":"{MANIFEST_FORMAT}"'.encode()
_BEGIN = re.compile(rb'"files":\[(?=\{"about":|%b)' % re.escape(_END))
_BETWEEN = b'},{"about":'

_BLOCK_BYTES = 1 << 18  # of JSON, read together: more would not stay in a processor's cache


class CutManifest(NamedTuple):
    """A manifest as JSON has it, its files apart."""

    head: dict[str, Any]  # with no files
    files: Iterator[dict[str, Any]]  # in their order, read as they are asked for


def cut_manifest(data: bytes, block_bytes: int = _BLOCK_BYTES) -> CutManifest:
    """The parts of a manifest. data: what tokcore wrote, which is not checked. block_bytes: are read together.

    >>> made = cut_manifest(b'{"config":{},"files":[{"about":{},"path":"a"}],"format":"tokcore-manifest","totals":{}}')
    >>> made.head["totals"], [*made.files]
    ({}, [{'about': {}, 'path': 'a'}])
    """
    if (found := _BEGIN.search(data)) is None:
        raise ValueError("not a manifest: it has no files")
    begin, end = found.end(), data.rindex(_END)
    chunks = (data[at : min(end, at + _BLOCK_BYTES)] for at in range(begin, end, _BLOCK_BYTES))
    files = (entry for block in _cut_blocks(chunks, block_bytes) for entry in orjson.loads(b"[%b]" % block))
    return CutManifest(orjson.loads(data[:begin] + data[end:]), files)


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
        while after := waiting.find(_BETWEEN, block_bytes) + 1:
            yield waiting[:after]
            waiting = waiting[after + 1 :]  # without the comma
    if waiting:
        yield waiting
