"""Ids as callers give them: lists, arrays, batches of both."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from tokcore.kernel import Ids
from tokcore.text.texts import Offsets


def list_integers(ids: Any) -> list[int]:
    """The ids as a list of int, of any size.

    ids: a list, numpy array or Arrow array, or a row of an Arrow list array. Raises TypeError, naming the first value
    that is no integer and its position.
    """
    if isinstance(ids, pa.ListScalar | pa.LargeListScalar):
        ids = ids.values
    if isinstance(ids, pa.Array | pa.ChunkedArray):
        ids = ids.to_numpy() if isinstance(ids, pa.ChunkedArray) else ids.to_numpy(zero_copy_only=False)
    if isinstance(ids, np.ndarray):
        if ids.ndim != 1:
            raise TypeError(f"ids of shape {ids.shape}: expected one dimension. Decode row by row.")
        if ids.size and ids.dtype.kind not in "iu":
            raise TypeError(f"ids[0] = {ids[0]!r}: expected an integer, found an array of {ids.dtype}")
        listed: list[int] = ids.tolist()
        return listed
    if not isinstance(ids, Iterable):
        raise TypeError(f"ids = {ids!r:.80}: expected a list of integers, found {type(ids).__name__}")
    values = list(ids)
    if set(map(type, values)) <= {int}:
        return values
    for i, value in enumerate(values):
        try:
            values[i] = int(operator.index(value))
        except TypeError as error:
            found = repr(value)[:80]
            raise TypeError(f"ids[{i}] = {found}: expected an integer, found {type(value).__name__}") from error
    return values


def read_ids(ids: Any) -> list[int] | Ids:
    """The ids of an array as int32, of anything else, and of one whose values are beyond that, as list_integers().

    Raises TypeError as that does.
    """
    values = ids.values if isinstance(ids, pa.ListScalar | pa.LargeListScalar) else ids
    if isinstance(values, pa.Array | pa.ChunkedArray):
        is_chunked = isinstance(values, pa.ChunkedArray)
        values = values.to_numpy() if is_chunked else values.to_numpy(zero_copy_only=False)
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in "iu":
        return list_integers(values)
    return as_int32(values) if is_int32(values) else list_integers(values)


def is_int32(values: Any) -> bool:
    """Whether all values of an array of integers can be int32."""
    limits = np.iinfo(np.int32)
    return (
        np.can_cast(values.dtype, np.int32)
        or not values.size
        or (limits.min <= int(values.min()) and int(values.max()) <= limits.max)
    )


def as_int32(values: Any) -> Ids:
    """The same values, one after the other, as int32."""
    return np.ascontiguousarray(values, np.int32)


def read_rows(batch: Any) -> tuple[Ids, Offsets] | None:
    """(ids, offsets) of a batch that is one array: row i is ids[offsets[i]:offsets[i + 1]]. None for any other.

    Raises TypeError and ValueError as list_rows_of_ids does.
    """
    if isinstance(batch, pa.ChunkedArray):
        batch = batch.combine_chunks()
    if isinstance(batch, pa.Array) and (pa.types.is_list(batch.type) or pa.types.is_large_list(batch.type)):
        if batch.null_count:
            raise ValueError(f"batch[{batch.is_null().index(True).as_py()}] is null: drop or fill nulls first")
        values, offsets = batch.values, batch.offsets.to_numpy().astype(np.int64)
        if not pa.types.is_integer(values.type) or values.null_count:
            return None
        ids = values.to_numpy()
    elif isinstance(batch, np.ndarray) and batch.ndim == 2 and batch.dtype.kind in "iu":
        ids, offsets = batch.reshape(-1), np.arange(batch.shape[0] + 1, dtype=np.int64) * batch.shape[1]
    else:
        return None
    return (as_int32(ids), offsets) if is_int32(ids) else None


def list_rows_of_ids(batch: Any) -> list[Any]:
    """The rows of a batch, each as list_integers() takes it.

    batch: a list of lists or arrays, a numpy array of two dimensions, or an Arrow list array. Raises TypeError for
    other Arrow arrays, and ValueError for a null, naming its position.
    """
    if not isinstance(batch, pa.Array | pa.ChunkedArray):
        if not isinstance(batch, Iterable):
            raise TypeError(f"expected a list of lists of ids, found {type(batch).__name__}")
        return list(batch)
    if not (pa.types.is_list(batch.type) or pa.types.is_large_list(batch.type)):
        raise TypeError(f"expected an Arrow list array, found {batch.type}: decode takes the ids of one text")
    rows = list(batch)
    for i, row in enumerate(rows):
        if not row.is_valid:
            raise ValueError(f"batch[{i}] is null: drop or fill nulls first")
    return rows
