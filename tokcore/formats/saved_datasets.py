"""Token shards as Hugging Face datasets saves them: Arrow streams, mapped without a copy by `load_from_disk`.

    .arrow              an Arrow stream, uncompressed: input_ids list<int32>, id string (or null), lang string,
                        source string, ordinal int64; and the user's own columns (tokcore.formats.metadata)
    dataset_dict.json   the splits
    SPLIT/state.json    the files of a split, and its fingerprint
    SPLIT/dataset_info.json   the features, which are the columns' types

Layout: huggingface/datasets, src/datasets/arrow_dataset.py and dataset_dict.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from tokcore.errors import FormatError
from tokcore.files.arrow_files import Sink
from tokcore.files.canonical_json import write_canonical_json
from tokcore.files.shortage import raise_shortage
from tokcore.formats.arrow_columns import Batches, map_arrow_file
from tokcore.formats.documents import Documents
from tokcore.formats.metadata import Told, make_metadata_fields
from tokcore.formats.row_shards import RowFormat, RowShard, RowShardWriter, describe_feature, make_fields
from tokcore.formats.shard_format import (
    IndexEntry,
    ShardSettings,
    StoredShard,
    group_by_split,
    read_json_index,
)

SUFFIX = ".arrow"
IDS = "input_ids"  # the column of ids
STATE, INFO, SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"

_END = bytes.fromhex("ffffffff00000000")  # of a stream
_FILE_MAGIC = b"ARROW1"
_FINGERPRINT_DIGITS = 16


class SavedShardWriter(RowShardWriter):
    """Writes one shard to an open binary file; close() ends the file's content, not the file."""

    def __init__(self, file: BinaryIO, fingerprint: str, metadata: Told = ()) -> None:
        # Uncompressed: datasets maps it.
        options = pa.ipc.IpcWriteOptions(use_threads=False)
        super().__init__(
            lambda schema: pa.ipc.new_stream(Sink(file), schema, options=options),
            IDS,
            fingerprint,
            "an Arrow shard",
            metadata=metadata,
        )


class StreamBatches(Batches):
    """The record batches of an Arrow stream, views of the mapped file."""

    def __init__(self, path: str, opened: StreamBatches | None = None, names: Sequence[str] = ()) -> None:
        """opened: the same stream, of which only the named columns are wanted.

        Raises FormatError if the file is no Arrow stream, or is cut off.
        """
        super().__init__()
        self.path = path
        if opened is not None:
            self.schema = opened.schema
            self._all: list[pa.RecordBatch] = [batch.select(list(names)) for batch in opened._all]
            return
        try:
            file = map_arrow_file(path)
            if file.size() < len(_END) or file.read_at(len(_END), file.size() - len(_END)) != _END:
                raise FormatError(f"{path}: not an Arrow stream, or cut off: it does not end as one")
            reader = pa.ipc.open_stream(file, options=pa.ipc.IpcReadOptions(use_threads=False))
            self.schema = reader.schema
            self._all = list(reader)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise_shortage(error)
            raise FormatError(f"{path}: not an Arrow stream, or damaged: {error}") from error

    def __len__(self) -> int:
        return len(self._all)

    def only(self, *names: str) -> StreamBatches:
        return StreamBatches(self.path, self, names)

    def _decode(self, number: int) -> pa.RecordBatch:
        return self._all[number]


def _make_feature(field: pa.Field) -> dict[str, Any]:
    """A column's type as datasets writes it. `Sequence` is known to every version of it."""
    if pa.types.is_list(field.type):
        inner = {"dtype": str(field.type.value_type), "_type": "Value"}
        return {"feature": inner, "_type": "Sequence"}
    return {"dtype": str(field.type), "_type": "Value"}


_USAGE = """\
A dataset as Hugging Face's `save_to_disk` leaves it. It is mapped, not copied.

```python
from datasets import load_from_disk

splits = load_from_disk("OUT/shards/huggingface")
ids = splits["train"][0]["input_ids"]
```

To stream: `load_dataset("arrow", data_files="OUT/shards/huggingface/train/**/*.arrow", split="train", streaming=True)`.
"""


class SavedDatasetFormat(RowFormat):
    """The ShardFormat of this file."""

    name = "huggingface"
    suffixes = (SUFFIX,)
    maps_ids = True
    reads_ranges = False  # nothing says where its record batches begin
    splits_apart = True
    open_batches = StreamBatches
    index_names = (STATE,)
    needs_index = True
    features = tuple(map(describe_feature, make_fields(IDS)))
    usage = _USAGE

    def read_entries(self, index: str) -> Iterator[IndexEntry]:
        with read_json_index(index) as content:
            for i, file in enumerate(content["_data_files"]):
                yield IndexEntry(f"_data_files[{i}]", str(Path(index).parent / file["filename"]))

    def main_file(self, path: str) -> str | None:
        """An .arrow file goes by this format if it is a stream: the other kind of Arrow file says so at its head."""
        if (place := super().main_file(path)) is None:
            return None
        with Path(place).open("rb") as file:
            return None if file.read(len(_FILE_MAGIC)) == _FILE_MAGIC else place

    def open_writer(self, files: Sequence[BinaryIO], settings: ShardSettings) -> SavedShardWriter:
        (file,) = files
        return SavedShardWriter(file, settings.fingerprint, settings.metadata)

    def open_reader(self, path: str, documents: Documents | None) -> RowShard:
        return RowShard(StreamBatches(path), IDS)

    def folder_index(self, shards: Collection[StoredShard], settings: ShardSettings) -> Mapping[str, bytes]:
        """dataset_dict.json, and of each split state.json and dataset_info.json; none without shards."""
        splits = group_by_split(shards)
        fields = (*make_fields(IDS), *make_metadata_fields(settings.metadata))
        features = {field.name: _make_feature(field) for field in fields}
        files: dict[str, Any] = {SPLITS: {"splits": list(splits)}} if splits else {}
        for split, own in splits.items():
            told = "".join(shard.content_sha256 for shard in own)
            files[f"{split}/{STATE}"] = {
                "_data_files": [{"filename": shard.facts.stem + SUFFIX} for shard in own],
                # datasets keys its cache by it: other documents, another fingerprint.
                "_fingerprint": hashlib.sha256(told.encode()).hexdigest()[:_FINGERPRINT_DIGITS],
                "_format_columns": None,
                "_format_kwargs": {},
                "_format_type": None,
                "_output_all_columns": False,
                "_split": split,
            }
            files[f"{split}/{INFO}"] = {
                "citation": "",
                "description": "",
                "features": features,
                "homepage": "",
                "license": "",
            }
        return {path: write_canonical_json(content) for path, content in files.items()}
