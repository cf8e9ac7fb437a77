"""A manifest that is known to be as tokcore wrote it, without an object for each of its files: there may be millions.

Who knows that: another manifest has its sha256. Any other is read by tokcore_schemas.stage_manifests, which checks each
field.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from tokcore.files.canonical_json import MANIFEST_FORMAT

# Canonical JSON has one spelling, with its keys sorted, and quotes inside of a string are escaped. So these stand where
# the files begin, where they end, and between two of them, and nowhere else.
_BEGIN = b'"files":['
_END = f'],"format":"{MANIFEST_FORMAT}"'.encode()
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
    begin, end, blocks = cut_entries(data, block_bytes)
    files = (entry for block in blocks for entry in orjson.loads(b"[%b]" % block))
    return CutManifest(orjson.loads(data[:begin] + data[end:]), files)


def cut_entries(data: bytes, block_bytes: int = _BLOCK_BYTES) -> tuple[int, int, Iterator[bytes]]:
    """Where the files of a manifest begin and end, and their JSON in blocks, without the commas between these.

    Raises ValueError for what has no files.
    """
    begin, end = data.index(_BEGIN) + len(_BEGIN), data.rindex(_END)
    return begin, end, _cut_blocks(data, begin, end, block_bytes)


def _cut_blocks(data: bytes, begin: int, end: int, block_bytes: int) -> Iterator[bytes]:
    while begin < end:
        after = data.find(_BETWEEN, begin + block_bytes, end) + 1
        block = data[begin : after or end]
        yield block
        begin += len(block) + 1  # and the comma
