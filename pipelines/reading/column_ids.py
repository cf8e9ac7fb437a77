"""Ids in columns that hold neither strings nor integers, as text. The rules are part of the output format.

- UUID: as UUIDs are written, in lower case.
- float: a whole number below 2**53 as an integer, since pandas makes floats of integers with gaps; any other number as
  the shortest decimal that gives it back, as Python writes it; NaN, which stands for a gap, is missing.
- decimal: plain digits, as many after the point as the type has.
- timestamp: 2024-01-31T23:59:59, with as many digits of the second as the unit has, and Z if the type has a time zone,
  which values are never stored in.
"""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tokcore_pipelines.reading.fields import NoText

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_EPOCH = datetime.datetime(1970, 1, 1)
_WHOLE = 2.0**53
_WIDTHS = {16: np.float16, 32: np.float32, 64: np.float64}

Extract = Callable[[pa.Array | None, int, int], list[Any]]


def validate_ids(array: pa.Array) -> pa.Array | None:
    """The array, validated in full, if its type says more than its values do; None for any other."""
    if not _is_uuid(array.type):
        return None
    array.storage.validate(full=True)
    return array


def extract_ids(array: pa.Array | None, start: int, num_rows: int, extract: Extract) -> list[Any]:
    """The ids of some rows: str, or what extract gives: bytes, int, None for null, NoText.

    array: validated. extract: gives values of all other types.
    """
    if array is None:
        return extract(array, start, num_rows)
    kind = array.type
    array = array.slice(start, num_rows)
    if pa.types.is_dictionary(kind):
        used = pc.unique(array.indices)  # each value is spelled once, however many rows repeat it
        values = extract_ids(array.dictionary.take(used), 0, len(used), extract)
        by_index = dict(zip(used.to_pylist(), values, strict=True))
        return [by_index[index] for index in array.indices.to_pylist()]
    if _is_uuid(kind):
        stored = array.storage.to_pylist()
        return [None if one is None else str(uuid.UUID(bytes=one)) for one in stored]
    if pa.types.is_floating(kind):
        width = _WIDTHS[kind.bit_width]
        return [None if one is None or math.isnan(one) else _spell_float(one, width, kind) for one in array.to_pylist()]
    if pa.types.is_decimal(kind):
        return [None if one is None else format(one, "f") for one in array.to_pylist()]
    if pa.types.is_timestamp(kind):
        return [None if one is None else _spell_time(one, kind) for one in array.view(pa.int64()).to_pylist()]
    return extract(array, 0, num_rows)


def extract_fields(array: pa.Array | None, start: int, num_rows: int, extract: Extract) -> list[Any]:
    """The values that filters compare: bytes or str, int, float or bool, None for null and NaN, NoText for no such one.
    Of a list, what Python has for it.

    A decimal is the float next to it. Types that have no number and no text of their own are as they are of ids.
    """
    if array is None:
        return [None] * num_rows
    kind, part = array.type, array.slice(start, num_rows)
    if pa.types.is_boolean(kind):
        return list(part.to_pylist())
    if pa.types.is_floating(kind):
        return [None if one is None or math.isnan(one) else float(one) for one in part.to_pylist()]
    if pa.types.is_decimal(kind):
        return [None if one is None else float(one) for one in part.to_pylist()]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return list(part.to_pylist())  # of spans
    if pa.types.is_dictionary(kind):
        used = pc.unique(part.indices)
        values = extract_fields(part.dictionary.take(used), 0, len(used), extract)
        by_index = dict(zip(used.to_pylist(), values, strict=True))
        return [by_index[index] for index in part.indices.to_pylist()]
    return extract_ids(array, start, num_rows, extract)


def _is_uuid(kind: pa.DataType) -> bool:
    # By its name: pyarrow 17 has no such type.
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid"


def _spell_float(value: float, width: Callable[[float], Any], kind: pa.DataType) -> Any:
    if not math.isfinite(value):
        return NoText(f"{kind} with {value}")
    return str(int(value)) if value.is_integer() and abs(value) < _WHOLE else str(width(value))


def _spell_time(value: int, kind: Any) -> Any:
    digits = _DIGITS[kind.unit]
    seconds, part = divmod(value, 10**digits)
    try:
        moment = _EPOCH + datetime.timedelta(seconds=seconds)
    except OverflowError:
        return NoText(f"{kind} with {value}")
    fraction = f".{part:0{digits}d}" if digits else ""
    return f"{moment.isoformat()}{fraction}{'Z' if kind.tz else ''}"
