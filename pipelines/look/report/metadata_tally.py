"""What is in the columns of [metadata]: exact, of all documents."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

MOST_VALUES = 10_000  # different texts of a column; of one with more none is told
_SHOWN = 10


class MetadataTally:
    """Adds up columns, batch by batch."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}

    def add(self, metadata: pa.RecordBatch | None) -> None:
        """Add the metadata of some documents."""
        if metadata is not None:
            for field, column in zip(metadata.schema, metadata.columns, strict=True):
                self._columns.setdefault(field.name, _Column(field.type)).add(column)

    def finish(self) -> dict[str, dict[str, Any]]:
        """Name -> type, documents that have a value; the range of numbers, and the most frequent of other values."""
        return {name: column.finish() for name, column in sorted(self._columns.items())}


class _Column:
    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._documents = 0
        self._limits: list[Any] = []
        self._values: Counter[str] | None = Counter()

    def add(self, column: pa.Array) -> None:
        self._documents += len(column) - column.null_count
        if pa.types.is_integer(self._kind) or pa.types.is_floating(self._kind):
            found = pc.min_max(column).as_py().values()
            known = [value for value in (*self._limits, *found) if value is not None and math.isfinite(value)]
            self._limits = [min(known), max(known)] if known else []
        elif self._values is not None:
            for one in pc.value_counts(column.drop_null()).to_pylist():
                value = one["values"]
                self._values[str(value).lower() if isinstance(value, bool) else value] += one["counts"]
            if len(self._values) > MOST_VALUES:
                self._values = None

    def finish(self) -> dict[str, Any]:
        told: dict[str, Any] = {"type": str(self._kind), "documents": self._documents}
        if pa.types.is_integer(self._kind) or pa.types.is_floating(self._kind):
            least, most = self._limits or (None, None)
            return {**told, "least": least, "most": most}
        if self._values is None:
            return {**told, "different": None, "values": {}}
        top = sorted(self._values.items(), key=lambda one: (-one[1], one[0]))[:_SHOWN]
        return {**told, "different": len(self._values), "values": dict(top)}
