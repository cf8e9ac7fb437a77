"""Token shards as Grain and MaxText read them: ArrayRecord files, one record for each document.

    .array_record   signature | a chunk for each record | footer | postscript
    record          a tf.train.Example with one feature, input_ids: a list of int64
    footer          a chunk of its own: metadata, then place and size of each record; padded to the end of a block
    postscript      the last block: the place of the footer, three times

Chunks and blocks are Riegeli's (tokcore.formats.riegeli). The bytes are those of array_record's own writer with the
options `group_size:1,uncompressed`. id, lang, source and ordinal are in the documents file. Layout:
google/array_record, cpp/layout.proto.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.errors import FormatError
from tokcore.formats.documents import Documents
from tokcore.formats.flat_ids import find_bounds_in, map_file, measure_file
from tokcore.formats.protobuf import write_field, write_head
from tokcore.formats.riegeli import (
    BLOCK_BYTES,
    CHUNK_HEAD_BYTES,
    fill_single,
    find_flat,
    find_place,
    frame_chunks,
    make_chunk,
    make_chunk_head,
    make_padding,
    make_signature,
    unframe_chunks,
)
from tokcore.formats.shard_format import ShardFormat, ShardSettings, ShardWithDocuments, check_ids, check_lengths
from tokcore.formats.varints import measure_varints, read_varints_at, spread_varints
from tokcore.shards.token_batch import Ids, Offsets, TokenBatch
from tokcore.text.texts import Bytes

SUFFIX = ".array_record"
FEATURE = b"input_ids"
DTYPE = "int32"  # that every id of an int64 list has room in
MAX_DOCUMENT_TOKENS = (2**31 - 128) // 5  # a message has at most 2^31 - 1 bytes, an id at most 5

_OPTIONS = b"group_size:1,transpose:false,pad_to_block_boundary:false,uncompressed,max_parallelism:1"
_VERSION = 1
_MAGIC = 0x71930E704FDAE05E
_COPIES = 3  # of what the postscript says
_STEP_BYTES = 1 << 22  # of records that are read at a time


class ArrayRecordShardWriter:
    """Writes one shard to an open binary file, records as they come; close() writes footer and postscript."""

    def __init__(self, file: BinaryIO, vocab_size: int) -> None:
        self._file = file
        self._vocab_size = vocab_size
        self._sizes: list[Offsets] = []  # of the records
        self._flat = CHUNK_HEAD_BYTES  # where the next chunk begins
        file.write(make_start())

    def write(self, batch: TokenBatch) -> None:
        """Append documents.

        Raises FormatError, before any of them is written, for an id outside of the vocabulary, or a document that no
        record has room for.
        """
        check_lengths(batch, MAX_DOCUMENT_TOKENS, ArrayRecordFormat.name)
        tokens = batch.tokens[batch.offsets[0] : batch.offsets[-1]]
        check_ids(tokens, self._vocab_size)
        chunks, starts, sizes = make_records(*kernel.pack_varints(tokens, batch.offsets - batch.offsets[0]))
        self._file.write(frame_chunks(chunks, starts, self._flat))
        self._flat += len(chunks)
        self._sizes.append(sizes)

    def close(self) -> None:
        """Write footer and postscript."""
        self._file.write(make_end(np.concatenate([np.zeros(0, np.int64), *self._sizes])))


def make_start() -> bytes:
    """What a file begins with, up to the first record."""
    return frame_chunks(make_signature(), np.array([0, CHUNK_HEAD_BYTES]), 0)


@functools.lru_cache(maxsize=1 << 16)
def make_record_head(num_bytes: int) -> tuple[bytes, int]:
    """(a chunk of one record up to the ids, the size of the record). num_bytes: of the ids as varints."""
    head = write_head(1, num_bytes) if num_bytes else b""  # an empty list is left out
    head = write_head(3, len(head) + num_bytes) + head  # a Feature's int64_list
    head = write_field(1, FEATURE) + write_head(2, len(head) + num_bytes) + head  # an entry of a map
    head = write_head(1, len(head) + num_bytes) + head  # the map
    head = write_head(1, len(head) + num_bytes) + head  # the Example's features
    size = len(head) + num_bytes
    return make_chunk_head(size) + head, size


def make_records(packed: Bytes, bounds: Offsets) -> tuple[Bytes, Offsets, Offsets]:
    """(chunks, starts, sizes): a chunk for each document; where each begins, and the last ends; sizes of the records.

    packed: ids as varints. bounds: int64[n + 1], where documents begin there.
    """
    places = bounds.tolist()
    parts: list[bytes | memoryview] = []
    heads, sizes = [], []
    view = packed.data
    for start, end in itertools.pairwise(places):
        head, size = make_record_head(end - start)
        parts += [head, view[start:end]]
        heads.append(len(head))
        sizes.append(size)
    chunks = np.frombuffer(bytearray().join(parts), np.uint8)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(heads, np.int64) + np.diff(bounds))])
    of_records = np.array(sizes, np.int64)
    fill_single(chunks, starts, of_records)
    return chunks, starts, of_records


def find_starts(sizes: Offsets) -> Offsets:
    """Where chunks of records of these sizes begin, and the last ends, in a file without block headers."""
    chunk_bytes = CHUNK_HEAD_BYTES + 2 + measure_varints(sizes) + sizes
    return CHUNK_HEAD_BYTES + np.concatenate([np.zeros(1, np.int64), np.cumsum(chunk_bytes)])


def make_end(sizes: Offsets) -> bytes:
    """Footer and postscript of a file of records of these sizes."""
    starts = find_starts(sizes)
    flat = int(starts[-1])
    metadata = write_field(1, _VERSION) + write_field(2, len(sizes)) + write_field(3, len(sizes))
    metadata = write_field(1, metadata + write_field(4, _OPTIONS))
    rows, row_sizes = _make_rows(find_place(starts[:-1]), sizes)
    first = np.frombuffer(metadata, np.uint8)
    footer = make_chunk(np.concatenate([first, rows]), np.concatenate([[len(first)], row_sizes]))
    told = write_field(1, int(find_place(starts[-1:])[0])) + write_field(2, _MAGIC)
    postscript = make_chunk(np.frombuffer(told * _COPIES, np.uint8), np.full(_COPIES, len(told)))
    chunks: list[Bytes] = []
    for chunk in (footer, postscript):
        chunks.append(chunk)
        chunks.append(make_padding(flat + sum(map(len, chunks))))
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(chunk) for chunk in chunks])])
    return frame_chunks(np.concatenate(chunks), ends, flat)


def _make_rows(places: Offsets, sizes: Offsets) -> tuple[Bytes, Offsets]:
    """(messages back to back, their sizes): for each record its place, its size, and that it is one."""
    columns = [_repeat(b"\x08", len(sizes)), spread_varints(places), _repeat(b"\x10", len(sizes))]
    columns += [spread_varints(sizes), _repeat(b"\x18\x01", len(sizes))]
    data = np.concatenate([bytes_of for bytes_of, _ in columns], axis=1)
    taken = np.concatenate([taken_of for _, taken_of in columns], axis=1)
    return data[taken], taken.sum(axis=1, dtype=np.int64)


def _repeat(data: bytes, num: int) -> tuple[Bytes, npt.NDArray[np.bool_]]:
    return np.tile(np.frombuffer(data, np.uint8), (num, 1)), np.ones((num, len(data)), bool)


class ArrayRecordIds:
    """The ids of one shard, memory-mapped; documents are copies. Safe to read from several threads.

    The footer is checked when the file is opened, records when they are read: they must be what the writer makes of
    their ids, byte for byte. So every hash is checked, too.
    """

    dtype = DTYPE
    mapped = None

    def __init__(self, path: str) -> None:
        """Raises FormatError unless start, footer and postscript are those of records of the footer's sizes."""
        self.path = path
        self._bytes: Bytes = map_file(path, np.uint8, 0, measure_file(path))
        self._sizes = self._read_sizes()
        self._starts = find_starts(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def num_tokens(self) -> int:
        return int(self._places[-1])

    def tokens(self, row: int) -> Ids:
        """int32 ids of a document, read-only."""
        return self._read(row, row + 1)[0]

    def lengths(self, start: int, end: int) -> Offsets:
        """Numbers of ids of documents start to end, end excluded. The first time, all records are read."""
        return np.diff(self._places)[start:end]

    def span(self, start: int, end: int) -> tuple[Ids, Offsets]:
        """Documents start to end, end excluded: their ids back to back, and their lengths."""
        return self._read(start, max(start, min(end, len(self))))

    def part(self, start: int, end: int) -> Ids:
        """int32 ids number start to end of all documents, end excluded; a copy."""
        if start >= end:
            return np.zeros(0, np.int32)
        first = int(np.searchsorted(self._places, start, side="right")) - 1
        last = int(np.searchsorted(self._places, end, side="left"))
        ids, _ = self.span(first, last)
        return ids[start - int(self._places[first]) : end - int(self._places[first])]

    def find_bounds(self, starts: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
        """Where documents end strictly within each part: how many, and the places."""
        return find_bounds_in(self._places, starts, ends)

    @functools.cached_property
    def _places(self) -> Offsets:
        """Where each document begins, in ids, and the last ends: only the records themselves can tell."""
        lengths, start = [np.zeros(1, np.int64)], 0
        while start < len(self):
            most = int(np.searchsorted(self._starts, self._starts[start] + _STEP_BYTES, side="right")) - 1
            end = max(start + 1, most)
            lengths.append(self._read(start, end)[1])
            start = end
        return np.cumsum(np.concatenate(lengths))

    def _read(self, start: int, end: int) -> tuple[Ids, Offsets]:
        """Documents start to end: their ids, and how many of each. Raises FormatError naming a wrong record."""
        if start >= end:
            return np.zeros(0, np.int32), np.zeros(0, np.int64)
        flat = int(self._starts[start])
        first, last = find_place(self._starts[[start, end]]).tolist()
        stored = self._bytes[first:last]
        chunks = unframe_chunks(stored, flat)
        sizes = self._sizes[start:end]
        starts = self._starts[start : end + 1] - flat
        num_bytes = np.array([self._find_num_bytes(start + i, size) for i, size in enumerate(sizes.tolist())], np.int64)
        ends = starts[1:]
        within = zip((ends - num_bytes).tolist(), ends.tolist(), strict=True)
        packed = np.concatenate([chunks[first_id:last_id] for first_id, last_id in within])
        bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(num_bytes)])
        expected, *_ = make_records(packed, bounds)
        if frame_chunks(expected, starts, flat) != stored.tobytes():
            raise self._describe(expected, chunks, starts, start)
        try:
            values, counts = kernel.unpack_varints(packed, bounds)
        except ValueError as error:
            raise FormatError(f"{self.path}: byte {first}: records {start} to {end - 1}: {error}") from error
        if int(values.max(initial=0)) > np.iinfo(DTYPE).max:
            wrong = int(np.argmax(values > np.iinfo(DTYPE).max))
            row = start + int(np.searchsorted(np.cumsum(counts), wrong, side="right"))
            raise FormatError(f"{self.path}: record {row}: id {int(values[wrong])}, more than {DTYPE} holds")
        ids: Ids = values.astype(np.int32)
        ids.flags.writeable = False
        return ids, counts

    def _describe(self, expected: Bytes, chunks: Bytes, starts: Offsets, first: int) -> FormatError:
        """What to say of chunks that are not as expected: chunks themselves, or only block headers between them."""
        wrong = np.flatnonzero(expected != chunks)
        if not len(wrong):
            return FormatError(f"{self.path}: records {first} to {first + len(starts) - 2}: a block header is wrong")
        i = int(np.searchsorted(starts, wrong[0], side="right")) - 1
        place = int(find_place(self._starts[first + i : first + i + 1])[0])
        return FormatError(
            f"{self.path}: byte {place}: record {first + i}: damaged, or no tf.train.Example of {FEATURE.decode()} "
            f"alone"
        )

    def _read_sizes(self) -> Offsets:
        """The sizes of the records, from the footer."""
        data, size = self._bytes, len(self._bytes)
        if size < 2 * BLOCK_BYTES or size % BLOCK_BYTES or data[: len(make_start())].tobytes() != make_start():
            raise FormatError(f"{self.path}: {size} bytes: not an ArrayRecord file, or cut off")
        try:
            footer = self._find_footer()
            sizes = _read_rows(unframe_chunks(data[footer:-BLOCK_BYTES], find_flat(footer)))
        except (ValueError, IndexError) as error:
            raise FormatError(f"{self.path}: not an ArrayRecord file of single records: {error}") from error
        starts = find_starts(sizes)
        if int(find_place(starts[-1:])[0]) != footer or make_end(sizes) != data[footer:].tobytes():
            raise FormatError(
                f"{self.path}: byte {footer}: its footer is damaged, or of other options than "
                f"group_size:1,uncompressed: write it again with these"
            )
        return sizes

    def _find_footer(self) -> int:
        """Where the postscript says that the footer begins."""
        postscript = unframe_chunks(self._bytes[-BLOCK_BYTES:], 0)
        (place,), _ = read_varints_at(postscript, np.array([CHUNK_HEAD_BYTES + 2 + _COPIES + 1]))
        if not 0 < int(place) <= len(self._bytes) - BLOCK_BYTES:
            raise ValueError(f"its footer would be at byte {place}")
        return int(place)

    def _find_num_bytes(self, row: int, size: int) -> int:
        """How many bytes of a record are ids."""
        if (found := find_num_bytes(size)) is None:
            raise FormatError(
                f"{self.path}: record {row} has {size} bytes: no tf.train.Example of {FEATURE.decode()} alone"
            )
        return found


