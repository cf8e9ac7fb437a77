"""Pieces files: which part of which document is where in the rows of a packed shard.

    row: int64   shard: string   document: int64   start: int64   length: int64
    id: string (or null)   lang: string   source: string   ordinal: int64

A line for each piece, a part of a document in one row, in order. No format owns it: a packed shard has one pieces file,
`pieces/[LANG/]NAME.pieces`, an Arrow file. What a row has beyond its pieces is padding. A piece whose document is -1 is
padding, too: what is there was taken down, and only its length is left.
"""

from __future__ import annotations

import hashlib
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tokcore.errors import FormatError
from tokcore.formats.arrow_columns import EvenWriter, RecordBatches
from tokcore.formats.files_beside_shards import find_beside
from tokcore.shards.labels import Labels, join_labels, label_arrow, repeat_label
from tokcore.shards.token_batch import Offsets, pack_labels, pack_strings

FOLDER = "pieces"  # beside the folders of formats
SUFFIX = ".pieces"

_FIELDS = (
    pa.field("row", pa.int64(), nullable=False),
    pa.field("shard", pa.string(), nullable=False),
    pa.field("document", pa.int64(), nullable=False),
    pa.field("start", pa.int64(), nullable=False),
    pa.field("length", pa.int64(), nullable=False),
    pa.field("id", pa.string()),
    pa.field("lang", pa.string(), nullable=False),
    pa.field("source", pa.string(), nullable=False),
    pa.field("ordinal", pa.int64(), nullable=False),
)
_VERSION_KEY, _VERSION = b"tokcore.format_version", b"1"
_LENGTH_KEY = b"tokcore.length"
_PREFIX = b"tokcore-pieces-v1"


class Pieces(NamedTuple):
    """n pieces in the order of rows. Integers are int64.

    rows: the number of each piece's row. shards: the document's shard, [LANG/]SPLIT-ITEM-SHARD. documents: its number
    there, -1 if it was taken down in place. starts, lengths: its first id in the document, and its ids. ids, langs,
    sources, ordinals: of the document, as its shard has them.
    """

    rows: Offsets
    shards: Labels
    documents: Offsets
    starts: Offsets
    lengths: Offsets
    ids: list[str | None]
    langs: Labels
    sources: Labels
    ordinals: Offsets

    @property
    def num_rows(self) -> int:
        """Of a whole shard. Each row has pieces."""
        return int(self.rows[-1]) + 1 if len(self.rows) else 0

    @property
    def are_gaps(self) -> npt.NDArray[np.bool_]:
        """Whether each piece is padding in the place of a document that was taken down."""
        return self.documents < 0

    def find_places(self, length: int) -> tuple[Offsets, Offsets]:
        """Where each piece begins and ends, in ids from the first row's begin. length: ids of a full row."""
        ends = np.cumsum(self.lengths)
        firsts = np.searchsorted(self.rows, np.arange(self.num_rows))  # pieces of rows follow each other
        ends += self.rows * length - (ends - self.lengths)[firsts][self.rows]
        return ends - self.lengths, ends

    def slice(self, start: int, end: int) -> Pieces:
        """Pieces start to end, end excluded."""
        return Pieces(*(column[start:end] for column in self))  # type: ignore[arg-type]

    def find_bounds(self, num_rows: int, length: int) -> tuple[Offsets, Offsets]:
        """Where ids of documents end in rows 0 to num_rows of `length` ids: how many in each row, and the places.

        A place is counted in ids from the first row's begin. A row that is full ends with its last id, which is left
        out: the places are strictly within rows, each once.
        """
        ends = np.cumsum(self.lengths)
        first = np.searchsorted(self.rows, np.arange(num_rows + 1))
        before = np.concatenate([np.zeros(1, np.int64), ends])[first[:-1]]
        places = ends - before[self.rows] + self.rows * length
        inside = (self.lengths > 0) & (places < (self.rows + 1) * length)
        return np.bincount(self.rows[inside], minlength=num_rows), places[inside]


def get_pieces_path(stem: str) -> str:
    """Path of the pieces file of a packed shard, below the folder of all of them.

    >>> get_pieces_path("en/train-00003-00001")
    'pieces/en/train-00003-00001.pieces'
    """
    return f"{FOLDER}/{stem}{SUFFIX}"


