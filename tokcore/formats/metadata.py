"""Metadata: columns of the user's own beside each document, of the types that [metadata] of a build file may name.

They are in Arrow and Parquet shards, after the columns of ours, and in documents files. Counts, ids and the digests of
documents do not depend on them; the digest of a shard's content does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Told = Sequence[tuple[str, str]]  # (name, type) of each column, in the order of names

TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
}
# Columns of shards, of files beside them, and of what [[map]] is given.
RESERVED = frozenset(
    {"id", "lang", "source", "ordinal", "length", "tokens", "input_ids", "place", "record", "text", "reject"}
)
_LENGTH = struct.Struct("<q")


def make_metadata_fields(told: Told) -> list[pa.Field]:
    """The columns, each of which may hold nulls.

    >>> make_metadata_fields([("quality", "float32")])
    [pyarrow.Field<quality: float>]
    """
    return [pa.field(name, TYPES[kind]) for name, kind in told]


def fits_integer(value: int, kind: str) -> bool:
    """Whether a number is in the range of an integer type.

    >>> fits_integer(2**31, "int32"), fits_integer(2**31, "int64")
    (False, True)
    """
    bits = int(kind.removeprefix("int"))
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def tell_fields(fields: Sequence[pa.Field]) -> Told | None:
    """The other way round; None if a column is of another type.

    >>> import pyarrow as pa
    >>> tell_fields([pa.field("quality", pa.float32())]), tell_fields([pa.field("when", pa.date32())])
    ((('quality', 'float32'),), None)
    """
    names = {kind: name for name, kind in TYPES.items()}
    if any(field.type not in names for field in fields):
        return None
    return tuple((field.name, names[field.type]) for field in fields)


def fit_metadata(metadata: pa.RecordBatch | None, told: Told, num: int) -> pa.RecordBatch | None:
    """The metadata of num documents in these columns: null where it has none of a column. None if told is empty."""
    fields = make_metadata_fields(told)
    if not fields or (metadata is not None and metadata.schema.equals(pa.schema(fields))):
        return metadata if fields else None
    known = {} if metadata is None else dict(zip(metadata.schema.names, metadata.columns, strict=True))
    columns = [known.get(field.name, pa.nulls(num, field.type)) for field in fields]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def count_chars(metadata: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The bytes of each document's texts: int64."""
    import pyarrow.compute as pc  # takes long, and few outputs have metadata

    total = np.zeros(metadata.num_rows, np.int64)
    for column in metadata.columns:
        if pa.types.is_string(column.type):
            total += pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    return total


def pack_values(column: pa.Array) -> Iterator[bytes]:
    """What digests take of a column: which values are there, a byte each; then the values, 0 or empty where none is.

    Of texts the lengths (int64), and the UTF-8. Integers and floats little-endian, truth values a byte each.
    """
    yield column.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8).tobytes()
    if pa.types.is_string(column.type):
        texts = [(one or "").encode() for one in column.to_pylist()]
        yield b"".join(_LENGTH.pack(len(one)) for one in texts)
        yield b"".join(texts)
        return
    values = column.fill_null(pa.scalar(0).cast(column.type)).to_numpy(zero_copy_only=False)
    yield values.astype(values.dtype.newbyteorder("<")).tobytes()
