"""What a step of [[map]] makes of a batch, checked: which documents stay, and as what. tokcore.plugins.map_step says
what it may do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tokcore.plugins.map_step import MapFunction

RECORD, TEXT, REJECT = "record", "text", "reject"
OWN = (RECORD, TEXT, "id", "lang", REJECT)  # columns that no field of the records can have
_NEEDED = (TEXT, "lang")  # that no document lacks
_REASON = re.compile("[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_MOST_PIECES = 7
# What pyarrow raises for a value that a type cannot hold, for a cast that it lacks, and for nulls in a view.
_CAST_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)

Rows = npt.NDArray[np.int64]


class MapFault(Exception):  # noqa: N818 - not an error yet: the caller adds the file, and raises StageError
    """A step failed, or returned what it may not. record: the number of the record at which it shows; None: of all."""

    def __init__(self, record: int | None, text: str) -> None:
        super().__init__(record, text)
        self.record, self.text = record, text


def apply_map(function: MapFunction, batch: pa.RecordBatch) -> pa.RecordBatch:
    """What a step makes of a batch: the columns of the batch and `reject`, a row for each document that it returns.

    Raises MapFault for an exception of the function, and for a result that is none.

    >>> import pyarrow as pa
    >>> batch = pa.record_batch({"record": [3, 4], "text": ["one", "two"]})
    >>> apply_map(lambda batch: batch.slice(1), batch).to_pylist()
    [{'record': 4, 'text': 'two', 'reject': None}]
    """
    try:
        made = function(batch)
    except Exception as error:
        raise _blame(function, batch, error) from error
    if isinstance(made, pa.Table):
        made = pa.RecordBatch.from_struct_array(pa.concat_arrays(made.to_struct_array().chunks or [_no_rows(made)]))
    if not isinstance(made, pa.RecordBatch):
        raise MapFault(None, f"returned a {type(made).__name__}: expected a pyarrow.RecordBatch")
    where = _find_rows(batch, made)
    columns = {name: batch.column(name).take(pa.array(where)) for name in batch.schema.names}
    for name in made.schema.names:
        if name not in (*columns, REJECT):
            raise MapFault(
                None, f"returned a column {name!r}: expected only {', '.join(columns)} and {REJECT}. Drop it."
            )
        if made.schema.names.count(name) > 1:
            raise MapFault(None, f"returned two columns {name!r}: expected one")
        if name != RECORD:
            kind = pa.string() if name == REJECT else batch.schema.field(name).type
            columns[name] = _convert(made, name, kind)
    columns.setdefault(REJECT, pa.nulls(made.num_rows, pa.string()))
    result = pa.record_batch(columns)
    _check_rows(result)
    return result


def _no_rows(table: pa.Table) -> pa.Array:
    return pa.array([], pa.struct(table.schema))


def _blame(function: MapFunction, batch: pa.RecordBatch, error: Exception) -> MapFault:
    """The fault of the first document that fails alone; of all, if each of them does not."""
    for i in range(batch.num_rows):
        try:
            function(batch.slice(i, 1))
        except Exception as one:
            return MapFault(batch.column(RECORD)[i].as_py(), f"{type(one).__name__}: {one}")
    return MapFault(None, f"{type(error).__name__}: {error} (of no document alone: it looks at others, too)")


def _find_rows(batch: pa.RecordBatch, made: pa.RecordBatch) -> Rows:
    """The row of the batch that each returned row is."""
    if RECORD not in made.schema.names:
        raise MapFault(None, f"returned no column {RECORD!r}, which says which document a row is: keep it")
    given = batch.column(RECORD).to_numpy()
    try:
        told = made.column(RECORD).cast(pa.int64()).to_numpy(zero_copy_only=True)
    except _CAST_ERRORS as error:
        raise MapFault(None, f"returned other values in the column {RECORD!r}: keep it as it is") from error
    where: Rows = np.searchsorted(given, told)
    unknown = given[np.minimum(where, len(given) - 1)] != told
    if unknown.any():
        raise MapFault(None, f"returned a row for record {told[unknown][0]}, of which the batch has none")
    late = np.flatnonzero(np.diff(told) <= 0)
    if len(late):
        raise MapFault(
            int(told[late[0] + 1]), "came twice, or out of order: return each row once, in the order of the batch"
        )
    return where


def _convert(made: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    column = made.column(name)
    try:
        converted = column.cast(kind)
        converted.validate(full=True)
        return converted
    except _CAST_ERRORS as error:
        for i in range(len(column)):
            try:
                column.slice(i, 1).cast(kind).validate(full=True)
            except _CAST_ERRORS:  # this row is one of those that cannot be cast
                record = made.column(RECORD)[i].as_py()
                raise MapFault(record, f"column {name!r}: expected {kind}, found another value ({error})") from error
        raise MapFault(None, f"column {name!r}: expected {kind}, found {column.type}") from error


def _check_rows(result: pa.RecordBatch) -> None:
    records = result.column(RECORD)
    for name in set(_NEEDED) & {*result.schema.names}:
        if (column := result.column(name)).null_count:
            at = column.is_null().index(pa.scalar(True)).as_py()
            raise MapFault(
                records[at].as_py(), f"column {name!r} is null: leave the row out, or give a reason in {REJECT!r}"
            )
    for reason in result.column(REJECT).unique().to_pylist():
        if reason is not None and _REASON.fullmatch(reason) is None:
            at = result.column(REJECT).index(pa.scalar(reason)).as_py()
            raise MapFault(
                records[at].as_py(),
                f"{REJECT} = {reason!r:.80}: expected one of few reasons, of letters, digits and _ . -",
            )


def cut_otherwise(batch: pa.RecordBatch, seed: int) -> list[pa.RecordBatch]:
    """The rows of a batch in other batches, in another order: what follows from each document alone stays the same.

    >>> import pyarrow as pa
    >>> parts = cut_otherwise(pa.record_batch({"record": [*range(100)]}), 7)
    >>> sorted(one for part in parts for one in part["record"].to_pylist()) == [*range(100)], len(parts)
    (True, 7)
    """
    chance = np.random.default_rng(seed)
    part_of = chance.integers(_MOST_PIECES, size=batch.num_rows)
    parts = (batch.take(pa.array(np.flatnonzero(part_of == part))) for part in chance.permutation(_MOST_PIECES))
    return [part for part in parts if part.num_rows]


def join_outcomes(outcomes: list[pa.RecordBatch]) -> pa.RecordBatch:
    """What apply_map gave of the parts of a batch as one, in the order of records."""
    table = pa.Table.from_batches(outcomes).sort_by(RECORD).combine_chunks()
    return next(iter(table.to_batches()), outcomes[0])


class Difference(NamedTuple):
    """A document that came out in two ways."""

    record: int
    one: str
    other: str


def find_difference(one: pa.RecordBatch, other: pa.RecordBatch) -> Difference | None:
    """The first document that two outcomes of the same batch differ in; None if they are equal, NaN to NaN.

    >>> import pyarrow as pa
    >>> find_difference(pa.record_batch({"record": [1, 2]}), pa.record_batch({"record": [2]}))
    Difference(record=1, one='kept', other='left out')
    """
    differing = set(_find_own_records(one, other)) | set(_find_own_records(other, one))
    if differing:
        record = min(differing)
        is_kept = record in one.column(RECORD).to_pylist()
        return Difference(record, *(("kept", "left out") if is_kept else ("left out", "kept")))
    for name in one.schema.names:
        if not one.column(name).equals(other.column(name)):
            values = (column.to_pylist() for column in (one.column(RECORD), one.column(name), other.column(name)))
            for record, a, b in zip(*values, strict=True):
                if repr(a) != repr(b):
                    return Difference(record, f"{name} = {a!r:.60}", f"{name} = {b!r:.60}")
    return None


def _find_own_records(one: pa.RecordBatch, other: pa.RecordBatch) -> Iterator[int]:
    ours, theirs = one.column(RECORD).to_numpy(), other.column(RECORD).to_numpy()
    return compress(ours.tolist(), ~np.isin(ours, theirs))
