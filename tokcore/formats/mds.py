"""Token shards as MosaicML's streaming reads them: MDS files with one column, `tokens`, and one sample per document.

    .mds         uint32 samples | uint32 offset of each sample in the file, and the file's size | config, JSON | samples
    sample       uint32 bytes that follow | uint8 4 + code of the length's type | length | ids
    index.json   one for each split: the config again, and of each file its name, size and samples   (little-endian)

The length is the smallest of uint8, uint16, uint32 (codes 0 to 2) that holds it. Ids are int32, or what the build file
says. id, lang, source and ordinal are in the documents file. Layout: mosaicml/streaming, streaming/base/format/mds.
"""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tokcore.errors import FormatError
from tokcore.files.canonical_json import write_canonical_json
from tokcore.formats.documents import Documents
from tokcore.formats.flat_ids import (
    Spool,
    find_bounds_in,
    find_stored_dtype,
    map_file,
    measure_file,
    store_ids,
)
from tokcore.formats.shard_format import (
    IndexEntry,
    ShardFormat,
    ShardSettings,
    ShardWithDocuments,
    StoredShard,
    group_by_split,
    read_json_index,
)
from tokcore.shards.token_batch import Ids, Offsets, TokenBatch

SUFFIX = ".mds"
INDEX = "index.json"
COLUMN = "tokens"
DTYPES = ("int32", "uint16", "uint32")
MAX_BYTES = 2**32 - 1  # offsets are uint32

_ENCODING = "ndarray:"
# What MosaicML's own tools write: ids of 64 bits as mere bytes. Only that width proves itself, by its upper halves.
_PLAIN_ENCODING, PLAIN_DTYPE = "bytes", "int64"
_ONE_DIMENSION = 4
_LENGTH_TYPES = ("<u1", "<u2", "<u4")
_MAX_CONFIG = 1 << 20


def make_config(dtype: str) -> dict[str, Any]:
    """What a file and the index say of how samples are stored."""
    return {
        "column_encodings": [_ENCODING + dtype],
        "column_names": [COLUMN],
        "column_sizes": [None],
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": None,
        "version": 2,
    }


class MdsShardWriter:
    """Writes one shard to an open binary file: samples wait in a temporary file until their number is known."""

    def __init__(self, file: BinaryIO, dtype: str, vocab_size: int) -> None:
        self._file = file
        self._dtype = dtype
        self._vocab_size = vocab_size
        self._config = json.dumps(make_config(dtype), sort_keys=True).encode()
        self._sizes: list[Offsets] = []  # of the samples
        self._size_bytes = 8 + len(self._config)  # of the file
        self._samples = Spool()

    def write(self, batch: TokenBatch) -> None:
        """Append documents.

        Raises FormatError, before any of them is written, for an id outside of the vocabulary, and if the file would
        be larger than its offsets can say.
        """
        width = find_stored_dtype(self._dtype).itemsize
        lengths = np.diff(batch.offsets)
        codes = (lengths >= 1 << 8).astype(np.int64) + (lengths >= 1 << 16)
        sizes = 5 + (1 << codes) + width * lengths
        size_bytes = self._size_bytes + int((4 + sizes).sum())
        if size_bytes > MAX_BYTES:
            raise FormatError(
                f"a shard of {size_bytes} bytes: MDS holds at most {MAX_BYTES} in one. Lower shards.target_tokens, or "
                f"max_document_bytes of the source."
            )
        ids = store_ids(batch, self._dtype, self._vocab_size)
        bounds = ((batch.offsets - batch.offsets[0]) * width).tolist()
        parts: list[bytes | memoryview] = []
        for i, (length, code, size) in enumerate(zip(lengths.tolist(), codes.tolist(), sizes.tolist(), strict=True)):
            parts += [_HEADS[code].pack(size - 4, _ONE_DIMENSION | code, length), ids[bounds[i] : bounds[i + 1]]]
        self._samples.write(b"".join(parts))
        self._sizes.append(sizes)
        self._size_bytes = size_bytes

    def close(self) -> None:
        """Write the offsets, the config, and the samples after them."""
        sizes = np.concatenate([np.zeros(0, np.int64), *self._sizes])
        num = len(sizes)
        first = 4 * (num + 2) + len(self._config)
        offsets = first + np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        self._file.write(np.concatenate([np.array([num], np.int64), offsets]).astype("<u4").tobytes())
        self._file.write(self._config)
        self._samples.copy_to(self._file)


_HEADS = tuple(struct.Struct("<IB" + code) for code in "BHI")


