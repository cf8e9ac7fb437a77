"""Token shards as OLMo-core and dolma read them: ids without a header, and a table of bounds.

    .npy      uint16 or uint32 ids of all documents, back to back, little-endian; no header of NumPy, despite the name
    .csv.gz   a line `start,end` for each document, in ids, end excluded

The dtype follows from the sizes of both. id, lang, source and ordinal are in the documents file. Layout:
allenai/OLMo-core, src/olmo_core/data/utils.py.
"""

from __future__ import annotations

import gzip
import itertools
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tokcore.errors import FormatError
from tokcore.files.ranged_files import find_ranged
from tokcore.formats.flat_ids import HeaderlessFormat, measure_file, store_ids
from tokcore.shards.token_batch import Offsets, TokenBatch

NPY, BOUNDS = ".npy", ".csv.gz"

_SAVED_BY_NUMPY = re.compile(rb"\x93NUMPY(\x01\x00..|[\x02\x03]\x00....)\{'descr'", re.DOTALL)
_LINE_BYTES = 1 << 16  # longer lines are no bounds; dolma's have the document's id and file after them
_BLOCK = 1 << 16  # lines that are read at a time


class OlmoShardWriter:
    """Writes one shard to two open binary files; close() ends their content, not the files."""

    def __init__(self, ids_file: BinaryIO, bounds_file: BinaryIO, dtype: str, vocab_size: int) -> None:
        self._ids = ids_file
        # No name and no time: equal documents give equal bytes.
        self._bounds = gzip.GzipFile("", "wb", 6, bounds_file, mtime=0)
        self._dtype = dtype
        self._vocab_size = vocab_size
        self._num_tokens = 0

    def write(self, batch: TokenBatch) -> None:
        """Append documents. Raises FormatError, before any of them is written, for an id outside of the vocabulary."""
        self._ids.write(store_ids(batch, self._dtype, self._vocab_size))
        bounds = (batch.offsets - batch.offsets[0] + self._num_tokens).tolist()
        self._bounds.write("".join([f"{start},{end}\n" for start, end in itertools.pairwise(bounds)]).encode())
        self._num_tokens += batch.num_tokens

    def close(self) -> None:
        """End the compressed stream."""
        self._bounds.close()


def read_lengths(path: str) -> Offsets:
    """The number of ids of each document that a table of bounds describes.

    Raises FormatError, naming the line, unless each document begins where the one before it ends.
    """
    measure_file(path)
    parts = [np.zeros(0, np.int64)]
    end = 0
    first = 1
    lines = _read_lines(path)
    while block := list(itertools.islice(lines, _BLOCK)):
        for number, line in enumerate(block, first):
            fields = line.split(b",", 2)
            if len(fields) < 2 or not all(0 < len(field) < 19 and field.isdigit() for field in fields[:2]):
                raise FormatError(f"{path}: line {number}: {line[:60]!r}: expected start,end")
        starts, ends = (np.array([int(line.split(b",", 2)[i]) for line in block], np.int64) for i in range(2))
        before = np.concatenate([np.array([end], np.int64), ends[:-1]])
        wrong = np.flatnonzero((starts != before) | (ends < starts))
        if len(wrong):
            i = int(wrong[0])
            raise FormatError(
                f"{path}: line {first + i}: a document from {int(starts[i])} to {int(ends[i])}, the one before it ends "
                f"at {int(before[i])}"
            )
        parts.append(ends - starts)
        end = int(ends[-1])
        first += len(block)
    return np.concatenate(parts)


def _read_lines(path: str) -> Iterator[bytes]:
    try:
        with gzip.open(find_ranged(path) or path) as file:
            while line := file.readline(_LINE_BYTES):
                if not line.endswith(b"\n"):
                    raise FormatError(f"{path}: {line[:60]!r}: a line that does not end")
                yield line[:-1]
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"{path}: damaged: {error}") from error


def _is_saved_by_numpy(path: str) -> bool:
    """Whether a file is an array of NumPy's own form. Trainers leave such among shards, as Megatron its orders."""
    try:
        with Path(path).open("rb") as file:
            return _SAVED_BY_NUMPY.match(file.read(32)) is not None
    except OSError:  # which who opens it reports
        return False


_USAGE = """\
OLMo-core's arrays of ids, and the bounds of documents. The arrays have no header of NumPy: their dtype is `uint16` for
at most 65,536 ids, else `uint32`, unless the build file chose `dtype = "uint32"`.

```python
from olmo_core.data import NumpyDatasetDType, NumpyFSLDatasetConfig, TokenizerConfig

config = NumpyFSLDatasetConfig(
    paths=["OUT/shards/olmo/train-*.npy"],
    expand_glob=True,
    sequence_length=2048,
    dtype=NumpyDatasetDType.uint16,
    tokenizer=TokenizerConfig(vocab_size=VOCAB_SIZE, eos_token_id=EOS, pad_token_id=EOS),
    work_dir="WORK",
)
```

For shards by language, `OUT/shards/olmo/*/train-*.npy`.
"""


class OlmoFormat(HeaderlessFormat):
    """The ShardFormat of this file."""

    name = "olmo"
    suffixes = (NPY, BOUNDS)
    usage = _USAGE
    writer = OlmoShardWriter

    def main_file(self, path: str) -> str | None:
        place = super().main_file(path)
        return None if place is not None and _is_saved_by_numpy(place) else place

    def read_lengths(self, path: str) -> Offsets:
        return read_lengths(path)
