"""Token shards as litdata's chunks: where each document lies, then the ids of all of them.

    .bin         uint32 documents | uint32 offset of each document in the file, and the file's size | ids, back to back
    index.json   one for each split: the chunks, and the dtype of the ids                        (little-endian)

Ids are int32, or uint16 where the build file says so. id, lang, source and ordinal are in the documents file. Layout:
Lightning-AI/litData, src/litdata/streaming/writer.py.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tokcore.errors import FormatError
from tokcore.files.canonical_json import write_canonical_json
from tokcore.formats.documents import Documents
from tokcore.formats.flat_ids import (
    FlatIds,
    Spool,
    compute_lengths,
    find_stored_dtype,
    map_file,
    measure_file,
    store_ids,
)
from tokcore.formats.partition_names import list_above
from tokcore.formats.shard_format import (
    IndexEntry,
    ShardFormat,
    ShardSettings,
    ShardWithDocuments,
    StoredShard,
    group_by_split,
    read_json_index,
)
from tokcore.shards.token_batch import Offsets, TokenBatch

SUFFIX = ".bin"
INDEX = "index.json"
CODES = {"uint16": 20, "int32": 16}  # dtype -> its number among litdata's types of torch
MAX_BYTES = 2**32 - 1  # offsets are uint32
_KIND = "no_header_tensor"
_LEVELS_UP = 2  # from a chunk's folder to the index


class LitdataShardWriter:
    """Writes one shard to an open binary file: ids wait in a temporary file until the number of documents is known."""

    def __init__(self, file: BinaryIO, dtype: str, vocab_size: int) -> None:
        self._file = file
        self._dtype = dtype
        self._vocab_size = vocab_size
        self._lengths: list[Offsets] = []
        self._size_bytes = 8  # of the file
        self._ids = Spool()

    def write(self, batch: TokenBatch) -> None:
        """Append documents.

        Raises FormatError, before any of them is written, for an id outside of the vocabulary, and if the file would
        be larger than its offsets can say.
        """
        width = find_stored_dtype(self._dtype).itemsize
        size_bytes = self._size_bytes + 4 * batch.num_documents + width * batch.num_tokens
        if size_bytes > MAX_BYTES:
            raise FormatError(
                f"a chunk of {size_bytes} bytes: litdata holds at most {MAX_BYTES} in one. Lower "
                f"shards.target_tokens, or max_document_bytes of the source."
            )
        self._ids.write(store_ids(batch, self._dtype, self._vocab_size))
        self._size_bytes = size_bytes
        self._lengths.append(np.diff(batch.offsets))

    def close(self) -> None:
        """Write the offsets, and the ids after them."""
        lengths = np.concatenate([np.zeros(0, np.int64), *self._lengths])
        self._file.write(write_offsets(lengths * find_stored_dtype(self._dtype).itemsize))
        self._ids.copy_to(self._file)


def write_offsets(sizes: Offsets) -> bytes:
    """The head of a file of items of these sizes in bytes: their number, and where each begins and the last ends.

    >>> write_offsets(np.array([6, 4])).hex(" ", 4)
    '02000000 10000000 16000000 1a000000'
    """
    num = len(sizes)
    offsets = 4 * (num + 2) + np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return np.concatenate([np.array([num], np.int64), offsets]).astype("<u4").tobytes()


def read_offsets(path: str) -> Offsets:
    """Where each item begins, and the last ends. Raises FormatError unless they fill the file after the head."""
    size = measure_file(path)
    num = int(map_file(path, "<u4", 0, 1)[0]) if size >= 4 else -1
    head = 4 * (num + 2)
    if num < 0 or size < head:
        raise FormatError(f"{path}: byte {size}: the file ends within its table of offsets")
    offsets = map_file(path, "<u4", 4, num + 1).astype(np.int64)
    if int(offsets[0]) != head:
        raise FormatError(f"{path}: byte 4: the first document begins at {int(offsets[0])}, expected {head}")
    if int(offsets[-1]) != size:
        raise FormatError(f"{path}: byte {head - 4}: the last document ends at {int(offsets[-1])}, the file at {size}")
    return offsets


def _find_dtype(path: str, num_bytes: int, documents: Documents | None) -> str:
    """The dtype of a chunk's ids, as its documents file makes it, or as the index of its folder says."""
    if documents is not None:
        num_tokens = int(documents.lengths.sum())
        for dtype in CODES:
            if num_bytes == find_stored_dtype(dtype).itemsize * num_tokens:
                return dtype
        raise FormatError(f"{path}: {num_bytes} bytes of ids, {documents.path} accounts for {num_tokens} ids")
    for folder in list_above(Path(path).resolve(), _LEVELS_UP):
        if (folder / INDEX).is_file():
            return read_index(str(folder / INDEX))
    raise FormatError(
        f"{path}: the dtype of its ids is in {INDEX}, which is neither beside it nor one folder above: copy it there"
    )