class MdsIds:
    """The ids of one shard, memory-mapped and checked before anything is used; documents are copies.

    Safe to read from several threads.
    """

    mapped = None

    def __init__(self, path: str) -> None:
        """Raises FormatError unless every offset, size and length fits the file.

        A document of plain bytes whose ids do not fit into int32 raises it when it is read.
        """
        self.path = path
        offsets, self.dtype = read_head(path)
        self._is_plain = self.dtype == PLAIN_DTYPE
        self._stored = find_stored_dtype(self.dtype)
        self._bytes = map_file(path, np.uint8, 0, int(offsets[-1]))
        self._begins, self._ends = offsets[:-1], offsets[1:]
        self._starts, self._lengths = self._read_samples()
        self.num_tokens = int(self._lengths.sum())

    def __len__(self) -> int:
        return len(self._lengths)

    def tokens(self, row: int) -> Ids:
        """int32 ids of a document, read-only."""
        return self._freeze(self._bytes[self._starts[row] : self._ends[row]])

    def lengths(self, start: int, end: int) -> Offsets:
        """Numbers of ids of documents start to end, end excluded."""
        return self._lengths[start:end]

    def part(self, start: int, end: int) -> Ids:
        """int32 ids number start to end of all documents, end excluded; a copy."""
        first = int(np.searchsorted(self._places, start, side="right")) - 1
        last = int(np.searchsorted(self._places, end, side="left"))
        if start >= end:
            return np.zeros(0, np.int32)
        ids, _ = self.span(first, last)
        return ids[start - int(self._places[first]) : end - int(self._places[first])]

    def find_bounds(self, starts: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
        """Where documents end strictly within each part: how many, and the places."""
        return find_bounds_in(self._places, starts, ends)

    @functools.cached_property
    def _places(self) -> Offsets:
        """Where each document begins, in ids, and the last ends."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self._lengths)])

    def span(self, start: int, end: int) -> tuple[Ids, Offsets]:
        """Documents start to end, end excluded: their ids back to back, and their lengths."""
        lengths = self._lengths[start:end]
        if not len(lengths):
            return np.zeros(0, np.int32), lengths
        begins, starts = self._begins[start:end], self._starts[start:end]
        region = self._bytes[begins[0] : self._ends[start:end][-1]]
        keep = np.ones(len(region), bool)
        heads = starts - begins
        within = np.arange(int(heads.sum())) - np.repeat(np.cumsum(heads) - heads, heads)
        keep[np.repeat(begins - begins[0], heads) + within] = False
        return self._freeze(region[keep]), lengths

    def _freeze(self, data: Any) -> Ids:
        stored = np.frombuffer(data.tobytes(), self._stored)
        if self._is_plain and len(stored) and not 0 <= int(stored.min()) <= int(stored.max()) < 2**31:
            raise FormatError(
                f"{self.path}: its bytes are no ids of 64 bits: {int(stored[(stored < 0) | (stored >= 2**31)][0])} is "
                f"one of them. Write them as {' or '.join(_ENCODING + dtype for dtype in DTYPES)}, which says the width"
            )
        ids: Ids = stored.astype(np.int32, copy=False)
        ids.flags.writeable = False
        return ids

    def _read_samples(self) -> tuple[Offsets, Offsets]:
        """Where the ids of each document begin in the file, and how many there are."""
        begins, sizes = self._begins, self._ends - self._begins
        if self._is_plain:
            self._require(sizes >= 4, "a sample of less than 4 bytes")
            self._require(self._integers(begins, 4) == sizes - 4, "its size is not what the offsets leave for it")
            self._require((sizes - 4) % self._stored.itemsize == 0, "its bytes are no whole number of ids of 64 bits")
            return begins + 4, (sizes - 4) // self._stored.itemsize
        self._require(sizes >= 6, "a sample of less than 6 bytes")
        self._require(self._integers(begins, 4) == sizes - 4, "its size is not what the offsets leave for it")
        codes = self._bytes[begins + 4].astype(np.int64) - _ONE_DIMENSION
        self._require((codes >= 0) & (codes <= 2), "not an array of one dimension")
        starts = begins + 5 + (1 << codes)
        self._require(starts <= self._ends, "it ends within its length")
        lengths = np.zeros(len(begins), np.int64)
        for code in range(3):
            where = np.flatnonzero(codes == code)
            lengths[where] = self._integers(begins[where] + 5, 1 << code)
        fits = self._stored.itemsize * lengths == self._ends - starts
        self._require(fits, f"its length is not that of its ids of {self.dtype}")
        smallest = (lengths >= 1 << 8).astype(np.int64) + (lengths >= 1 << 16)
        self._require(smallest == codes, "its length takes more bytes than it needs")
        return starts, lengths

    def _integers(self, places: Offsets, width: int) -> Offsets:
        """Unsigned integers of this many bytes at these places of the file."""
        values = np.zeros(len(places), np.int64)
        for i in range(width):
            values |= self._bytes[places + i].astype(np.int64) << (8 * i)
        return values

    def _require(self, holds: Any, otherwise: str) -> None:
        wrong = np.flatnonzero(~holds)
        if len(wrong):
            i = int(wrong[0])
            raise FormatError(f"{self.path}: byte {int(self._begins[i])}: sample {i}: {otherwise}")


def read_head(path: str) -> tuple[Offsets, str]:
    """Where each sample begins, and the last ends; and the dtype of the ids.

    Raises FormatError unless the offsets ascend and fill the file, and the config is that of one column of ids.
    """
    size = measure_file(path)
    num = int(map_file(path, "<u4", 0, 1)[0]) if size >= 4 else -1
    head = 4 * (num + 2)
    if num < 0 or size < head:
        raise FormatError(f"{path}: byte {size}: the file ends within its table of offsets")
    offsets = map_file(path, "<u4", 4, num + 1).astype(np.int64)
    if int(offsets[-1]) != size:
        raise FormatError(f"{path}: byte {head - 4}: the last sample ends at {int(offsets[-1])}, the file at {size}")
    wrong = np.flatnonzero(np.diff(offsets) < 0)
    if len(wrong):
        raise FormatError(f"{path}: byte {4 + 4 * int(wrong[0])}: sample {int(wrong[0])} ends before it begins")
    if not head < int(offsets[0]) <= head + _MAX_CONFIG:
        raise FormatError(f"{path}: byte 4: the first sample begins at {int(offsets[0])}: no room for the config")
    data = map_file(path, np.uint8, head, int(offsets[0]) - head).tobytes()
    for dtype in DTYPES:
        if _is_config(data, make_config(dtype)):
            return offsets, dtype
    if _is_config(data, {**make_config(""), "column_encodings": [_PLAIN_ENCODING]}):
        return offsets, PLAIN_DTYPE
    raise FormatError(
        f"{path}: byte {head}: config {data[:200]!r}: expected one column {COLUMN!r} of "
        f"{', '.join(_ENCODING + dtype for dtype in DTYPES)} or {_PLAIN_ENCODING}, uncompressed"
    )


def _is_config(data: bytes, config: Mapping[str, Any]) -> bool:
    """Whether a config, in JSON, is this one but for how large its writer let files become, and hashes."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return False
    freely = dict.fromkeys(("size_limit", "hashes"))
    return isinstance(found, dict) and {**found, **freely} == {**config, **freely}


_USAGE = """\
MosaicML's MDS, one sample per document, with an `index.json` for each split.

```python
from streaming import StreamingDataset

train = StreamingDataset(local="OUT/shards/mds", split="train", shuffle=False, batch_size=1)
tokens = train[0]["tokens"]  # a numpy array
```

From a store: `StreamingDataset(remote="s3://BUCKET/OUT/shards/mds", local="/tmp/copies", split="train", ...)`.
"""


class MdsFormat(ShardFormat):
    """The ShardFormat of this file."""

    name = "mds"
    suffixes = (SUFFIX,)
    reads_ranges = False  # the length of each sample is beside its ids
    splits_apart = True
    dtypes = DTYPES
    most_tokens = 2**29  # half of what the offsets allow: they take room, too
    index_names = (INDEX,)
    needs_index = True
    rebuilds_index = True
    usage = _USAGE
    writer = MdsShardWriter

    def read_entries(self, index: str) -> Iterator[IndexEntry]:
        with read_json_index(index) as content:
            for i, shard in enumerate(content["shards"]):
                (encoding,) = shard["column_encodings"]
                path = str(Path(index).parent / shard["raw_data"]["basename"])
                size_bytes, samples = shard["raw_data"]["bytes"], shard["samples"]
                dtype = PLAIN_DTYPE if encoding == _PLAIN_ENCODING else encoding.removeprefix(_ENCODING)
                yield IndexEntry(f"shards[{i}]", path, size_bytes, samples, dtype=dtype)

    def main_file(self, path: str) -> str | None:
        place = path if path.endswith(SUFFIX) else path + SUFFIX
        return place if Path(place).is_file() else None

    def open_reader(self, path: str, documents: Documents | None) -> ShardWithDocuments:
        return ShardWithDocuments(MdsIds(path), documents)

    def folder_index(self, shards: Collection[StoredShard], settings: ShardSettings) -> Mapping[str, bytes]:
        """SPLIT/index.json: of each file its name below the split's folder, size and samples.

        Raises FormatError for plain bytes, which we do not write.
        """
        if settings.dtype == PLAIN_DTYPE:
            raise FormatError(f"an index of {_PLAIN_ENCODING} columns is not written: convert the folder instead")
        config = make_config(self.dtype(settings))
        return {
            f"{split}/{INDEX}": write_canonical_json(
                {
                    "shards": [
                        {
                            **config,
                            "raw_data": {
                                "basename": shard.facts.stem + SUFFIX,
                                "bytes": shard.size_bytes,
                                "hashes": {},
                            },
                            "samples": shard.facts.documents,
                            "zip_data": None,
                        }
                        for shard in own
                    ],
                    "version": 2,
                }
            )
            for split, own in group_by_split(shards).items()
        }
