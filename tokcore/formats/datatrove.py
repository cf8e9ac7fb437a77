"""Token shards as datatrove reads and writes them: ids, and where each document ends.

    .ds         uint16 or uint32 ids of all documents, back to back, without a header
    .ds.index   uint64 end of each document, in ids                               (little-endian)

The dtype follows from the sizes of both files. id, lang, source and ordinal are in the documents file. Layout:
huggingface/datatrove, src/datatrove/pipeline/tokens/tokenizer.py.
"""

from __future__ import annotations

from typing import BinaryIO

import numpy as np

from tokcore.errors import FormatError
from tokcore.formats.flat_ids import HeaderlessFormat, compute_lengths, map_file, measure_file, store_ids
from tokcore.shards.token_batch import Offsets, TokenBatch

DS, INDEX = ".ds", ".ds.index"


class DatatroveShardWriter:
    """Writes one shard to two open binary files; close() ends their content, not the files."""

    def __init__(self, ids_file: BinaryIO, index_file: BinaryIO, dtype: str, vocab_size: int) -> None:
        self._ids = ids_file
        self._index = index_file
        self._dtype = dtype
        self._vocab_size = vocab_size
        self._ends: list[Offsets] = []
        self._num_tokens = 0

    def write(self, batch: TokenBatch) -> None:
        """Append documents. Raises FormatError, before any of them is written, for an id outside of the vocabulary."""
        self._ids.write(store_ids(batch, self._dtype, self._vocab_size))
        self._ends.append(batch.offsets[1:] - batch.offsets[0] + self._num_tokens)
        self._num_tokens += batch.num_tokens

    def close(self) -> None:
        """Write the index."""
        self._index.write(np.concatenate([np.zeros(0, np.int64), *self._ends]).astype("<u8").tobytes())


def read_lengths(path: str) -> Offsets:
    """The number of ids of each document that an index describes. Raises FormatError if it cannot be one."""
    size = measure_file(path)
    if size % 8:
        raise FormatError(f"{path}: {size} bytes: expected 8 for each document")
    ends = map_file(path, "<u8", 0, size // 8)
    if len(ends) and int(ends.max()) > np.iinfo(np.int64).max // 8:
        raise FormatError(f"{path}: byte {8 * int(ends.argmax())}: a document ends at {int(ends.max())} ids")
    return compute_lengths(ends, path)


_USAGE = """\
datatrove's tokenized files. Ids are as wide as `token_size` says: 2 bytes for at most 65,536 ids, else 4, unless the
build file chose `dtype = "uint32"`.

```python
from datatrove.utils.dataset import DatatroveFolderDataset

train = DatatroveFolderDataset("OUT/shards/datatrove", seq_len=2048, filename_pattern="train-*.ds", token_size=2)
```

For shards by language, `filename_pattern="*/train-*.ds"`.
"""


class DatatroveFormat(HeaderlessFormat):
    """The ShardFormat of this file."""

    name = "datatrove"
    suffixes = (DS, INDEX)
    usage = _USAGE
    writer = DatatroveShardWriter

    def read_lengths(self, path: str) -> Offsets:
        return read_lengths(path)
