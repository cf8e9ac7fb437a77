"""Token shards as nanoGPT reads them: the ids of all documents back to back, little-endian, without a header.

    .bin         uint16 if vocab_size <= 65,536, else uint32
    index.json   one for the folder: what the files cannot say of themselves

A trainer maps a file: `np.memmap(path, dtype="uint16", mode="r")`. Where documents begin, and which dtype the ids have,
is in the documents file. Without that the dtype is in index.json, and a shard is one document.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from tokcore.errors import FormatError
from tokcore.files.canonical_json import write_canonical_json
from tokcore.formats.documents import Documents, find_documents
from tokcore.formats.flat_ids import FlatIds, open_headerless, store_ids
from tokcore.formats.partition_names import list_above
from tokcore.formats.shard_format import (
    IndexEntry,
    ShardFormat,
    ShardSettings,
    ShardWithDocuments,
    StoredShard,
    read_json_index,
)
from tokcore.shards.token_batch import TokenBatch

SUFFIX = ".bin"
INDEX = "index.json"
INDEX_VERSION = 1
DTYPES = ("uint16", "uint32")
_INDEX_FORMAT = "tokcore-nanogpt-index"
_LEVELS_UP = 2  # from a shard's folder to the index


def find_dtype(vocab_size: int) -> str:
    """The dtype of the ids in a file.

    >>> find_dtype(65_536), find_dtype(65_537)
    ('uint16', 'uint32')
    """
    return "uint16" if vocab_size <= 1 << 16 else "uint32"


class NanogptShardWriter:
    """Writes one shard to an open binary file."""

    def __init__(self, file: BinaryIO, vocab_size: int) -> None:
        self._file = file
        self._vocab_size = vocab_size
        self._dtype = find_dtype(vocab_size)

    def write(self, batch: TokenBatch) -> None:
        """Append documents. Raises FormatError, before any of them is written, for an id outside of the vocabulary."""
        self._file.write(store_ids(batch, self._dtype, self._vocab_size))

    def close(self) -> None:
        """Nothing waits."""


def open_ids(path: str, documents: Documents | None) -> FlatIds:
    """The ids of a shard; all of them as one document where no documents file says more.

    Raises FormatError unless the file's size is what the documents file accounts for, and if nothing names the dtype.
    """
    if documents is not None:
        return FlatIds(path, find_dtype(documents.vocab_size), documents.lengths, 0, documents.path)
    return open_headerless(path, read_dtype(path))


def read_dtype(path: str) -> str:
    """The dtype that the index of the shard's folder names."""
    for folder in list_above(Path(path).resolve(), _LEVELS_UP):
        if (index := folder / INDEX).is_file():
            try:
                content = json.loads(index.read_bytes())
                if content["format"] == _INDEX_FORMAT and content["dtype"] in DTYPES:
                    return str(content["dtype"])
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise FormatError(f"{index}: not an index of nanoGPT shards: {error!r:.80}") from error
    raise FormatError(
        f"{path}: flat ids without a header: neither its documents file nor the folder's {INDEX}, which have the "
        f"dtype, is there. Copy one of them beside it, open the build's output, or name the dtype: tokcore fsck and "
        f"convert take --from-dtype uint16."
    )


_USAGE = """\
The ids of all documents back to back. `index.json` has their dtype and the files.

```python
import json

import numpy

folder = "OUT/shards/nanogpt/"
with open(folder + "index.json") as file:
    index = json.load(file)
train = [file["path"] for file in index["files"] if file["split"] == "train"]
ids = [numpy.memmap(folder + path, dtype=index["dtype"], mode="r") for path in train]
```
"""


class NanogptFormat(ShardFormat):
    """The ShardFormat of this file."""

    name = "nanogpt"
    suffixes = (SUFFIX,)
    dtypes = ()  # it follows from the vocabulary
    has_bounds = False
    index_names = (INDEX,)
    rebuilds_index = True
    usage = _USAGE

    def read_entries(self, index: str) -> Iterator[IndexEntry]:
        with read_json_index(index) as content:
            for i, file in enumerate(content["files"]):
                path = str(Path(index).parent / file["path"])
                documents = file["documents"] if find_documents(path, (SUFFIX,)) is not None else None
                yield IndexEntry(f"files[{i}]", path, None, documents, file["tokens"], content["dtype"])

    def dtype(self, settings: ShardSettings) -> str:
        return find_dtype(settings.vocab_size)

    def main_file(self, path: str) -> str | None:
        places = [path] if path.endswith(SUFFIX) else [path + SUFFIX]
        return next((place for place in places if Path(place).is_file()), None)

    def open_writer(self, files: Sequence[BinaryIO], settings: ShardSettings) -> NanogptShardWriter:
        (file,) = files
        return NanogptShardWriter(file, settings.vocab_size)

    def open_plain(self, path: str, dtype: str) -> FlatIds:
        return open_headerless(path, dtype if dtype in DTYPES else read_dtype(path))

    def open_reader(self, path: str, documents: Documents | None) -> ShardWithDocuments:
        return ShardWithDocuments(open_ids(path, documents), documents)

    def folder_index(self, shards: Collection[StoredShard], settings: ShardSettings) -> Mapping[str, bytes]:
        """index.json: dtype, vocab_size, tokenizer, and of each shard path, split, documents and tokens."""
        index = {
            "format": _INDEX_FORMAT,
            "format_version": INDEX_VERSION,
            "dtype": find_dtype(settings.vocab_size),
            "vocab_size": settings.vocab_size,
            "fingerprint": settings.fingerprint,
            "files": [
                {
                    "path": shard.facts.stem + SUFFIX,
                    "split": shard.facts.split,
                    "documents": shard.facts.documents,
                    "tokens": shard.facts.tokens,
                }
                for shard in shards
            ],
        }
        return {INDEX: write_canonical_json(index)}
