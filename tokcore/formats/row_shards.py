"""Shards with a row for each document: a list of ids beside the columns, in whatever file holds the record batches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tokcore.formats.arrow_columns import (
    BATCH_TOKENS,
    COLUMNS,
    Batches,
    ColumnFile,
    make_column_arrays,
    make_columns_schema,
    make_own_arrays,
    make_rechunker,
    take_own_columns,
)
from tokcore.formats.flat_ids import find_bounds_in
from tokcore.formats.metadata import Told, make_metadata_fields
from tokcore.formats.shard_format import ShardFormat, ShardSettings, check_lengths
from tokcore.shards.labels import label_arrow
from tokcore.shards.token_batch import Ids, Offsets, TokenBatch

DTYPE = "int32"

# One list<int32> column of a record batch holds at most 2^31 - 1 values, and all but the last of a batch's documents
# together fewer than BATCH_TOKENS.
MAX_DOCUMENT_TOKENS = 2**31 - 1 - BATCH_TOKENS

_ITEMS = pa.field("item", pa.int32(), nullable=False)


def make_fields(ids_name: str) -> tuple[pa.Field, ...]:
    """The columns of a file. ids_name: of the column of ids, the first one."""
    return (pa.field(ids_name, pa.list_(_ITEMS), nullable=False), *COLUMNS)


def make_schema(ids_name: str, fingerprint: str, metadata: Told = ()) -> pa.Schema:
    """The schema of a shard. ids_name: of the column of ids. metadata: the user's own columns."""
    fields = (*make_fields(ids_name), *make_metadata_fields(metadata))
    return make_columns_schema(fields, fingerprint, dtype=DTYPE)


def describe_feature(field: pa.Field) -> Mapping[str, str]:
    """A column as the head of a dataset card has it."""
    if pa.types.is_list(field.type):
        return {"name": field.name, "list": str(field.type.value_type)}
    return {"name": field.name, "dtype": str(field.type)}


class RowFormat(ShardFormat):
    """A ShardFormat of one file of rows: the ids of a document beside its columns."""

    suffixes: tuple[str]
    has_columns = True
    holds_metadata = True

    def dtype(self, settings: ShardSettings) -> str:
        return DTYPE

    def main_file(self, path: str) -> str | None:
        (suffix,) = self.suffixes
        place = path if path.endswith(suffix) else path + suffix
        return place if Path(place).is_file() else None


