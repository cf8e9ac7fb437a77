"""Token shards as nanoGPT reads them: the ids of all documents back to back, little-endian, without a header.

    .bin         uint16 if vocab_size <= 65,536, else uint32
    index.json   one for the folder: what the files cannot say of themselves

A trainer maps a file: `np.memmap(path, dtype="uint16", mode="r")`. Where documents begin, and which dtype the ids have,
is in the documents file, without which tokcore refuses to open a shard; for other readers the dtype is in index.json.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tokcore.canonical import write_canonical_json
from tokcore.errors import FormatError
from tokcore.formats.documents import Documents
from tokcore.formats.shard_format import ShardFacts, ShardSettings, ShardWithDocuments, check_ids
from tokcore.token_batch import Ids, Offsets, TokenBatch

SUFFIX = ".bin"
INDEX = "index.json"
INDEX_VERSION = 1


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
        self._dtype = np.dtype(find_dtype(vocab_size)).newbyteorder("<")

    def write(self, batch: TokenBatch) -> None:
        """Append documents. Raises FormatError, before any of them is written, for an id outside of the vocabulary."""
        tokens = batch.tokens[batch.offsets[0] : batch.offsets[-1]]
        check_ids(tokens, self._vocab_size)
        self._file.write(np.ascontiguousarray(tokens, self._dtype).view(np.uint8).data)

    def close(self) -> None:
        """Nothing waits."""


class NanogptIds:
    """The ids of one shard, memory-mapped; documents are copies of it where ids are uint16.

    Safe to read from several threads.
    """

    def __init__(self, path: str, documents: Documents) -> None:
        """documents: of the same shard. Raises FormatError unless the file's size is what they account for."""
        self.path = path
        self.dtype = find_dtype(documents.vocab_size)
        self._documents = documents
        stored = np.dtype(self.dtype).newbyteorder("<")
        num_tokens = int(documents.lengths.sum())
        try:
            size = Path(path).stat().st_size
        except OSError as error:
            raise FormatError(f"{path}: cannot be opened: {error.strerror}") from error
        if size != stored.itemsize * num_tokens:
            raise FormatError(
                f"{path}: {size} bytes, {documents.path} accounts for {num_tokens} ids of {self.dtype}, "
                f"{stored.itemsize * num_tokens} bytes"
            )
        self.num_tokens = num_tokens
        # A plain array, since slices of a memmap cost several times as much.
        self._tokens = np.asarray(np.memmap(path, stored, "r")) if size else np.zeros(0, stored)

    def __len__(self) -> int:
        return len(self._documents.lengths)

    def tokens(self, row: int) -> Ids:
        """int32 ids of a document, read-only."""
        return self._as_int32(int(self._starts[row]), int(self._starts[row + 1]))

    def span(self, start: int, end: int) -> tuple[Ids, Offsets]:
        """Documents start to end, end excluded: their ids back to back, and their lengths."""
        lengths = self._documents.lengths[start:end]
        first = int(self._starts[start]) if len(lengths) else 0
        return self._as_int32(first, first + int(lengths.sum())), lengths

    @functools.cached_property
    def _starts(self) -> Offsets:
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self._documents.lengths)])

    def _as_int32(self, start: int, end: int) -> Ids:
        # Ids are below 2^31: as uint32 they are the same bytes.
        stored = self._tokens[start:end]
        ids: Ids = stored.view("<i4") if stored.itemsize == 4 else stored.astype(np.int32)
        ids.flags.writeable = False
        return ids


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


class NanogptFormat:
    """The ShardFormat of this file."""

    name = "nanogpt"
    suffixes = (SUFFIX,)
    has_columns = False
    maps_ids = False
    dtypes = ()  # it follows from the vocabulary
    features = ()
    usage = _USAGE

    def dtype(self, settings: ShardSettings) -> str:
        return find_dtype(settings.vocab_size)

    def main_file(self, path: str) -> str | None:
        places = [path] if path.endswith(SUFFIX) else [path + SUFFIX]
        return next((place for place in places if Path(place).is_file()), None)

    def open_writer(self, files: Sequence[BinaryIO], settings: ShardSettings) -> NanogptShardWriter:
        (file,) = files
        return NanogptShardWriter(file, settings.vocab_size)

    def open_reader(self, path: str, documents: Documents | None) -> ShardWithDocuments:
        if documents is None:
            raise FormatError(
                f"{path}: flat ids without a header: where documents begin is in its documents file, which is neither "
                f"beside it nor in ../documents. Copy it there, or open the build's output."
            )
        return ShardWithDocuments(NanogptIds(path, documents), documents)

    def folder_index(self, shards: Sequence[ShardFacts], settings: ShardSettings) -> Mapping[str, bytes]:
        """index.json: dtype, vocab_size, tokenizer, and of each shard path, split, documents and tokens."""
        index = {
            "format": "tokcore-nanogpt-index",
            "format_version": INDEX_VERSION,
            "dtype": find_dtype(settings.vocab_size),
            "vocab_size": settings.vocab_size,
            "fingerprint": settings.fingerprint,
            "files": [
                {
                    "path": shard.stem + SUFFIX,
                    "split": shard.split,
                    "documents": shard.documents,
                    "tokens": shard.tokens,
                }
                for shard in shards
            ],
        }
        return {INDEX: write_canonical_json(index)}
