"""Token shards as Megatron's indexed datasets: `.bin` (ids, back to back) and `.idx`, one sequence per document.

    .bin   int32 ids, or uint16 where the build file says so
    .idx   9 bytes "MMIDIDX" 00 00 | uint64 version 1 | uint8 dtype code | uint64 sequences | uint64 documents + 1
           | int32 length of each sequence | int64 byte offset of each in .bin | int64 first sequence of each document,
           then the number of sequences                                             (integers little-endian)
    data_path.train, data_path.validation   arguments for --data-path: the tokens and the prefix of each shard

What the layout has no room for (id, lang, source, ordinal of each document) is in the documents file.
Layout: NVIDIA/Megatron-LM, megatron/core/datasets/indexed_dataset.py.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.errors import FormatError, VersionError
from tokcore.formats.documents import Documents
from tokcore.formats.flat_ids import (
    FlatIds,
    find_bounds_in,
    find_mapped,
    find_stored_dtype,
    map_file,
    map_ids,
    measure_file,
    open_headerless,
    read_start,
    require_dtype,
)
from tokcore.formats.shard_format import (
    IndexEntry,
    ShardFormat,
    ShardSettings,
    ShardWithDocuments,
    StoredShard,
    check_ids,
    check_lengths,
    count_most_ids,
)
from tokcore.shards.token_batch import Ids, Offsets, TokenBatch

MAGIC = b"MMIDIDX\x00\x00"
OLD_MAGIC = b"TNTIDX\x00\x00"
VERSION = 1
CODES = {"int32": 4, "uint16": 8}  # dtype codes
MAX_DOCUMENT_TOKENS = 2**31 - 1  # lengths are int32
MAX_TOKENS = 2**59  # more than any disk holds; byte offsets stay far from wrapping while they are checked
BIN, IDX = ".bin", ".idx"
DATA_PATH = "data_path."  # before the split
PREFIX = "_text_document"  # ends the name of a data set, as Megatron's own tool writes it

_HEADER = struct.Struct("<9sQBQQ")
_BLOCK = 1 << 20  # sequences that are checked together


class MegatronShardWriter:
    """Writes one shard to two open binary files; close() ends their content, not the files."""

    def __init__(self, bin_file: BinaryIO, idx_file: BinaryIO, settings: ShardSettings) -> None:
        self._bin = bin_file
        self._idx = idx_file
        self._dtype = settings.dtype
        self._vocab_size = settings.vocab_size
        self._lengths: list[Ids] = []

    def write(self, batch: TokenBatch) -> None:
        """Append documents.

        Raises FormatError, before any of them is written, for one that is too long; where ids get fewer bits, also
        for an id outside of the vocabulary.
        """
        check_lengths(batch, MAX_DOCUMENT_TOKENS, "an .idx file")
        tokens = batch.tokens[batch.offsets[0] : batch.offsets[-1]]
        if self._dtype != "int32":
            check_ids(tokens, min(self._vocab_size, count_most_ids(self._dtype)))
        self._bin.write(np.ascontiguousarray(tokens, find_stored_dtype(self._dtype)).view(np.uint8).data)
        self._lengths.append(np.diff(batch.offsets).astype("<i4"))

    def close(self) -> None:
        """Write the index."""
        self._idx.write(write_index(np.concatenate([np.zeros(0, "<i4"), *self._lengths]), self._dtype))


def write_index(lengths: Ids, dtype: str = "int32") -> bytes:
    """The .idx file of documents with these numbers of ids. dtype: of the ids.

    >>> len(write_index(np.array([3, 2], np.int32)))
    82
    """
    num = len(lengths)
    offsets = np.zeros(num + 1, "<i8")
    np.cumsum(lengths, out=offsets[1:], dtype="<i8")
    header = _HEADER.pack(MAGIC, VERSION, CODES[dtype], num, num + 1)
    starts = offsets[:-1] * find_stored_dtype(dtype).itemsize
    first_sequences = np.arange(num + 1, dtype="<i8")
    return header + lengths.astype("<i4").tobytes() + starts.tobytes() + first_sequences.tobytes()


class Index(NamedTuple):
    """Where each document of a .bin file begins, in bytes (int64), and its number of ids (int32, or int64 if joined).

    Both are views of the mapped .idx file, unless documents have several sequences. num_tokens: of all documents.
    dtype: of the ids in the .bin file.
    """

    offsets: Offsets
    lengths: npt.NDArray[Any]
    num_tokens: int
    dtype: str


class MegatronIds:
    """The ids of one shard, memory-mapped and checked before anything is used.

    Documents are views of the .bin file; where ids are uint16, copies. Safe to read from several threads.
    """

    def __init__(self, prefix: str, joins: bool = False) -> None:
        """prefix: path without .bin. joins: as for read_index.

        Raises FormatError naming file and place, VersionError for another version.
        """
        self.path = prefix + BIN
        self._index = read_index(prefix + IDX, joins)
        self.dtype = self._index.dtype
        stored = find_stored_dtype(self.dtype)
        self._width = stored.itemsize
        expected = self._width * self._index.num_tokens
        size = measure_file(self.path)
        if size != expected:
            raise FormatError(f"{self.path}: {size} bytes, its index accounts for {expected}")
        self._tokens = map_ids(self.path, stored, 0, self._index.num_tokens)

    def __len__(self) -> int:
        return len(self._index.lengths)

    @property
    def num_tokens(self) -> int:
        return self._index.num_tokens

    def tokens(self, row: int) -> Ids:
        """int32 ids of a document, read-only: a view of the mapped file, or a copy of uint16 ids."""
        start = int(self._index.offsets[row]) // self._width
        return self._as_int32(start, start + int(self._index.lengths[row]))

    def lengths(self, start: int, end: int) -> Offsets:
        """Numbers of ids of documents start to end, end excluded."""
        return self._index.lengths[start:end].astype(np.int64)

    def part(self, start: int, end: int) -> npt.NDArray[Any]:
        """Ids number start to end of all documents, end excluded: a view of the mapped file, of its dtype."""
        return self._tokens[start:end]

    @property
    def mapped(self) -> npt.NDArray[Any] | None:
        return find_mapped(self._tokens)

    def find_bounds(self, starts: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
        """Where documents end strictly within each part: how many, and the places."""
        counts, places = find_bounds_in(self._index.offsets, starts * self._width, ends * self._width)
        return counts, places // self._width

    def span(self, start: int, end: int) -> tuple[Ids, Offsets]:
        """Documents start to end, end excluded: their ids back to back, as of one document, and their lengths."""
        lengths = self.lengths(start, end)
        first = int(self._index.offsets[start]) // self._width if len(lengths) else 0
        return self._as_int32(first, first + int(lengths.sum())), lengths

    def _as_int32(self, start: int, end: int) -> Ids:
        stored = self._tokens[start:end]
        if self._width == 4:
            return stored
        ids: Ids = stored.astype(np.int32)
        ids.flags.writeable = False
        return ids


def read_index(path: str, joins: bool = False, checked_at_once: int = _BLOCK) -> Index:
    """The index in a .idx file, in memory that does not grow with it, if each document is one sequence.

    joins: whether a document may have any number of sequences, as in foreign files: it is what they are together.
    Raises FormatError unless every count, length, offset and document bound of the file is what the layout says for
    ids of its dtype, VersionError for another version.
    """
    size = measure_file(path)
    header = read_start(path, _HEADER.size)
    if header.startswith(OLD_MAGIC):
        raise FormatError(f"{path}: byte 0: an index of the older fairseq layout (TNTIDX): convert it first")
    if not header.startswith(MAGIC):
        raise FormatError(f"{path}: byte 0: not an index file of Megatron: it begins with {header[:9]!r}")
    if len(header) < _HEADER.size:
        raise FormatError(f"{path}: byte {len(header)}: the file ends within its header of {_HEADER.size} bytes")
    _, version, code, num, num_bounds = _HEADER.unpack(header)
    if version != VERSION:
        raise VersionError(f"{path}: byte 9: index version {version}, only {VERSION} is known")
    if (dtype := next((name for name, its_code in CODES.items() if its_code == code), None)) is None:
        known = " or ".join(f"{its_code} ({name})" for name, its_code in CODES.items())
        raise FormatError(f"{path}: byte 17: dtype code {code}, expected {known}")
    width = find_stored_dtype(dtype).itemsize
    if num_bounds != num + 1 and not (joins and num_bounds):
        raise FormatError(f"{path}: byte 26: {num_bounds} document bounds for {num} sequences, expected one more")
    expected = _HEADER.size + 12 * num + 8 * num_bounds
    if size != expected:
        documents = f" of {num_bounds - 1} documents" if num_bounds != num + 1 else ""
        raise FormatError(f"{path}: byte 18: {num} sequences{documents} make {expected} bytes, the file has {size}")
    places = (_HEADER.size, _HEADER.size + 4 * num, _HEADER.size + 12 * num)
    lengths = map_file(path, "<i4", places[0], num)
    offsets = map_file(path, "<i8", places[1], num)
    bounds = map_file(path, "<i8", places[2], num_bounds)
    num_tokens = 0
    for start in range(0, num, checked_at_once):
        block = lengths[start : start + checked_at_once]
        if int(block.min()) < 0:
            i = start + int(np.flatnonzero(block < 0)[0])
            raise FormatError(f"{path}: byte {places[0] + 4 * i}: sequence {i} has length {int(lengths[i])}")
        ends = num_tokens + np.cumsum(block, dtype=np.int64)
        begins = width * (ends - block)
        _check_equal(path, "offset of sequence", places[1], start, offsets[start : start + checked_at_once], begins)
        num_tokens = int(ends[-1])
        if num_tokens > MAX_TOKENS:
            raise FormatError(f"{path}: the lengths up to sequence {start + len(block) - 1} sum up to {num_tokens} ids")
    if joins and (num_bounds != num + 1 or not _is_range(bounds)):
        return _join_sequences(path, places[2], bounds, offsets, width, num_tokens)._replace(dtype=dtype)
    for start in range(0, num_bounds, checked_at_once):
        block = bounds[start : start + checked_at_once]
        _check_equal(path, "bound of document", places[2], start, block, np.arange(start, start + len(block)))
    return Index(offsets, lengths, num_tokens, dtype)


def _is_range(bounds: Offsets) -> bool:
    starts = range(0, len(bounds), _BLOCK)
    blocks = ((start, bounds[start : start + _BLOCK]) for start in starts)
    return all(np.array_equal(block, np.arange(start, start + len(block))) for start, block in blocks)


def _join_sequences(path: str, place: int, bounds: Offsets, offsets: Offsets, width: int, num_tokens: int) -> Index:
    """The index of documents that have any number of sequences. place: of the bounds in the file."""
    num = len(offsets)
    wrong = np.flatnonzero(np.diff(bounds, prepend=0) < 0)
    for i, expected in ((0, 0), (len(bounds) - 1, num)):
        if int(bounds[i]) != expected:
            raise FormatError(
                f"{path}: byte {place + 8 * i}: bound of document {i} is {int(bounds[i])}, expected {expected}"
            )
    if len(wrong):
        i = int(wrong[0])
        raise FormatError(f"{path}: byte {place + 8 * i}: document {i - 1} ends before it begins")
    places = np.concatenate([offsets, np.array([width * num_tokens], np.int64)])[bounds]
    return Index(places[:-1], np.diff(places) // width, num_tokens, "")


def _check_equal(path: str, what: str, place: int, start: int, found: Offsets, expected: Offsets) -> None:
    wrong = np.flatnonzero(found != expected)
    if len(wrong):
        i = int(wrong[0])
        at = f"{path}: byte {place + 8 * (start + i)}: {what} {start + i}"
        raise FormatError(f"{at} is {int(found[i])}, expected {int(expected[i])}")


_USAGE = """\
Megatron's indexed datasets, one sequence per document. `data_path.train` and, if there is a validation split,
`data_path.validation` list them for blending: one line per file, with its weight (its number of tokens) and its prefix.
Prefixes start at the folder of the list. Run Megatron there, or write that folder before each of them:

