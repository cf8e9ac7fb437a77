"""Token shards as Arrow IPC files: one row per document, readable by anything that reads Arrow.

    tokens: list<int32>   id: string (or null)   lang: string   source: string   ordinal: int64

tokcore.formats.arrow_columns has what they share with documents files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from tokcore.formats.arrow_columns import (
    BATCH_TOKENS,
    COLUMNS,
    ColumnFile,
    make_column_arrays,
    make_columns_schema,
    make_rechunker,
    open_writer,
)
from tokcore.formats.documents import Documents
from tokcore.formats.shard_format import ShardFacts, ShardSettings, check_lengths
from tokcore.labels import label_arrow
from tokcore.token_batch import Ids, Offsets, TokenBatch

DTYPE = "int32"
SUFFIX = ".arrow"

# One list<int32> column of a record batch holds at most 2^31 - 1 values, and all but the last of a batch's documents
# together fewer than BATCH_TOKENS.
MAX_DOCUMENT_TOKENS = 2**31 - 1 - BATCH_TOKENS

_ITEMS = pa.field("item", pa.int32(), nullable=False)
_TOKENS = pa.field("tokens", pa.list_(_ITEMS), nullable=False)
_FIELDS = (_TOKENS, *COLUMNS)


def make_schema(fingerprint: str) -> pa.Schema:
    """The schema of a shard."""
    return make_columns_schema(_FIELDS, fingerprint, dtype=DTYPE)


class ArrowShardWriter:
    """Writes one shard to an open binary file; close() ends the file's content, not the file."""

    def __init__(self, file: BinaryIO, fingerprint: str, compression: str) -> None:
        """compression: zstd (level 1), lz4 or none."""
        self._schema = make_schema(fingerprint)
        self._writer = open_writer(file, self._schema, compression)
        self._rechunker = make_rechunker()

    def write(self, batch: TokenBatch) -> None:
        """Append documents. Raises FormatError, before any of them is written, for one that is too long."""
        check_lengths(batch, MAX_DOCUMENT_TOKENS, "an Arrow shard")
        for chunk in self._rechunker.add(batch):
            self._write(chunk)

    def close(self) -> None:
        """Write what waits, and the footer."""
        for chunk in self._rechunker.rest():
            self._write(chunk)
        self._writer.close()

    def _write(self, chunk: TokenBatch) -> None:
        arrays = [_make_lists(chunk), *make_column_arrays(chunk)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


class ArrowShard(ColumnFile):
    """One Arrow shard, memory-mapped. Safe to read from several threads.

    A record batch is decoded when a document of it is asked for, and kept until another one is. Without tokens, if
    only the other columns are asked for.
    """

    dtype = DTYPE

    def __init__(self, path: str) -> None:
        """Raises FormatError if it is not a shard, VersionError if another release wrote it."""
        super().__init__(path, _FIELDS, "shard")

    @property
    def num_tokens(self) -> int:
        """The ids of all documents together; decodes the tokens of every record batch, and nothing else."""
        batches = self._only(_TOKENS.name)
        offsets = (batches.decoded(number).column(0).offsets for number in range(len(batches)))
        return sum(of_batch[-1].as_py() - of_batch[0].as_py() for of_batch in offsets)

    def tokens(self, row: int) -> Ids:
        """int32 ids of a document; read-only, a view of the decoded batch, or of the mapped file if uncompressed."""
        number, i = self._find(row)
        lists = self._batches[number].column(0)
        values: Ids = lists.values.to_numpy(zero_copy_only=True)
        return values[lists.offsets[i].as_py() : lists.offsets[i + 1].as_py()]

    def span(self, start: int, end: int) -> tuple[Ids, Offsets]:
        """Documents start to end, end excluded: their ids back to back, a copy, and their numbers of ids."""
        parts = [self.tokens(row) for row in range(start, min(end, len(self)))]
        return np.concatenate([np.zeros(0, np.int32), *parts]), np.array([len(part) for part in parts], np.int64)

    def batches(self) -> Iterator[TokenBatch]:
        """All documents, a record batch at a time."""
        for number in range(len(self._batches)):
            lists, ids, langs, sources, ordinals = self._batches[number].columns
            yield TokenBatch(
                lists.values.to_numpy(zero_copy_only=True),
                lists.offsets.to_numpy().astype(np.int64),
                ids.to_pylist(),
                label_arrow(langs),
                label_arrow(sources),
                ordinals.to_numpy(zero_copy_only=True),
            )


def _make_lists(chunk: TokenBatch) -> pa.ListArray:
    start, end = int(chunk.offsets[0]), int(chunk.offsets[-1])
    offsets = pa.array((chunk.offsets - start).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(chunk.tokens[start:end]), type=_TOKENS.type)


def _describe_feature(field: pa.Field) -> Mapping[str, str]:
    if pa.types.is_list(field.type):
        return {"name": field.name, "list": str(field.type.value_type)}
    return {"name": field.name, "dtype": str(field.type)}


_USAGE = """\
Arrow IPC files, one row per document. `Dataset.from_file` wants Arrow streams, which these are not: use `load_dataset`
instead, or, to map one file without a copy in the cache, the last line below.

```python
from datasets import load_dataset

splits = load_dataset("OUT")  # streaming=True makes no copy in the cache
one = load_dataset("arrow", data_files="OUT/shards/arrow/**/train-*.arrow", split="train")
```

```python
import polars

documents = polars.scan_ipc("OUT/shards/arrow/**/*.arrow")  # or read_ipc
```

```python
import duckdb
import pyarrow.dataset

documents = pyarrow.dataset.dataset("OUT/shards/arrow", format="arrow")
tokens = duckdb.sql("SELECT lang, sum(len(tokens)) AS tokens FROM documents GROUP BY lang")
frame = documents.to_table(columns=["id", "lang"]).to_pandas()
```

```python
import pyarrow
from datasets import Dataset

documents = Dataset(pyarrow.ipc.open_file(pyarrow.memory_map("FILE.arrow")).read_all())  # not Dataset.from_file
```
"""


class ArrowFormat:
    """The ShardFormat of this file."""

    name = "arrow"
    suffixes = (SUFFIX,)
    has_columns = True
    maps_ids = False  # compressed
    dtypes = ()
    features = tuple(map(_describe_feature, _FIELDS))
    usage = _USAGE

    def dtype(self, settings: ShardSettings) -> str:
        return DTYPE

    def main_file(self, path: str) -> str | None:
        places = [path] if path.endswith(SUFFIX) else [path + SUFFIX]
        return next((place for place in places if Path(place).is_file()), None)

    def open_writer(self, files: Sequence[BinaryIO], settings: ShardSettings) -> ArrowShardWriter:
        (file,) = files
        return ArrowShardWriter(file, settings.fingerprint, settings.compression)

    def open_reader(self, path: str, documents: Documents | None) -> ArrowShard:
        return ArrowShard(path)

    def folder_index(self, shards: Sequence[ShardFacts], settings: ShardSettings) -> Mapping[str, bytes]:
        return {}