class RowShardWriter:
    """Writes the documents of one shard in record batches; close() ends the file's content, not the file."""

    def __init__(
        self,
        open_writer: Callable[[pa.Schema], Any],
        ids_name: str,
        fingerprint: str,
        format_name: str,
        most_tokens: int = MAX_DOCUMENT_TOKENS,
        metadata: Told = (),
    ) -> None:
        """open_writer: gives what has write_batch and close. ids_name: of the column of ids.

        most_tokens: of a document that the format, format_name in errors, can hold. metadata: the user's own columns.
        """
        self._schema = make_schema(ids_name, fingerprint, metadata)
        self._writer = open_writer(self._schema)
        self._rechunker = make_rechunker()
        self._format_name = format_name
        self._most_tokens = most_tokens

    def write(self, batch: TokenBatch) -> None:
        """Append documents. Raises FormatError, before any of them is written, for one that is too long."""
        check_lengths(batch, self._most_tokens, self._format_name)
        for chunk in self._rechunker.add(batch):
            self._write(chunk)

    def close(self) -> None:
        """Write what waits, and the footer."""
        for chunk in self._rechunker.rest():
            self._write(chunk)
        self._writer.close()

    def _write(self, chunk: TokenBatch) -> None:
        start, end = int(chunk.offsets[0]), int(chunk.offsets[-1])
        offsets = pa.array((chunk.offsets - start).astype(np.int32))
        lists = pa.ListArray.from_arrays(offsets, pa.array(chunk.tokens[start:end]), type=self._schema.field(0).type)
        arrays = [lists, *make_column_arrays(chunk), *make_own_arrays(chunk)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


class RowShard(ColumnFile):
    """One shard. Safe to read from several threads.

    A record batch is decoded when a document of it is asked for, and kept until another one is. Without tokens, if
    only the other columns are asked for.
    """

    dtype = DTYPE
    mapped = None

    def __init__(self, batches: Batches, ids_name: str) -> None:
        """ids_name: of the column of ids.

        Raises FormatError if it is not a shard, VersionError if another release wrote it.
        """
        self._ids_name = ids_name
        super().__init__(batches, make_fields(ids_name), "shard")

    @property
    def num_tokens(self) -> int:
        """The ids of all documents together; decodes the tokens of every record batch, and nothing else."""
        batches = self._batches.only(self._ids_name)
        offsets = (batches.decoded(number).column(0).offsets for number in range(len(batches)))
        return sum(of_batch[-1].as_py() - of_batch[0].as_py() for of_batch in offsets)

    def tokens(self, row: int) -> Ids:
        """int32 ids of a document; read-only, a view of the decoded batch, or of the mapped file if uncompressed."""
        number, i = self._find(row)
        lists = self._batches[number].column(0)
        values: Ids = lists.values.to_numpy(zero_copy_only=True)
        return values[lists.offsets[i].as_py() : lists.offsets[i + 1].as_py()]

    def part(self, start: int, end: int) -> Ids:
        """int32 ids number start to end of all documents, end excluded; decodes the record batches that they are in."""
        starts = self._batch_starts
        parts = [np.zeros(0, np.int32)]
        while start < end:
            number = int(np.searchsorted(starts, start, side="right")) - 1
            lists = self._batches[number].column(0)
            values: Ids = lists.values.to_numpy(zero_copy_only=True)
            first = lists.offsets[0].as_py() + start - int(starts[number])
            stop = min(end, int(starts[number + 1]))
            parts.append(values[first : first + stop - start])
            start = stop
        return parts[1] if len(parts) == 2 else np.concatenate(parts)

    def find_bounds(self, starts: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
        """Where documents end strictly within each part: how many, and the places. Decodes all tokens, once."""
        return find_bounds_in(self._bounds[0], starts, ends)

    @property
    def _batch_starts(self) -> Offsets:
        return self._bounds[1]

    @functools.cached_property
    def _bounds(self) -> tuple[Offsets, Offsets]:
        """Where each document begins, in ids, and the last ends; and the same of record batches."""
        batches = self._batches.only(self._ids_name)
        bounds, starts, total = [np.zeros(1, np.int64)], [0], 0
        for number in range(len(batches)):
            offsets = batches.decoded(number).column(0).offsets.to_numpy().astype(np.int64)
            bounds.append(offsets[1:] - offsets[0] + total)
            total += int(offsets[-1] - offsets[0])
            starts.append(total)
        return np.concatenate(bounds), np.array(starts, np.int64)

    def span(self, start: int, end: int) -> tuple[Ids, Offsets]:
        """Documents start to end, end excluded: their ids back to back, a copy, and their numbers of ids."""
        parts, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        end = min(end, len(self))
        while start < end:
            number, i = self._find(start)
            lists = self._batches[number].column(0)
            bounds = lists.offsets.to_numpy()[i : i + end - start + 1].astype(np.int64)
            parts.append(lists.values.to_numpy(zero_copy_only=True)[bounds[0] : bounds[-1]])
            lengths.append(np.diff(bounds))
            start += len(bounds) - 1
        return np.concatenate(parts), np.concatenate(lengths)

    def batches(self) -> Iterator[TokenBatch]:
        """All documents, a record batch at a time."""
        for number in range(len(self._batches)):
            batch = self._batches[number]
            lists, ids, langs, sources, ordinals, *_ = batch.columns
            yield TokenBatch(
                lists.values.to_numpy(zero_copy_only=True),
                lists.offsets.to_numpy().astype(np.int64),
                ids.to_pylist(),
                label_arrow(langs),
                label_arrow(sources),
                ordinals.to_numpy(zero_copy_only=True),
                take_own_columns(batch, 1 + len(COLUMNS)),
            )
