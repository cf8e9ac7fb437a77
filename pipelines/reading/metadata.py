"""Fields that go with each document into shards: defaults, and the records that are rejected for what they hold.

After [[map]], which may fill them, and before filters, which see defaults (input_range.settle_batch).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tokcore.formats.metadata import Told, fits_integer, make_metadata_fields
from tokcore_pipelines.reading.records import Batch, Reject, make_printable, reject_documents
from tokcore_schemas.plan import ReadSettings

_MOST_FLOAT32 = float(np.finfo(np.float32).max)


class _UnfitError(ValueError):
    """A value that is not of the type of its field."""


def settle_metadata(batch: Batch, settings: ReadSettings) -> Batch:
    """The batch with a value of its type, or None, in each field of settings.metadata; without records that lack one.

    These are rejected: missing_field, bad_field.
    """
    num = batch.texts.num_texts
    fields = dict(batch.fields)
    rejects: dict[int, Reject] = {}
    for field in settings.metadata:
        default = json.loads(field.default) if field.default else None
        convert = _CONVERT[field.type]
        values: list[Any] = [default] * num
        shown = make_printable(field.name.encode())
        for i, value in enumerate(batch.fields[field.name]):
            if value is not None:
                try:
                    values[i] = convert(value)
                except _UnfitError:
                    _add(rejects, batch, i, "bad_field", f"field {shown}: expected {field.type}, found {value!r:.40}")
        if field.required and default is None:
            for i, value in enumerate(values):
                if value is None:
                    _add(rejects, batch, i, "missing_field", f"field {shown}: [metadata] requires it")
        fields[field.name] = values
    return reject_documents(batch._replace(fields=fields), rejects)


def make_metadata(fields: Mapping[str, list[Any]], told: Told, where: list[int]) -> pa.RecordBatch | None:
    """The columns of documents at these positions, from their fields; None if there are no columns."""
    if not told:
        return None
    schema = pa.schema(make_metadata_fields(told))
    arrays = [pa.array([fields[one.name][i] for i in where], one.type) for one in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _add(rejects: dict[int, Reject], batch: Batch, i: int, reason: str, detail: str) -> None:
    text = make_printable(batch.texts.text(i))
    rejects.setdefault(i, Reject(int(batch.ordinals[i]), reason, detail, text))


def _convert_text(value: Any) -> str:
    return str(value).encode(errors="replace").decode()  # half a surrogate pair has no UTF-8


def _convert_integer(kind: str) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        if isinstance(value, float) and not value.is_integer():
            raise _UnfitError
        if not fits_integer(whole := int(value), kind):
            raise _UnfitError
        return whole

    return convert


def _convert_single(value: Any) -> float:
    if abs(value) > _MOST_FLOAT32:
        raise _UnfitError
    return float(value)


_CONVERT: Mapping[str, Callable[[Any], Any]] = {
    "string": _convert_text,
    "bool": bool,
    "int32": _convert_integer("int32"),
    "int64": _convert_integer("int64"),
    "float32": _convert_single,
    "float64": float,
}
