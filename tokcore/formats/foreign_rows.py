"""Rows of ids that other programs wrote, in Arrow or Parquet files, as token batches.

The ids are in a column `input_ids`, `tokens`, `token_ids` or `ids`: lists of integers of any width. Columns `id`,
`lang` (or `language`), `source` and `ordinal` are taken where they are there; others are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tokcore.errors import FormatError
from tokcore.formats.arrow_columns import BATCH_DOCUMENTS, BATCH_TOKENS, Batches, is_ours
from tokcore.shards.labels import Labels, label_strings, repeat_label
from tokcore.shards.token_batch import Ids, Offsets, TokenBatch

IDS = ("input_ids", "tokens", "token_ids", "ids")
_LANGS = ("lang", "language")
_MAX_ID = 2**31 - 1


class ForeignRows:
    """The rows of one file."""

    def __init__(self, batches: Batches) -> None:
        """Raises FormatError, naming the columns, if none is one of ids."""
        self.path = batches.path
        schema = batches.schema
        self._ids = next((name for name in IDS if _holds_ids(schema, name)), None)
        if self._ids is None:
            found = ", ".join(f"{field.name} {field.type}" for field in schema)
            raise FormatError(
                f"{self.path}: no column of ids: it has {found:.300}; expected a list of integers in {' or '.join(IDS)}"
            )
        self._id = _find_column(schema, ("id",))
        self._lang = _find_column(schema, _LANGS)
        self._source = _find_column(schema, ("source",))
        self._ordinal = "ordinal" if "ordinal" in schema.names and schema.field("ordinal").type == pa.int64() else None
        named = (self._ids, self._id, self._lang, self._source, self._ordinal)
        self._batches = batches.only(*(name for name in named if name is not None))
        self.has_columns = self._lang is not None and self._source is not None

    def batches(self, source: str, lang: str) -> Iterator[TokenBatch]:
        """All documents, some at a time. source, lang: of those whose columns are not there.

        Raises FormatError naming file, row and column.
        """
        first = 0
        for number in range(len(self._batches)):
            batch = self._batches.decoded(number)
            start = 0
            lengths = self._measure(batch, first)
            bounds = np.zeros(batch.num_rows + 1, np.int64)
            np.cumsum(lengths, out=bounds[1:])
            while start < batch.num_rows:
                most = int(np.searchsorted(bounds, bounds[start] + BATCH_TOKENS, side="right")) - 1
                end = max(start + 1, min(most, start + BATCH_DOCUMENTS))
                yield self._make_batch(batch.slice(start, end - start), first + start, source, lang)
                start = end
            first += batch.num_rows

    def _measure(self, batch: pa.RecordBatch, first: int) -> Offsets:
        column = batch.column(self._ids)
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise FormatError(f"{self.path}: row {first + row}: column {self._ids}: a null, expected a list of ids")
        lengths: Offsets = pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
        return lengths

    def _make_batch(self, rows: pa.RecordBatch, first: int, source: str, lang: str) -> TokenBatch:
        offsets = np.zeros(rows.num_rows + 1, np.int64)
        np.cumsum(self._measure(rows, first), out=offsets[1:])
        values = rows.column(self._ids).flatten()
        if values.null_count:
            place = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
            raise FormatError(f"{self.path}: {self._name_row(offsets, place, first)}: a null among its ids")
        tokens = values.to_numpy(zero_copy_only=False)
        outside = np.flatnonzero((tokens < 0) | (tokens > _MAX_ID))
        if len(outside):
            place = int(outside[0])
            raise FormatError(f"{self.path}: {self._name_row(offsets, place, first)}: id {int(tokens[place])}")
        num = rows.num_rows
        ids: Sequence[str | None] = [None] * num if self._id is None else _spell(rows.column(self._id))
        if self._ordinal is None:
            ordinals = np.arange(first, first + num, dtype=np.int64)
        else:
            ordinals = rows.column(self._ordinal).to_numpy(zero_copy_only=False).astype(np.int64)
        own: Ids = tokens.astype(np.int32)
        return TokenBatch(
            own, offsets, ids, self._label(rows, self._lang, lang), self._label(rows, self._source, source), ordinals
        )

    def _name_row(self, offsets: Offsets, place: int, first: int) -> str:
        return f"row {first + int(np.searchsorted(offsets, place, side='right')) - 1}: column {self._ids}"

    def _label(self, rows: pa.RecordBatch, name: str | None, otherwise: str) -> Labels:
        if name is None:
            return repeat_label(otherwise, rows.num_rows)
        return label_strings(otherwise if value is None else value for value in _spell(rows.column(name)))


def open_foreign_rows(batches: Batches) -> ForeignRows | None:
    """The rows of a file of others; None if it is a shard of ours."""
    return None if is_ours(batches.schema) else ForeignRows(batches)


def _holds_ids(schema: Any, name: str) -> bool:
    if name not in schema.names:
        return False
    kind = schema.field(name).type
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(lists and pa.types.is_integer(kind.value_type))


def _find_column(schema: Any, names: Sequence[str]) -> str | None:
    """The first of these columns that is there as strings or integers."""
    for name in names:
        if name in schema.names:
            kind = schema.field(name).type
            if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind):
                return name
    return None


def _spell(column: pa.Array) -> list[str | None]:
    return [None if value is None else str(value) for value in column.to_pylist()]