@functools.lru_cache(maxsize=1 << 16)
def find_num_bytes(size: int) -> int | None:
    """How many bytes of a record of that size are ids, as varints; None if no record has that size.

    >>> find_num_bytes(make_record_head(300)[1])
    300
    """
    # What is before the ids takes at most 5 bytes more for as many ids as the record has bytes.
    least = max(0, 2 * size - make_record_head(size)[1])
    return next((num for num in range(least, least + 9) if make_record_head(num)[1] == size), None)


def _read_rows(footer: Bytes) -> Offsets:
    """The sizes of the records, from the footer's chunk. Raises ValueError or IndexError if it cannot be one."""
    (num_bytes,), (at,) = read_varints_at(footer, np.array([CHUNK_HEAD_BYTES + 1]))
    row_sizes, _ = kernel.unpack_varints(footer[at : at + num_bytes], np.array([0, num_bytes]))
    rows = at + num_bytes + np.cumsum(row_sizes)[:-1]  # after the metadata
    _, ends = read_varints_at(footer, rows + 1)
    return read_varints_at(footer, ends + 1)[0]


_USAGE = """\
ArrayRecord files, one `tf.train.Example` per document, with the feature `input_ids`.

```python
import glob, grain, tensorflow as tf

source = grain.sources.ArrayRecordDataSource(sorted(glob.glob("OUT/shards/array_record/train-*.array_record")))
example = tf.train.Example.FromString(source[0])
tokens = example.features.feature["input_ids"].int64_list.value
```

MaxText: `grain_file_type: arrayrecord`, `grain_train_files: OUT/shards/array_record/train-*.array_record`,
`tokenize_train_data: false`, `train_data_columns: ['input_ids']`.
"""


class ArrayRecordFormat(ShardFormat):
    """The ShardFormat of this file."""

    name = "array_record"
    suffixes = (SUFFIX,)
    reads_ranges = False  # only the records themselves say how many ids they have
    usage = _USAGE

    def dtype(self, settings: ShardSettings) -> str:
        return DTYPE

    def main_file(self, path: str) -> str | None:
        place = path if path.endswith(SUFFIX) else path + SUFFIX
        return place if Path(place).is_file() else None

    def open_writer(self, files: Sequence[BinaryIO], settings: ShardSettings) -> ArrayRecordShardWriter:
        (file,) = files
        return ArrayRecordShardWriter(file, settings.vocab_size)

    def open_reader(self, path: str, documents: Documents | None) -> ShardWithDocuments:
        return ShardWithDocuments(ArrayRecordIds(path), documents)
