"""Ids as callers give them: lists, arrays, batches of both."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa


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
            values[i] = operator.index(value)
        except TypeError as error:
            found = repr(value)[:80]
            raise TypeError(f"ids[{i}] = {found}: expected an integer, found {type(value).__name__}") from error
    return values


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
