"""Token shards as Parquet files: one row per document, readable by anything that reads Parquet.

    input_ids: list<int32>   id: string (or null)   lang: string   source: string   ordinal: int64
    and the user's own columns (tokcore.formats.metadata), if there are any

A row group is what a record batch is in an Arrow shard. Pages have checksums. The column has the name by which trainers
of the Hugging Face family know ids. A file's bytes follow from its documents, the codec and pyarrow's version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from tokcore.errors import FormatError
from tokcore.files.arrow_files import Sink
from tokcore.files.ranged_files import RangedFile, find_ranged
from tokcore.files.shortage import raise_shortage
from tokcore.formats.arrow_columns import Batches
from tokcore.formats.documents import Documents
from tokcore.formats.metadata import Told
from tokcore.formats.row_shards import RowFormat, RowShard, RowShardWriter, describe_feature, make_fields
from tokcore.formats.shard_format import ShardSettings

SUFFIX = ".parquet"
IDS = "input_ids"  # the column of ids
MAX_DOCUMENT_TOKENS = 2**28  # the list of a document must fit a page, whose size is a signed int32
_ENCODING = "BYTE_STREAM_SPLIT"  # compresses to 0.7 of plain ids, in half the time
_LEVELS_AT_ONCE = 1 << 16  # ids between two looks at the size of the page
_LABELS = ["lang", "source"]  # few differ: kept as a dictionary, with statistics for readers that skip row groups
_CODECS: Mapping[str, Mapping[str, Any]] = {
    "zstd": {"compression": "zstd", "compression_level": 1},
    "lz4": {"compression": "lz4"},
    "none": {"compression": "none"},
}


class ParquetShardWriter(RowShardWriter):
    """Writes one shard to an open binary file; close() ends the file's content, not the file."""

    def __init__(self, file: BinaryIO, fingerprint: str, compression: str, metadata: Told = ()) -> None:
        """compression: zstd (level 1), lz4 or none. metadata: the user's own columns."""
        texts = [name for name, kind in metadata if kind == "string"]

        def open_writer(schema: pa.Schema) -> Any:
            return pq.ParquetWriter(
                Sink(file),
                schema,
                use_dictionary=[*_LABELS, *texts],
                column_encoding={f"{IDS}.list.element": _ENCODING},
                write_statistics=[*_LABELS, *(name for name, _ in metadata)],
                write_page_checksum=True,
                write_batch_size=_LEVELS_AT_ONCE,
                store_schema=True,
                **_CODECS[compression],
            )

        super().__init__(open_writer, IDS, fingerprint, "a Parquet shard", MAX_DOCUMENT_TOKENS, metadata)


class RowGroups(Batches):
    """The row groups of a Parquet file, as record batches."""

    def __init__(self, path: str, columns: Sequence[str] | None = None, ranged: RangedFile | None = None) -> None:
        """columns: those to decode; None: all. ranged: the file, if it is at a URL and open.

        Raises FormatError if it is not a Parquet file.
        """
        super().__init__()
        self.path = path
        self._columns = None if columns is None else list(columns)
        self._ranged = find_ranged(path) if ranged is None else ranged
        try:
            place = path if self._ranged is None else pa.PythonFile(self._ranged, "r")
            self._file = pq.ParquetFile(place, memory_map=True, page_checksum_verification=True)
            self.schema = self._file.schema_arrow
        except (pa.ArrowException, OSError, ValueError) as error:
            raise_shortage(error)
            raise FormatError(f"{path}: not a Parquet file, or cut off: {error}") from error

    def __len__(self) -> int:
        return int(self._file.num_row_groups)

    def only(self, *names: str) -> RowGroups:
        return RowGroups(self.path, names, self._ranged)

    def _decode(self, number: int) -> pa.RecordBatch:
        table = self._file.read_row_group(number, self._columns, use_threads=False).combine_chunks()
        schema = table.schema
        return pa.RecordBatch.from_arrays([column.chunk(0) for column in table.columns], schema=schema)


_USAGE = """\
Parquet files, one row per document; ids are in the column `input_ids`.

```python
from datasets import load_dataset

files = "OUT/shards/parquet/**/train-*.parquet"
train = load_dataset("parquet", data_files=files, split="train")  # streaming=True makes no copy in the cache
```

```python
import duckdb
import polars

documents = polars.scan_parquet("OUT/shards/parquet/**/*.parquet")
tokens = duckdb.sql("SELECT lang, sum(len(input_ids)) FROM 'OUT/shards/parquet/**/*.parquet' GROUP BY lang")
```
"""


class ParquetFormat(RowFormat):
    """The ShardFormat of this file."""

    name = "parquet"
    suffixes = (SUFFIX,)
    open_batches = RowGroups
    features = tuple(map(describe_feature, make_fields(IDS)))
    usage = _USAGE

    def open_writer(self, files: Sequence[BinaryIO], settings: ShardSettings) -> ParquetShardWriter:
        (file,) = files
        return ParquetShardWriter(file, settings.fingerprint, settings.compression, settings.metadata)

    def open_reader(self, path: str, documents: Documents | None) -> RowShard:
        return RowShard(RowGroups(path), IDS)
