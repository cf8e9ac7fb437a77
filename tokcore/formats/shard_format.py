"""What a format of token shards must offer.

Each format is a file beside this one; tokcore.shards.format_table lists them.

A shard is written in every configured format from the same documents. Its files in a format are
`FORMAT/[LANG/]NAME-KEY` + each of the format's suffixes; [LANG/]NAME-KEY is called the shard's stem.
"""

from __future__ import annotations

import contextlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tokcore.errors import FormatError
from tokcore.formats.arrow_columns import BATCH_DOCUMENTS, BATCH_TOKENS, Batches
from tokcore.formats.documents import Documents
from tokcore.formats.metadata import Told
from tokcore.formats.shard_facts import ShardFacts
from tokcore.shards.labels import repeat_label
from tokcore.shards.token_batch import Ids, Offsets, TokenBatch


class ShardSettings(NamedTuple):
    """What holds for every shard of a build."""

    fingerprint: str  # of the tokenizer
    vocab_size: int  # every id is below it
    compression: str  # of Arrow files: zstd, lz4 or none
    dtype: str = "int32"  # of the ids in formats that leave the choice
    metadata: Told = ()  # the user's own columns, in formats that have columns, and in documents files


class StoredShard(NamedTuple):
    """A finished shard in one format, as an index of the format's folder describes it."""

    facts: ShardFacts
    size_bytes: int  # of the file that the shard goes by
    content_sha256: str  # of the documents, the same in every format


class IndexEntry(NamedTuple):
    """What an index of a folder says of a shard; None where it does not."""

    place: str  # in the index
    path: str  # that the shard goes by
    size_bytes: int | None = None
    documents: int | None = None
    tokens: int | None = None
    dtype: str | None = None


class ShardWriter(Protocol):
    """Writes one shard to open binary files; close() ends their content, not the files."""

    def write(self, batch: TokenBatch) -> None:
        """Append documents. Raises FormatError, before any of them is written, for one that the format cannot hold."""

    def close(self) -> None:
        """Write what waits for more documents."""


