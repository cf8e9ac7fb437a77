"""Token shards as llm.c and modded-nanogpt read them: a header of 1,024 bytes, then the ids of all documents.

    .bin   256 int32: magic, version, number of ids, then zeros | ids, back to back    (little-endian)

    uint16 ids   magic 20240520, version 1, which llm.c calls gpt-2
    uint32 ids   magic 20240801, version 7, which it calls llama-3

Where documents begin is in the documents file; without that, a shard is one document. Readers find the ends by the id
of the document's end. Layout: karpathy/llm.c, dev/data/data_common.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np

from tokcore.errors import FormatError
from tokcore.formats.documents import Documents
from tokcore.formats.flat_ids import FlatIds, Spool, measure_file, read_start, store_ids
from tokcore.formats.shard_format import (
    ShardFormat,
    ShardWithDocuments,
)
from tokcore.shards.token_batch import TokenBatch

SUFFIX = ".bin"
HEADER_BYTES = 1024
MAX_TOKENS = 2**31 - 1  # the number of ids in the header is int32
VARIANTS = {"uint16": (20240520, 1), "uint32": (20240801, 7)}  # dtype -> magic, version


class LlmcShardWriter:
    """Writes one shard to an open binary file: the ids wait in a temporary file until their number is known."""

    def __init__(self, file: BinaryIO, dtype: str, vocab_size: int) -> None:
        self._file = file
        self._dtype = dtype
        self._vocab_size = vocab_size
        self._num_tokens = 0
        self._ids = Spool()

    def write(self, batch: TokenBatch) -> None:
        """Append documents.

        Raises FormatError, before any of them is written, for an id outside of the vocabulary, and for more ids than
        the header can count.
        """
        if self._num_tokens + batch.num_tokens > MAX_TOKENS:
            raise FormatError(
                f"a shard of more than {MAX_TOKENS} tokens: llm.c's header cannot count them. Lower "
                f"shards.target_tokens, or max_document_bytes of the source."
            )
        self._ids.write(store_ids(batch, self._dtype, self._vocab_size))
        self._num_tokens += batch.num_tokens

    def close(self) -> None:
        """Write the header, and the ids after it."""
        self._file.write(write_header(self._num_tokens, self._dtype))
        self._ids.copy_to(self._file)


def write_header(num_tokens: int, dtype: str) -> bytes:
    """The header of a file with this many ids.

    >>> write_header(5, "uint16")[:16].hex(" ", 4)
    '88d83401 01000000 05000000 00000000'
    """
    header = np.zeros(HEADER_BYTES // 4, "<i4")
    header[:3] = (*VARIANTS[dtype], num_tokens)
    return header.tobytes()


def read_header(path: str) -> tuple[str, int]:
    """The dtype and the number of ids. Raises FormatError unless every byte of the header is what the layout says."""
    measure_file(path)
    header = read_start(path, HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        raise FormatError(f"{path}: byte {len(header)}: the file ends within its header of {HEADER_BYTES} bytes")
    fields = np.frombuffer(header, "<i4")
    magic, version, num_tokens = fields[:3].tolist()
    dtype = next((name for name, (its_magic, _) in VARIANTS.items() if its_magic == magic), None)
    if dtype is None:
        known = " or ".join(f"{its_magic} ({name})" for name, (its_magic, _) in VARIANTS.items())
        raise FormatError(f"{path}: byte 0: magic {magic}, expected {known}")
    if version != VARIANTS[dtype][1]:
        raise FormatError(f"{path}: byte 4: version {version}, expected {VARIANTS[dtype][1]} for ids of {dtype}")
    if num_tokens < 0:
        raise FormatError(f"{path}: byte 8: {num_tokens} ids")
    if fields[3:].any():
        raise FormatError(f"{path}: byte {12 + 4 * int(np.flatnonzero(fields[3:])[0])}: expected zeros")
    return dtype, num_tokens


def open_ids(path: str, documents: Documents | None) -> FlatIds:
    """The ids of a shard; all of them as one document where no documents file says more."""
    dtype, num_tokens = read_header(path)
    ids = FlatIds(path, dtype, np.array([num_tokens], np.int64), HEADER_BYTES)
    return ids if documents is None else FlatIds(path, dtype, documents.lengths, HEADER_BYTES, documents.path)


_USAGE = """\
llm.c's files: a header, then the ids of all documents, uint16 in the variant that llm.c calls gpt-2, uint32 in the one
that it calls llama-3. Each shard must have at least one batch of tokens: raise `shards.target_tokens` for small shards.

```sh
./train_gpt2cu -i "OUT/shards/llmc/train-*.bin" -j "OUT/shards/llmc/validation-*.bin"
```

```python
import numpy

magic, version, num_tokens = numpy.fromfile("FILE.bin", "<i4", 3)
ids = numpy.memmap("FILE.bin", "<u2" if version == 1 else "<u4", "r", offset=1024)
```
"""


class LlmcFormat(ShardFormat):
    """The ShardFormat of this file."""

    name = "llmc"
    suffixes = (SUFFIX,)
    dtypes = tuple(VARIANTS)
    most_tokens = MAX_TOKENS
    has_bounds = False
    usage = _USAGE
    writer = LlmcShardWriter

    def main_file(self, path: str) -> str | None:
        magics = {np.array(variant, "<i4").tobytes() for variant in VARIANTS.values()}
        for place in [path] if path.endswith(SUFFIX) else [path + SUFFIX]:
            if Path(place).is_file():
                with Path(place).open("rb") as file:
                    return place if file.read(8) in magics else None
        return None

    def open_plain(self, path: str, dtype: str) -> FlatIds:
        return open_ids(path, None)

    def open_reader(self, path: str, documents: Documents | None) -> ShardWithDocuments:
        return ShardWithDocuments(open_ids(path, documents), documents)
