"""Provenance files: which record each document of a shuffled shard came from, and where the shuffle put it.

    source: string   ordinal: int64   place: fixed_size_binary(16)

Shards in plan order hold source and ordinal themselves. In a shuffled build nothing else in a shard would depend on how
the inputs are cut and named. So these columns have a file of their own: `provenance/[LANG/]NAME.provenance`, an Arrow
file, one row per document. In the shard itself source is empty, and ordinal is the number of the document there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tokcore.errors import FormatError
from tokcore.formats.arrow_columns import EvenWriter, RecordBatches
from tokcore.formats.files_beside_shards import find_beside
from tokcore.shards.labels import Labels, label_arrow, repeat_label
from tokcore.shards.token_batch import Offsets, TokenBatch

FOLDER = "provenance"  # beside the folders of formats
SUFFIX = ".provenance"
PLACE_BYTES = 16

Places = npt.NDArray[np.uint8]  # (documents, PLACE_BYTES)

_FIELDS = (
    pa.field("source", pa.string(), nullable=False),
    pa.field("ordinal", pa.int64(), nullable=False),
    pa.field("place", pa.binary(PLACE_BYTES), nullable=False),
)
_VERSION_KEY, _VERSION = b"tokcore.format_version", b"1"
_PREFIX = b"tokcore-provenance-v1"


def get_provenance_path(stem: str) -> str:
    """Path of the provenance file of a shard, below the folder of all shards.

    >>> get_provenance_path("en/train-00003-00001")
    'provenance/en/train-00003-00001.provenance'
    """
    return f"{FOLDER}/{stem}{SUFFIX}"


def hide_provenance(batch: TokenBatch, first: int) -> TokenBatch:
    """The same documents as a shuffled shard has them: without source, and numbered. first: number of the first one."""
    num = batch.num_documents
    return batch._replace(sources=repeat_label("", num), ordinals=np.arange(first, first + num, dtype=np.int64))


class ProvenanceWriter:
    """Writes the provenance file of one shard to an open binary file; close() ends its content, not the file."""

    def __init__(self, file: BinaryIO, compression: str) -> None:
        """compression: zstd (level 1), lz4 or none."""
        schema = pa.schema(list(_FIELDS), metadata={_VERSION_KEY: _VERSION})
        self._writer = EvenWriter(file, schema, compression)
        self._hasher = hashlib.sha256(_PREFIX)

    def write(self, batch: TokenBatch, places: Places) -> None:
        """Append documents. places: where the shuffle put each of them."""
        arrays = [
            batch.sources.to_arrow(),
            pa.array(batch.ordinals, pa.int64()),
            pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(PLACE_BYTES), len(places), [None, pa.py_buffer(np.ascontiguousarray(places))]
            ),
        ]
        _add_to_hash(self._hasher, batch.sources, batch.ordinals, places)
        self._writer.write(arrays)

    def close(self) -> str:
        """Write what waits, and the footer; return the sha256 of the content, whatever the codec."""
        self._writer.close()
        return self._hasher.hexdigest()


class Provenance:
    """One provenance file, memory-mapped."""

    def __init__(self, path: str) -> None:
        """Raises FormatError if it is not a provenance file."""
        self.path = path
        self._batches = RecordBatches(path)
        schema = self._batches.schema
        if (schema.metadata or {}).get(_VERSION_KEY) != _VERSION or not schema.equals(pa.schema(list(_FIELDS))):
            raise FormatError(f"{path}: not a provenance file: its columns are {schema.names}")
        self.sources, self.ordinals, self.places = self._read()

    def __len__(self) -> int:
        return len(self.ordinals)

    def restore(self, batch: TokenBatch, first: int) -> TokenBatch:
        """Documents of the shard with the records that they came from. first: number of the first one in the shard.

        Raises FormatError if there are fewer here.
        """
        end = first + batch.num_documents
        if end > len(self):
            raise FormatError(f"{self.path}: {len(self)} documents, the shard has more")
        return batch._replace(sources=self.sources[first:end], ordinals=self.ordinals[first:end])

    def restore_all(self, batches: Iterator[TokenBatch]) -> Iterator[TokenBatch]:
        """All documents of the shard, as restore() gives them. Raises FormatError unless there are as many here."""
        first = 0
        for batch in batches:
            yield self.restore(batch, first)
            first += batch.num_documents
        if first != len(self):
            raise FormatError(f"{self.path}: {len(self)} documents, the shard has {first}")

    def hash_content(self) -> str:
        """What close() of the writer returned."""
        hasher = hashlib.sha256(_PREFIX)
        _add_to_hash(hasher, self.sources, self.ordinals, self.places)
        return hasher.hexdigest()

    def _read(self) -> tuple[Labels, Offsets, Places]:
        batches = [self._batches.decoded(number) for number in range(len(self._batches))]
        table = pa.Table.from_batches(batches, self._batches.schema).combine_chunks()
        if not len(table):
            return repeat_label("", 0), np.zeros(0, np.int64), np.zeros((0, PLACE_BYTES), np.uint8)
        source, ordinal, place = (column.chunk(0) for column in table.columns)
        data = np.frombuffer(place.buffers()[1], np.uint8)[place.offset * PLACE_BYTES :]
        places = data[: len(place) * PLACE_BYTES].reshape(-1, PLACE_BYTES)
        return label_arrow(source), ordinal.to_numpy(), places


def _add_to_hash(hasher: hashlib._Hash, sources: Labels, ordinals: Offsets, places: Places) -> None:
    for source, ordinal, place in zip(sources, ordinals.tolist(), places, strict=True):
        name = source.encode()
        hasher.update(b"%d %s%d %s" % (len(name), name, ordinal, place.tobytes()))


def find_provenance(path: str, suffixes: tuple[str, ...]) -> Provenance | None:
    """The provenance file of the shard at path, where a build has it; None if there is none.

    suffixes: possible ends of path that are not the shard's name.
    """
    found = find_beside(path, suffixes, FOLDER, SUFFIX)
    return Provenance(found) if found is not None else None