class ShardReader(Protocol):
    """One open shard. Safe to read from several threads."""

    def __len__(self) -> int: ...
    @property
    def dtype(self) -> str:
        """The numpy dtype of the ids as stored."""

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the tokenizer; "" if no file of the shard names it."""

    @property
    def num_tokens(self) -> int: ...
    def tokens(self, row: int) -> Ids:
        """int32 ids of a document, read-only."""

    def span(self, start: int, end: int) -> tuple[Ids, Offsets]:
        """Documents start to end, end excluded: their ids back to back, and their numbers of ids."""

    def part(self, start: int, end: int) -> npt.NDArray[Any]:
        """Ids number start to end of all documents back to back, end excluded: int32, or of the file's dtype."""

    @property
    def mapped(self) -> npt.NDArray[Any] | None:
        """All ids as a view of the mapped file, of its dtype; None if part() makes copies."""

    def find_bounds(self, starts: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
        """Where documents end strictly within each part, in ids of the shard: how many in each, and the places.

        starts, ends: int64, of the parts. A place may come several times, for empty documents.
        """

    def columns(self, row: int) -> tuple[str | None, str, str, int]:
        """(id, lang, source, ordinal) of a document."""

    def batches(self) -> Iterator[TokenBatch]:
        """All documents, some at a time."""


class PlainIds(Protocol):
    """The ids of a file, back to back, without bounds."""

    @property
    def path(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def num_tokens(self) -> int: ...
    def part(self, start: int, end: int) -> npt.NDArray[Any]:
        """Ids number start to end, end excluded, of the file's dtype."""


class IdFiles(PlainIds, Protocol):
    """The ids of a shard and where each document begins; not its columns. See ShardReader."""

    @property
    def mapped(self) -> npt.NDArray[Any] | None: ...
    def lengths(self, start: int, end: int) -> Offsets: ...
    def find_bounds(self, starts: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]: ...
    def __len__(self) -> int: ...
    def tokens(self, row: int) -> Ids: ...
    def span(self, start: int, end: int) -> tuple[Ids, Offsets]: ...


OpenPlain = Callable[[str, str], PlainIds]
OpenBatches = Callable[[str], Batches]


class ShardFormat(ABC):
    """A format of token shards: derive from it, and state what differs from flat ids without columns and index."""

    name: str  # in the build file; also the folder of its files
    suffixes: tuple[str, ...]  # the endings of a shard's files, after its stem; the path of the first names the shard
    usage: str  # how others than tokcore read its files, for the dataset card; OUT stands for the folder of the output

    # Whether its files hold id, lang, source and ordinal. If not, a build writes the documents file, too.
    has_columns: bool = False
    # Whether they hold settings.metadata, too. A format without columns has it in the documents file.
    holds_metadata: bool = False
    # Whether a document of int32 ids is a view of the file. open_shards prefers such a format.
    maps_ids: bool = False
    # Whether its reader opens a file at a URL by tokcore.files.ranged_files. If not, whole files are copied.
    reads_ranges: bool = True
    # Whether each split has a folder of its own below the format's: where readers open one split.
    splits_apart: bool = False
    # Whether its files say where documents end, without the documents file.
    has_bounds: bool = True
    # Opens the ids of a file that nothing says the bounds of: takes its path, and the dtype of the ids, "" if the file
    # or its folder is to say it (FormatError if neither does). None where ids are in rows or samples.
    open_plain: OpenPlain | None = None
    # Opens the rows of a file of any writer; None if the format has no rows.
    open_batches: OpenBatches | None = None
    # Those of ids that a build file can choose between; empty where the format leaves no choice.
    dtypes: tuple[str, ...] = ()
    # The largest target_tokens that a build file may ask for; None: any.
    most_tokens: int | None = None
    # Columns of its rows, as the head of a dataset card has them; none if Hugging Face datasets cannot read it.
    features: Sequence[Mapping[str, str]] = ()
    # Names of the indexes of a folder, or globs of them.
    index_names: tuple[str, ...] = ()
    # Whether readers find only shards that an index names.
    needs_index: bool = False
    # Whether an index follows from the shards, without their content digests.
    rebuilds_index: bool = False

    def read_entries(self, index: str) -> Iterator[IndexEntry]:
        """What an index says of each shard, in its order. Raises FormatError if it is no index of this format."""
        return iter(())

    # Makes a writer to open files, in the order of suffixes, of the dtype of ids and the size of the vocabulary.
    writer: Callable[..., ShardWriter]

    def dtype(self, settings: ShardSettings) -> str:
        """The numpy dtype of the ids as stored."""
        return choose_dtype(settings, self.dtypes)

    @abstractmethod
    def main_file(self, path: str) -> str | None:
        """The path by which a shard goes, if path means one: by any of its files, or without their suffix.

        None if there is no shard of this format.
        """

    def open_writer(self, files: Sequence[BinaryIO], settings: ShardSettings) -> ShardWriter:
        """A writer to files in the order of suffixes."""
        return self.writer(*files, self.dtype(settings), settings.vocab_size)

    @abstractmethod
    def open_reader(self, path: str, documents: Documents | None) -> ShardReader:
        """The shard that goes by this path. documents: its documents file, None if there is none.

        Raises FormatError, naming file and place, unless its files fit together, VersionError for a later version.
        """

    def folder_index(self, shards: Collection[StoredShard], settings: ShardSettings) -> Mapping[str, bytes]:
        """Files to write once all shards are known: path below the format's folder -> content; often none.

        shards: go through them as seldom as you can; what verifies makes them again each time, since there may be
        millions.
        """
        return {}


class ShardWithDocuments:
    """A ShardReader over files of ids and the documents file, which may be absent: then there are ids only."""

    def __init__(self, ids: IdFiles, documents: Documents | None) -> None:
        self._ids = ids
        self._documents = documents
        self.tokens = ids.tokens
        self.span = ids.span
        self.part = ids.part
        self.find_bounds = ids.find_bounds

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def dtype(self) -> str:
        return self._ids.dtype

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the tokenizer; "" if there is no documents file."""
        return self._documents.fingerprint if self._documents is not None else ""

    @property
    def num_tokens(self) -> int:
        return self._ids.num_tokens

    @property
    def mapped(self) -> npt.NDArray[Any] | None:
        return self._ids.mapped

    @property
    def has_documents(self) -> bool:
        """Whether the documents file is there."""
        return self._documents is not None

    @property
    def vocab_size(self) -> int | None:
        """The highest id + 1, as the documents file has it."""
        return None if self._documents is None else self._documents.vocab_size

    def columns(self, row: int) -> tuple[str | None, str, str, int]:
        """(id, lang, source, ordinal) of a document. Raises FormatError if there is no documents file."""
        return self._checked_documents().columns(row)

    @property
    def told(self) -> Told:
        """The user's own columns of the documents file."""
        return self._documents.told if self._documents is not None else ()

    def metadata_of(self, row: int) -> dict[str, Any]:
        """Name -> value of the user's own columns of a document; empty if there is no documents file."""
        return self._documents.metadata_of(row) if self._documents is not None else {}

    def batches(self) -> Iterator[TokenBatch]:
        """All documents, BATCH_TOKENS ids or one document at a time.

        Raises FormatError if the documents file is not of this shard: other lengths.
        """
        documents = self._checked_documents()
        start = 0
        for names, told in documents.batches():
            end = start + names.num_documents
            lengths = self._ids.lengths(start, end)
            wrong = np.flatnonzero(lengths != told)
            if len(wrong):
                i = int(wrong[0])
                raise FormatError(
                    f"{documents.path}: document {start + i} has length {int(told[i])}, in {self._ids.path} it has "
                    f"{int(lengths[i])} ids"
                )
            for first, last, tokens, offsets in self._read_pieces(start, end):
                part = names.slice(first - start, last - start)
                yield part._replace(tokens=tokens, offsets=offsets)
            start = end

    def batches_of_ids(self, source: str, lang: str) -> Iterator[TokenBatch]:
        """All documents, as batches() gives them, without the documents file: without ids, numbered from 0.

        source, lang: of all of them.
        """
        for start in range(0, len(self), BATCH_DOCUMENTS):
            for first, last, tokens, offsets in self._read_pieces(start, min(start + BATCH_DOCUMENTS, len(self))):
                num = last - first
                langs, sources = repeat_label(lang, num), repeat_label(source, num)
                yield TokenBatch(tokens, offsets, [None] * num, langs, sources, np.arange(first, last))

    def _read_pieces(self, start: int, end: int) -> Iterator[tuple[int, int, Ids, Offsets]]:
        """Documents start to end, in order, some at a time: numbers of the first and after the last, ids, bounds."""
        while start < end:
            bounds = np.zeros(end - start + 1, np.int64)
            np.cumsum(self._ids.lengths(start, end), out=bounds[1:])
            num = max(1, int(np.searchsorted(bounds, BATCH_TOKENS, side="right")) - 1)
            tokens, _ = self._ids.span(start, start + num)
            yield start, start + num, tokens, bounds[: num + 1]
            start += num

    def _checked_documents(self) -> Documents:
        if self._documents is None:
            raise FormatError(
                f"{self._ids.path}: its documents file is not there: it holds the ids, languages and sources of the "
                f"documents"
            )
        if len(self._documents) != len(self):
            raise FormatError(
                f"{self._documents.path}: {len(self._documents)} documents, {self._ids.path} has {len(self)}"
            )
        return self._documents


@contextlib.contextmanager
def read_json_index(path: str) -> Iterator[Any]:
    """The content of an index in JSON. Raises FormatError naming it if it is none, or if the block misses a field."""
    try:
        yield json.loads(Path(path).read_bytes())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"{path}: not an index of these shards: {error!r:.80}") from error


def group_by_split(shards: Iterable[StoredShard]) -> dict[str, list[StoredShard]]:
    """Split -> its shards, in order; only splits that have any."""
    found: dict[str, list[StoredShard]] = {}
    for shard in shards:
        found.setdefault(shard.facts.split, []).append(shard)
    return dict(sorted(found.items()))


def choose_dtype(settings: ShardSettings, dtypes: Sequence[str]) -> str:
    """The dtype of the build file, if the format has it; else int32, if it has that; else the smallest that holds all.

    dtypes: those of the format, the smallest first.

    >>> [choose_dtype(ShardSettings("", 70_000, "zstd", dtype), ["uint16", "uint32"]) for dtype in ("int32", "uint16")]
    ['uint32', 'uint16']
    """
    for dtype in (settings.dtype, "int32"):
        if dtype in dtypes:
            return dtype
    return next(dtype for dtype in dtypes if settings.vocab_size <= count_most_ids(dtype))


def count_most_ids(dtype: str) -> int:
    """How many ids a vocabulary may have, so that each fits.

    >>> count_most_ids("uint16")
    65536
    """
    return int(np.iinfo(dtype).max) + 1


def check_ids(tokens: Ids, vocab_size: int) -> None:
    """Raise FormatError for an id outside of the vocabulary: in fewer bits it would become another one."""
    if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocab_size:
        wrong = int(tokens[(tokens < 0) | (tokens >= vocab_size)][0])
        raise FormatError(f"id {wrong}: the vocabulary has {vocab_size} ids")


def check_lengths(batch: TokenBatch, limit: int, format_name: str) -> None:
    """Raise FormatError if a document has more tokens than the format can hold."""
    longest = int(np.diff(batch.offsets).max(initial=0))
    if longest > limit:
        raise FormatError(
            f"a document of {longest} tokens: {format_name} holds at most {limit} in one document. "
            f"Lower max_document_bytes of its source."
        )
