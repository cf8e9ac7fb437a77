"""Texts in lists of a column: the path after a `[*]`, in Arrow's arrays.

See tokcore_schemas.field_path for what it means.

Nothing is flattened or copied before it is validated: offsets of lists are checked here, and the values at the end of
the path by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tokcore_pipelines.reading.records import FileRejected, LongText
from tokcore_schemas.field_path import EACH, JOINER, MAX_HINT_LENGTH, TEXT_NAMES, Step

_MOST_MEMBERS = 1 << 27  # that views may show, of a batch: any number of them may show the same


class _Lists(NamedTuple):
    """Lists in an array: list i has the members [starts[i], ends[i]) of the next array, if it is not null."""

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    is_valid: npt.NDArray[np.bool_]


class ListTexts:
    """The text of each row: what a path with lists in it finds, joined."""

    def __init__(
        self,
        array: pa.Array,
        steps: tuple[Step, ...],
        validate: Callable[[pa.Array], pa.Array],
        *,
        takes_views: bool = True,
    ) -> None:
        """validate: gives an array, checked in full. takes_views: whether views of lists are lists.

        Raises ValueError for offsets that are not sound.
        """
        self._is_valid = array.is_valid()  # of the rows
        self._levels: list[_Lists] = []
        self.is_text = True  # whether the path fits the types
        self._is_in_order = True  # whether members come in the order of their lists, as they do but in views
        for step in steps:
            array.validate()
            if step is EACH and _is_list(array.type) and (takes_views or not _is_view(array.type)):
                self._is_in_order &= not _is_view(array.type)
                self._levels.append(_flatten_lists(array))
                array = array.values
            elif step is not EACH and pa.types.is_struct(array.type):
                found = array.type.get_field_index(step) >= 0
                array = pc.struct_field(array, step) if found else pa.nulls(len(array))
            else:
                self.is_text = False
                break
        self._values = validate(array)
        self.nbytes = int(self._values.nbytes) + sum(int(level.starts.nbytes) for level in self._levels)

    def texts(
        self,
        start: int,
        num_rows: int,
        values_of: Callable[[pa.Array, int, int], list[Any]],
        limit: int,
        no_text: Any,
        joiner: str = JOINER,
    ) -> Iterator[Any]:
        """bytes, or None if a row has no text, or LongText, or no_text if what is there is none; one at a time.

        joiner: stands between the texts of a list.
        values_of: (array, start, number) -> bytes, or None for null, or anything else for what is no text.
        """
        if not self.is_text:
            yield from (no_text if ok else None for ok in self._is_valid.slice(start, num_rows).to_pylist())
            return
        if self._is_in_order:
            low, high = start, start + num_rows
            for level in self._levels:
                low, high = (int(level.starts[low]), int(level.ends[high - 1])) if low < high else (0, 0)
            found: Any = dict(enumerate(values_of(self._values, low, high - low), low))
        else:
            used = sorted({at for row in range(start, start + num_rows) for at in self._members(0, row)})
            taken = self._values.take(pa.array(used, pa.int64()))
            found = dict(zip(used, values_of(taken, 0, len(used)), strict=True))
        between = joiner.encode()
        for row in range(start, start + num_rows):
            parts = [found[at] for at in self._members(0, row)]
            parts = [part for part in parts if part is not None]
            if not all(isinstance(part, bytes) for part in parts):
                yield no_text
            elif not parts:
                yield None
            elif (size_bytes := sum(map(len, parts)) + len(between) * (len(parts) - 1)) > limit:
                yield LongText(size_bytes)
            else:
                yield between.join(parts)

    def _members(self, depth: int, at: int) -> Iterator[int]:
        if depth == len(self._levels):
            yield at
            return
        level = self._levels[depth]
        if level.is_valid[at]:
            for member in range(int(level.starts[at]), int(level.ends[at])):
                yield from self._members(depth + 1, member)


def suggest_path(kind: pa.DataType, name: str) -> str:
    """How to name the texts in a column that holds none itself: `messages[*].content`; "" if there are none."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return name
    if len(name) > MAX_HINT_LENGTH:
        return ""
    if _is_list(kind):
        return suggest_path(kind.value_type, f"{name}[*]")
    if pa.types.is_struct(kind):
        names = [kind.field(i).name for i in range(kind.num_fields)]
        for inner in sorted(names, key=lambda one: TEXT_NAMES.index(one) if one in TEXT_NAMES else len(TEXT_NAMES)):
            if hint := suggest_path(kind.field(inner).type, f"{name}.{inner}"):
                return hint
    return ""


def find_text_leaves(schema: Any, path: tuple[Step, ...]) -> list[str]:
    """The columns of a parquet file that hold the strings below a path with lists in it; none for another path.

    schema: of the parquet library, whose names of columns have parts of their own for lists.
    """
    if EACH not in path:
        return []
    columns = (schema.column(number) for number in range(len(schema)))
    start = ".".join(str(step) for step in path[: path.index(EACH)]) + "."
    return [one.path for one in columns if one.path.startswith(start) and one.physical_type == "BYTE_ARRAY"]


def _is_list(kind: pa.DataType) -> bool:
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(is_list or _is_view(kind))


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def _flatten_lists(array: pa.Array) -> _Lists:
    num = len(array)
    is_valid = np.asarray(array.is_valid().to_numpy(zero_copy_only=False), bool)
    if _is_view(array.type):
        return _flatten_views(array, is_valid)
    if pa.types.is_fixed_size_list(array.type):
        offsets = (np.arange(num + 1, dtype=np.int64) + array.offset) * array.type.list_size
    else:
        width = np.int64 if pa.types.is_large_list(array.type) else np.int32
        buffer = array.buffers()[1]
        if buffer is None or not num:
            return _Lists(np.zeros(num, np.int64), np.zeros(num, np.int64), is_valid)
        offsets = np.frombuffer(buffer, width)[array.offset : array.offset + num + 1].astype(np.int64)
    if len(offsets) != num + 1 or offsets[0] < 0 or offsets[-1] > len(array.values) or np.any(np.diff(offsets) < 0):
        raise ValueError("offsets of a list are out of range")
    return _Lists(offsets[:-1], offsets[1:], is_valid)


def _flatten_views(array: pa.Array, is_valid: npt.NDArray[np.bool_]) -> _Lists:
    width = np.int64 if pa.types.is_large_list_view(array.type) else np.int32
    at, end = array.offset, array.offset + len(array)
    starts, sizes = (
        np.frombuffer(buffer or b"", width)[at:end].astype(np.int64) * is_valid for buffer in array.buffers()[1:3]
    )
    if len(starts) != len(array) or len(sizes) != len(array):
        raise ValueError("a list view without its offsets")
    if np.any(starts < 0) or np.any(sizes < 0) or np.any(starts > len(array.values) - sizes):
        raise ValueError("a list view is out of range")
    if int(sizes.sum()) > _MOST_MEMBERS:
        raise FileRejected("over_limit", f"views of {int(sizes.sum())} members in a list of {len(array.values)}")
    return _Lists(starts, starts + sizes, is_valid)