def read_index(path: str) -> str:
    """The dtype that an index names. Raises FormatError if it is none of ours."""
    try:
        (kind,) = json.loads(Path(path).read_bytes())["config"]["data_format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(f"{path}: not an index of litdata's chunks of tokens: {error!r:.80}") from error
    for dtype, code in CODES.items():
        if kind == f"{_KIND}:{code}":
            return dtype
    known = " or ".join(f"{_KIND}:{code} ({dtype})" for dtype, code in CODES.items())
    raise FormatError(f"{path}: config.data_format {kind!r:.80}, expected {known}")


def open_ids(path: str, documents: Documents | None) -> FlatIds:
    """The ids of a chunk. Raises FormatError unless offsets, size and dtype fit together."""
    offsets = read_offsets(path)
    dtype = _find_dtype(path, int(offsets[-1] - offsets[0]), documents)
    width = find_stored_dtype(dtype).itemsize
    odd = np.flatnonzero((offsets - offsets[0]) % width)
    if len(odd):
        raise FormatError(
            f"{path}: byte {4 + 4 * int(odd[0])}: offset {int(offsets[odd[0]])} is within an id of {dtype}"
        )
    lengths = compute_lengths((offsets[1:] - offsets[0]) // width, path)
    return FlatIds(path, dtype, lengths, int(offsets[0]), f"{path}'s table of offsets")


_USAGE = """\
litdata's chunks, with an `index.json` for each split.

```python
from litdata import StreamingDataLoader, StreamingDataset, TokensLoader

train = StreamingDataset("OUT/shards/litdata/train", item_loader=TokensLoader(block_size=2048))
loader = StreamingDataLoader(train, batch_size=8)
```
"""


class LitdataFormat(ShardFormat):
    """The ShardFormat of this file."""

    name = "litdata"
    suffixes = (SUFFIX,)
    splits_apart = True
    dtypes = tuple(CODES)
    most_tokens = 2**29  # half of what the offsets allow: they take room, too
    index_names = (INDEX,)
    needs_index = True
    rebuilds_index = True
    usage = _USAGE
    writer = LitdataShardWriter

    def read_entries(self, index: str) -> Iterator[IndexEntry]:
        dtype = read_index(index)
        with read_json_index(index) as content:
            for i, chunk in enumerate(content["chunks"]):
                path = str(Path(index).parent / chunk["filename"])
                told = (chunk["chunk_bytes"], chunk["chunk_size"], chunk["dim"])
                yield IndexEntry(f"chunks[{i}]", path, *told, dtype)

    def main_file(self, path: str) -> str | None:
        """A .bin file goes by this format if its offsets begin after themselves and end with the file."""
        place = path if path.endswith(SUFFIX) else path + SUFFIX
        if not Path(place).is_file():
            return None
        try:
            read_offsets(place)
        except FormatError:
            return None
        return place

    def open_reader(self, path: str, documents: Documents | None) -> ShardWithDocuments:
        return ShardWithDocuments(open_ids(path, documents), documents)

    def folder_index(self, shards: Collection[StoredShard], settings: ShardSettings) -> Mapping[str, bytes]:
        """SPLIT/index.json: of each chunk its file, size, documents and ids; and the dtype."""
        config: dict[str, Any] = {
            "chunk_bytes": MAX_BYTES,
            "chunk_size": None,
            "compression": None,
            "data_format": [f"{_KIND}:{CODES[self.dtype(settings)]}"],
            "data_spec": None,
            "encryption": None,
            "item_loader": "TokensLoader",
        }
        return {
            f"{split}/{INDEX}": write_canonical_json(
                {
                    "chunks": [
                        {
                            "chunk_bytes": shard.size_bytes,
                            "chunk_size": shard.facts.documents,
                            "dim": shard.facts.tokens,
                            "filename": shard.facts.stem + SUFFIX,
                        }
                        for shard in own
                    ],
                    "config": config,
                }
            )
            for split, own in group_by_split(shards).items()
        }
