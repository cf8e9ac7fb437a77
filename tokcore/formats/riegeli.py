"""Riegeli's files of records: chunks with hashes, interrupted by a header at every block of 64 KiB. None is compressed.

    block header    hash of the rest | distance from the begin of the chunk that it interrupts | distance to its end
    chunk header    hash of the rest | size of the data | hash of the data | type, number of records | size of records
    data            0: not compressed | size of the sizes | size of each record | records

Numbers are uint64, little-endian; sizes before the records are varints; hashes are HighwayHash64. A chunk that begins
where a block begins counts the block's header as its own. Layout: google/riegeli, doc/riegeli_records_file_format.md.

Places without block headers are called flat: they simply add up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.formats.protobuf import write_varint
from tokcore.formats.varints import spread_varints
from tokcore.shards.token_batch import Offsets
from tokcore.text.texts import Bytes

BLOCK_BYTES = 1 << 16
CHUNK_HEAD_BYTES = 40
_BLOCK_HEAD_BYTES = 24
_USABLE = BLOCK_BYTES - _BLOCK_HEAD_BYTES
_KEY = (int.from_bytes(b"Riegeli/", "little"), int.from_bytes(b"records\n", "little")) * 2

_SIGNATURE, _PADDING, _RECORDS = (ord(one) for one in "spr")
_NOT_COMPRESSED = b"\0"

Hashes = npt.NDArray[np.uint64]


def find_place(flat: Offsets) -> Offsets:
    """Where flat places are in the file.

    >>> find_place(np.array([0, 1, 65_512, 65_513])).tolist()
    [0, 25, 65536, 65561]
    """
    block, rest = np.divmod(flat, _USABLE)
    places: Offsets = block * BLOCK_BYTES + np.where(rest > 0, rest + _BLOCK_HEAD_BYTES, 0)
    return places


def find_flat(place: int) -> int:
    """The flat place of a place in the file; within a block header, of its end.

    >>> find_flat(65_561)
    65513
    """
    block, rest = divmod(place, BLOCK_BYTES)
    return block * _USABLE + max(0, rest - _BLOCK_HEAD_BYTES)


def frame_chunks(chunks: Bytes, starts: Offsets, flat: int) -> bytes:
    """Chunks as a file has them: with block headers.

    starts: int64, where each begins in chunks, and the last ends. flat: where the first begins in the file.
    """
    size = len(chunks)
    cuts = np.arange(-flat % _USABLE, size, _USABLE)
    if not len(cuts):
        return chunks.tobytes()
    places = find_place(flat + starts)
    blocks = (flat + cuts) // _USABLE * BLOCK_BYTES
    within = np.searchsorted(starts, cuts, side="right") - 1
    heads = with_hashes(np.stack([blocks - places[within], places[within + 1] - blocks], axis=1).astype(np.uint64))
    parts = [chunks[: cuts[0]].data]
    for head, start, end in zip(heads, cuts, [*cuts[1:], size], strict=True):
        parts += [head.tobytes(), chunks[start:end].data]
    return b"".join(parts)


def unframe_chunks(data: Bytes, flat: int) -> Bytes:
    """What frame_chunks() was given, from what it gave; block headers are passed over, right or not."""
    first = -flat % _USABLE
    parts = [data[:first]]
    for block in range(first, len(data), BLOCK_BYTES):
        parts.append(data[block + _BLOCK_HEAD_BYTES : block + BLOCK_BYTES])
    return np.concatenate(parts)


def with_hashes(rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Headers: rows of numbers with the hash of each before it. rows: uint64 [n, k]; gives [n, k + 1]."""
    num, width = rows.shape
    data = np.ascontiguousarray(rows, "<u8").view(np.uint8).reshape(-1)
    return np.concatenate([hash_ranges(data, 8 * width * np.arange(num + 1))[:, None], rows], axis=1).astype("<u8")


def hash_ranges(data: Bytes, offsets: Offsets) -> Hashes:
    """The hash of each range of bytes."""
    return kernel.highway_hash(_KEY, data, offsets)


def fill_heads(chunks: Bytes, starts: Offsets, kind: int, records: Sequence[int], record_bytes: Offsets) -> None:
    """Write the headers of chunks whose data are there.

    starts: where each chunk begins in chunks, and the last ends. records, record_bytes: of each, number and size.
    """
    heads = starts[:-1]
    data = heads + CHUNK_HEAD_BYTES
    # The ranges between are headers, whose hashes are not needed.
    ranges = np.append(np.stack([heads, data], axis=1).reshape(-1), starts[-1])
    hashes = hash_ranges(chunks, ranges)[1::2]
    kinds = kind | np.asarray(records, np.int64) << 8
    rows = np.stack([starts[1:] - data, hashes.view(np.int64), kinds, record_bytes], axis=1).view(np.uint64)
    filled = with_hashes(rows).view(np.uint8).reshape(-1, CHUNK_HEAD_BYTES)
    chunks[heads[:, None] + np.arange(CHUNK_HEAD_BYTES)] = filled


def make_chunk(records: Bytes, sizes: Offsets) -> Bytes:
    """A chunk of records. records: back to back. sizes: of each, in bytes."""
    data, taken = spread_varints(sizes)
    packed = data[taken]
    head = bytes(CHUNK_HEAD_BYTES) + _NOT_COMPRESSED + write_varint(len(packed))
    chunk = np.concatenate([np.frombuffer(head, np.uint8), packed, records])
    fill_heads(chunk, np.array([0, len(chunk)]), _RECORDS, [len(sizes)], np.array([len(records)]))
    return chunk


def make_chunk_head(record_bytes: int) -> bytes:
    """A chunk of one record up to the record; its header is still to be filled."""
    size = write_varint(record_bytes)
    return bytes(CHUNK_HEAD_BYTES) + _NOT_COMPRESSED + write_varint(len(size)) + size


def fill_single(chunks: Bytes, starts: Offsets, sizes: Offsets) -> None:
    """Write the headers of chunks of one record each. starts: as of fill_heads(). sizes: of the records."""
    fill_heads(chunks, starts, _RECORDS, [1] * len(sizes), sizes)


def make_padding(flat: int) -> Bytes:
    """A chunk of nothing from a flat place up to the next block; no bytes if one begins there."""
    size = -flat % _USABLE
    if 0 < size < CHUNK_HEAD_BYTES:
        size += _USABLE
    chunk = np.zeros(size, np.uint8)
    if size:
        fill_heads(chunk, np.array([0, size]), _PADDING, [0], np.array([0]))
    return chunk


def make_signature() -> Bytes:
    """The chunk that a file begins with."""
    chunk = np.zeros(CHUNK_HEAD_BYTES, np.uint8)
    fill_heads(chunk, np.array([0, CHUNK_HEAD_BYTES]), _SIGNATURE, [0], np.array([0]))
    return chunk
