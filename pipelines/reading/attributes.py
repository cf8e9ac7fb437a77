"""Fields that tables beside the inputs hold: the row of each document, by its id, or by its source and ordinal.

Before [[map]], which sees these fields (input_range.settle_batch). A table may have more rows than there are documents.

Memory: a process that reads documents keeps the tables in unnamed files of its folder for temporary files, mapped into
memory: of each row the fields that are looked at, 16 bytes of a digest of its key, and its number. What is not being
read there costs none. While they are sorted, digests and numbers take about 60 bytes of memory a row.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import hashlib
import mmap
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tokcore.errors import StageError
from tokcore.files.shortage import raise_shortage
from tokcore_pipelines.reading.records import (
    BAD,
    EXPECTED,
    Batch,
    Reject,
    make_printable,
    reject_documents,
    to_id,
    to_value,
)
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.plan import Attributes, AttributesFile, ReadSettings

KEY_COLUMNS = {"id": ("id",), "ordinal": ("source", "ordinal")}
_ROWS = 1 << 16  # that are taken from a table at a time
_DIGEST_BYTES = 16
Numbers = npt.NDArray[np.int64]
_loading = threading.Lock()  # `tokcore check` reads in several threads


class Table(NamedTuple):
    """All rows of the tables. Keys are in the order of their digests, fields in the order of the rows."""

    heads: npt.NDArray[np.uint64]  # of the digests of keys, ascending
    tails: npt.NDArray[np.uint64]
    rows: Numbers  # of each digest
    parts: tuple[pa.RecordBatch, ...]  # the fields, in the order of rows
    bounds: Numbers  # the first row of each part, and the end of the last

    def find(self, digests: bytes) -> Numbers:
        """The row of each key, -1 if there is none. digests: back to back."""
        heads, tails = _split(digests)
        found = np.full(len(heads), -1, np.int64)
        lows, highs = (np.searchsorted(self.heads, heads, side) for side in ("left", "right"))
        for i in np.flatnonzero(lows < highs).tolist():
            low, high = lows[i], highs[i]
            at = low + int(np.searchsorted(self.tails[low:high], tails[i]))
            if at < high and self.tails[at] == tails[i]:
                found[i] = self.rows[at]
        return found

    def take(self, rows: Numbers, name: str) -> list[Any]:
        """The values of a field in these rows; None for row -1."""
        values: list[Any] = [None] * len(rows)
        order = np.argsort(rows, kind="stable")
        of_part = np.searchsorted(self.bounds, rows[order], side="right") - 1
        for part in np.unique(of_part).tolist():
            if part >= 0:
                where = order[of_part == part]
                column = self.parts[part].column(name).take(pa.array(rows[where] - self.bounds[part]))
                for i, value in zip(where.tolist(), column.to_pylist(), strict=True):
                    values[i] = value
        return values


def join_attributes(batch: Batch, settings: ReadSettings, url: str, start: int) -> Batch:
    """The batch with the fields that its tables hold. url, start: the file and first byte of its range.

    Rejected are documents without a row, if the build file says so (missing_row), and those whose value is of another
    type (bad_field). Raises StageError for a table that is not the one of the plan, and for a missing row if that is
    an error.
    """
    told = settings.attributes
    assert told is not None
    table = load_table(told)
    keys = batch.ids or [] if told.join == "id" else [_spell_place(url, start + one) for one in batch.ordinals.tolist()]
    rows = table.find(b"".join(map(digest_key, keys)))
    rejects: dict[int, Reject] = {}
    for i in np.flatnonzero(rows < 0).tolist() if told.missing != "default" else ():
        by = f"id {make_printable(keys[i].encode(errors='replace'))}" if told.join == "id" else "its place"
        detail = f"the tables of metadata.attributes have no row for {by}"
        if told.missing == "error":
            raise StageError(
                f"{redact(url)}, record {batch.ordinals[i]} of the range from byte {start}: {detail}. Add the row, or "
                f'write missing = "default" or missing = "reject"'
            )
        rejects[i] = _reject(batch, i, "missing_row", detail)
    fields = dict(batch.fields)
    kinds = {one.name: one.kind for one in settings.fields}
    for name in told.fields:
        values = [to_value(one, kinds[name], False) for one in table.take(rows, name)]
        fields[name] = values
        for i in (i for i, value in enumerate(values) if value is BAD):
            detail = f"field {make_printable(name.encode())} of metadata.attributes: {EXPECTED[kinds[name]]}"
            rejects.setdefault(i, _reject(batch, i, "bad_field", detail))
    # In the order of settings.fields, as readers give them.
    return reject_documents(batch._replace(fields={name: fields[name] for name in kinds}), rejects)


def _reject(batch: Batch, i: int, reason: str, detail: str) -> Reject:
    return Reject(int(batch.ordinals[i]), reason, detail, make_printable(batch.texts.text(i)))


def load_table(attributes: Attributes) -> Table:
    """All rows of tables whose files are absolute; once a process.

    Raises StageError for a file that cannot be read, is not the one that was pinned, or lacks a column; for a row
    whose key is none, and for two rows of one document.
    """
    with _loading:
        return _load_table(attributes)


@functools.lru_cache(maxsize=2)
def _load_table(attributes: Attributes) -> Table:
    digests: list[bytes] = []
    ends = [0]  # of parts
    starts: list[int] = []  # of files
    schema: pa.Schema | None = None
    with tempfile.TemporaryFile() as stored:
        for file in attributes.files:
            if storage.compute_sha256(file.uri) != file.sha256:
                raise StageError(f"{redact(file.uri)}: its content is not what it was when the build was planned")
            starts.append(ends[-1])
            for found, fields in _read_rows(file, attributes):
                if schema is None:
                    schema = fields.schema
                    writer = pa.ipc.new_file(stored, schema)
                try:
                    writer.write_batch(fields.cast(schema))
                except pa.ArrowInvalid as error:
                    raise StageError(
                        f"{redact(file.uri)}: a column is not of the type that it has before: {error}"
                    ) from error
                digests.append(found)
                ends.append(ends[-1] + len(fields))
        if schema is None:
            none = np.zeros(0, np.uint64)
            return Table(none, none, np.zeros(0, np.int64), (), np.zeros(1, np.int64))
        writer.close()
        reader = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(_map(stored))))
        parts = tuple(reader.get_batch(i) for i in range(reader.num_record_batches))
    heads, tails = _split(b"".join(digests))
    digests.clear()
    rows = np.lexsort((tails, heads))
    heads, tails = heads[rows], tails[rows]
    same = np.flatnonzero((heads[1:] == heads[:-1]) & (tails[1:] == tails[:-1]))
    if len(same):
        one, other = (_name_row(attributes, starts, int(row)) for row in sorted(rows[same[0] : same[0] + 2]))
        raise StageError(f"{other}: is of the same document as {one}: leave one of the two rows")
    return Table(_store(heads), _store(tails), _store(rows), parts, np.array(ends, np.int64))


def _read_rows(file: AttributesFile, attributes: Attributes) -> Iterator[tuple[bytes, pa.RecordBatch]]:
    """(digests of keys back to back, the fields) of some rows of a table at a time, in their order."""
    shown = redact(file.uri)
    key_columns = KEY_COLUMNS[attributes.join]
    num = 0
    with open_table(file.uri) as table:
        require_columns(table.schema_arrow, [*key_columns, *attributes.fields], shown)
        for batch in table.iter_batches(_ROWS, columns=[*dict.fromkeys((*key_columns, *attributes.fields))]):
            columns = [batch.column(name).to_pylist() for name in key_columns]
            keys = [_make_key(attributes, key) for key in zip(*columns, strict=True)]
            if None in keys:
                raise StageError(
                    f"{shown}: row {num + keys.index(None)}: {' and '.join(key_columns)}: no document can have that key"
                )
            yield b"".join(digest_key(key) for key in keys if key is not None), batch.select([*attributes.fields])
            num += len(keys)


@contextlib.contextmanager
def open_table(url: str) -> Iterator[pq.ParquetFile]:
    """A Parquet file. Raises StageError for one that cannot be read as such, also while it is read."""
    with storage.open_read(url) as file:
        try:
            yield pq.ParquetFile(file, pre_buffer=False, page_checksum_verification=True)
        except pa.ArrowException as error:
            raise_shortage(error)
            raise StageError(f"{redact(url)}: cannot be read as Parquet: {error}") from error


def require_columns(schema: pa.Schema, names: Sequence[str], shown: str) -> None:
    """Raise StageError for a column that is not there once. shown: the table, for messages."""
    for name in names:
        if (num := schema.names.count(name)) != 1:
            found = "there is no column" if not num else f"{num} columns are called"
            raise StageError(f"{shown}: {found} {name!r}. It has {', '.join(map(repr, schema.names)) or 'none'}.")


def _make_key(attributes: Attributes, key: tuple[Any, ...]) -> str | None:
    if attributes.join == "id":
        return to_id(key[0])
    source, ordinal = key
    if not isinstance(source, str) or not isinstance(ordinal, int):
        return None
    return _spell_place(urls.resolve_name(attributes.base, source), ordinal)


def _spell_place(url: str, ordinal: int) -> str:
    return f"{ordinal} {url}"


def digest_key(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()[:_DIGEST_BYTES]


def _split(digests: bytes) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    halves = np.frombuffer(digests, ">u8").reshape(-1, 2).astype(np.uint64)
    return halves[:, 0], halves[:, 1]


def _name_row(attributes: Attributes, starts: Sequence[int], row: int) -> str:
    number = bisect.bisect_right(starts, row) - 1
    return f"{redact(attributes.files[number].uri)}: row {row - starts[number]}"


def _store(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same numbers in a mapped file, which needs no memory while nothing looks there."""
    with tempfile.TemporaryFile() as stored:
        stored.write(values.tobytes())
        return np.frombuffer(_map(stored), values.dtype)


def _map(stored: BinaryIO) -> mmap.mmap:
    stored.flush()
    return mmap.mmap(stored.fileno(), 0, access=mmap.ACCESS_READ)