```sh
FOLDER=OUT/shards/megatron
sed "s| | $FOLDER/|" $FOLDER/data_path.train > train.txt
sed "s| | $FOLDER/|" $FOLDER/data_path.validation > validation.txt
```

Then pass `--train-data-path $(cat train.txt) --valid-data-path $(cat validation.txt)`, or, without a validation split,
`--data-args-path train.txt --split 100,0,0`. Multiply the weights of some lines to see their documents more often.
"""


class MegatronFormat(ShardFormat):
    """The ShardFormat of this file."""

    name = "megatron"
    suffixes = (PREFIX + BIN, PREFIX + IDX)
    maps_ids = True
    dtypes = tuple(CODES)
    index_names = (f"{DATA_PATH}*",)
    rebuilds_index = True
    usage = _USAGE

    def read_entries(self, index: str) -> Iterator[IndexEntry]:
        for number, line in enumerate(Path(index).read_text("utf-8", "replace").splitlines(), 1):
            weight, _, prefix = line.partition(" ")
            if not prefix or not weight.replace(".", "", 1).isdigit():
                raise FormatError(f"{index}: line {number}: {line[:60]!r}: expected a weight and a prefix")
            yield IndexEntry(f"line {number}", str(Path(index).parent / f"{prefix}{BIN}"))

    def main_file(self, path: str) -> str | None:
        prefix = path.removesuffix(IDX).removesuffix(BIN)
        for place in (prefix, prefix + PREFIX):
            if Path(place + IDX).is_file() or (place.endswith(PREFIX) and Path(place + BIN).is_file()):
                return place + BIN
        return None

    def open_writer(self, files: Sequence[BinaryIO], settings: ShardSettings) -> MegatronShardWriter:
        bin_file, idx_file = files
        return MegatronShardWriter(bin_file, idx_file, settings._replace(dtype=self.dtype(settings)))

    def open_plain(self, path: str, dtype: str) -> FlatIds:
        return open_headerless(path, require_dtype(path, dtype, tuple(CODES), f"its {IDX} file is not there"))

    def open_reader(self, path: str, documents: Documents | None) -> ShardWithDocuments:
        # Ours have one sequence a document, and a documents file; of a foreign one nothing else says where they end.
        return ShardWithDocuments(MegatronIds(path.removesuffix(BIN), joins=documents is None), documents)

    def folder_index(self, shards: Collection[StoredShard], settings: ShardSettings) -> Mapping[str, bytes]:
        """data_path.SPLIT: a line for each shard with tokens, `WEIGHT PREFIX`, as Megatron's --data-args-path reads it.

        The weight is the shard's tokens, so that every token is as likely as any other. The prefix is relative to the
        folder of the file.
        """
        lines = defaultdict[str, bytearray](bytearray)
        for facts, *_ in shards:
            if facts.tokens:  # a set without tokens stops Megatron
                lines[facts.split] += f"{facts.tokens} {facts.stem}{PREFIX}\n".encode()
        return {f"{DATA_PATH}{split}": bytes(own) for split, own in sorted(lines.items())}
