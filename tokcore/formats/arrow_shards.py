"""Token shards as Arrow IPC files: one row per document, readable by anything that reads Arrow.

    tokens: list<int32>   id: string (or null)   lang: string   source: string   ordinal: int64
    and the user's own columns (tokcore.formats.metadata), if there are any

tokcore.formats.arrow_columns has what they share with documents files, tokcore.formats.row_shards what they share with
other formats of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

import pyarrow as pa

from tokcore.formats.arrow_columns import RecordBatches, open_writer
from tokcore.formats.documents import Documents
from tokcore.formats.metadata import Told
from tokcore.formats.row_shards import RowFormat, RowShard, RowShardWriter, describe_feature, make_fields
from tokcore.formats.shard_format import ShardSettings

SUFFIX = ".arrow"
IDS = "tokens"  # the column of ids


class ArrowShardWriter(RowShardWriter):
    """Writes one shard to an open binary file; close() ends the file's content, not the file."""

    def __init__(self, file: BinaryIO, fingerprint: str, compression: str, metadata: Told = ()) -> None:
        """compression: zstd (level 1), lz4 or none. metadata: the user's own columns."""

        def open_file(schema: pa.Schema) -> pa.RecordBatchFileWriter:
            return open_writer(file, schema, compression)

        super().__init__(open_file, IDS, fingerprint, "an Arrow shard", metadata=metadata)


class ArrowShard(RowShard):
    """One Arrow shard, memory-mapped."""

    def __init__(self, path: str) -> None:
        """Raises FormatError if it is not a shard, VersionError if another release wrote it."""
        super().__init__(RecordBatches(path), IDS)


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


class ArrowFormat(RowFormat):
    """The ShardFormat of this file."""

    name = "arrow"
    suffixes = (SUFFIX,)
    open_batches = RecordBatches
    features = tuple(map(describe_feature, make_fields(IDS)))
    usage = _USAGE

    def open_writer(self, files: Sequence[BinaryIO], settings: ShardSettings) -> ArrowShardWriter:
        (file,) = files
        return ArrowShardWriter(file, settings.fingerprint, settings.compression, settings.metadata)

    def open_reader(self, path: str, documents: Documents | None) -> ArrowShard:
        return ArrowShard(path)