class PiecesWriter:
    """Writes the pieces file of one shard to an open binary file; close() ends its content, not the file."""

    def __init__(self, file: BinaryIO, length: int, compression: str) -> None:
        """length: ids of a full row. compression: zstd (level 1), lz4 or none."""
        metadata = {_VERSION_KEY: _VERSION, _LENGTH_KEY: b"%d" % length}
        self._writer = EvenWriter(file, pa.schema(list(_FIELDS), metadata=metadata), compression)
        self._content = _Content(length)

    def write(self, pieces: Pieces) -> None:
        """Append pieces."""
        self._content.update(pieces)
        arrays = [
            pa.array(pieces.rows, pa.int64()),
            pieces.shards.to_arrow(),
            *(pa.array(column, pa.int64()) for column in (pieces.documents, pieces.starts, pieces.lengths)),
            pa.array(pieces.ids, pa.string()),
            pieces.langs.to_arrow(),
            pieces.sources.to_arrow(),
            pa.array(pieces.ordinals, pa.int64()),
        ]
        self._writer.write(arrays)

    def close(self) -> str:
        """Write what waits, and the footer; return the sha256 of the content, whatever the codec."""
        self._writer.close()
        return self._content.hexdigest()


class _Content:
    """The sha256 of the prefix, the length of rows, and the sha256 of each column."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._columns = [hashlib.sha256() for _ in Pieces._fields]

    def update(self, pieces: Pieces) -> None:
        for hasher, column in zip(self._columns, pieces, strict=True):
            if isinstance(column, Labels):
                hasher.update(pack_labels(column))
            elif isinstance(column, list):
                hasher.update(pack_strings(column))
            else:
                hasher.update(np.ascontiguousarray(column, "<i8").tobytes())

    def hexdigest(self) -> str:
        told = _PREFIX + self._length.to_bytes(8, "little")
        return hashlib.sha256(told + b"".join(column.digest() for column in self._columns)).hexdigest()


class PiecesFile:
    """One pieces file, memory-mapped. length: ids of a full row."""

    def __init__(self, path: str) -> None:
        """Raises FormatError if it is not a pieces file."""
        self.path = path
        self._batches = RecordBatches(path)
        schema = self._batches.schema
        told = schema.metadata or {}
        length = told.get(_LENGTH_KEY, b"")
        if told.get(_VERSION_KEY) != _VERSION or not schema.equals(pa.schema(list(_FIELDS))) or not length.isdigit():
            raise FormatError(f"{path}: not a pieces file: its columns are {schema.names}")
        self.length = int(length)

    def read(self) -> Pieces:
        """All pieces. Raises FormatError unless each row has some, in order, that fit into it."""
        parts = [self._read_batch(number) for number in range(len(self._batches))]
        pieces = join_pieces(parts)
        rows, lengths = pieces.rows, pieces.lengths
        steps = np.diff(rows, prepend=-1)
        if len(wrong := np.flatnonzero((rows < 0) | (steps < 0) | (steps > 1) | (lengths < 0))):
            i = int(wrong[0])
            raise FormatError(f"{self.path}: piece {i} is damaged: {int(lengths[i])} ids in row {int(rows[i])}")
        sums = np.bincount(rows, lengths) if len(rows) else np.zeros(0)
        if len(too_long := np.flatnonzero(sums > self.length)):
            raise FormatError(f"{self.path}: row {int(too_long[0])} has more than {self.length} ids")
        return pieces

    def hash_content(self) -> str:
        """What close() of the writer returned."""
        content = _Content(self.length)
        for number in range(len(self._batches)):
            content.update(self._read_batch(number))
        return content.hexdigest()

    def _read_batch(self, number: int) -> Pieces:
        row, shard, document, start, length, id, lang, source, ordinal = self._batches.decoded(number).columns

        def read(column: pa.Array) -> npt.NDArray[np.int64]:
            numbers: npt.NDArray[np.int64] = column.to_numpy(zero_copy_only=True)
            return numbers

        return Pieces(
            read(row),
            label_arrow(shard),
            read(document),
            read(start),
            read(length),
            id.to_pylist(),
            label_arrow(lang),
            label_arrow(source),
            read(ordinal),
        )


def join_pieces(parts: list[Pieces]) -> Pieces:
    """The pieces of several, in order."""
    if not parts:
        none, no_name = np.zeros(0, np.int64), repeat_label("", 0)
        return Pieces(none, no_name, none, none, none, [], no_name, no_name, none)
    columns: list[object] = []
    for column in zip(*parts, strict=True):
        if isinstance(column[0], Labels):
            columns.append(join_labels(column))
        elif isinstance(column[0], list):
            columns.append([value for part in column for value in part])
        else:
            columns.append(np.concatenate(column))
    return Pieces(*columns)  # type: ignore[arg-type]


def find_pieces(path: str, suffixes: tuple[str, ...]) -> PiecesFile | None:
    """The pieces file of the packed shard at path; None if there is none. suffixes: as for find_documents."""
    found = find_beside(path, suffixes, FOLDER, SUFFIX)
    return PiecesFile(found) if found is not None else None
