"""The formats of token shards, one line each. Whatever depends on formats asks this table; no other code knows a name.

A new format is a file in tokcore.formats that has what ShardFormat asks for, its test, and a line here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tokcore.errors import FormatError
from tokcore.formats.array_record import ArrayRecordFormat
from tokcore.formats.arrow_shards import ArrowFormat
from tokcore.formats.datatrove import DatatroveFormat
from tokcore.formats.documents import Documents, find_documents, get_documents_path
from tokcore.formats.litdata import LitdataFormat
from tokcore.formats.llmc import LlmcFormat
from tokcore.formats.mds import MdsFormat
from tokcore.formats.megatron import MegatronFormat
from tokcore.formats.nanogpt import NanogptFormat
from tokcore.formats.olmo import OlmoFormat
from tokcore.formats.parquet_shards import ParquetFormat
from tokcore.formats.pieces import PiecesFile, find_pieces, get_pieces_path
from tokcore.formats.provenance import Provenance, find_provenance, get_provenance_path
from tokcore.formats.saved_datasets import SavedDatasetFormat
from tokcore.formats.shard_format import ShardFormat, ShardReader
from tokcore.plugins.plugin_table import PluginTable

# A file is of the first format that knows it: those that look into a file are before those that go by its name alone.
_ALL: tuple[ShardFormat, ...] = (
    MegatronFormat(),
    SavedDatasetFormat(),
    ArrayRecordFormat(),
    ArrowFormat(),
    DatatroveFormat(),
    LitdataFormat(),
    LlmcFormat(),
    MdsFormat(),
    NanogptFormat(),
    OlmoFormat(),
    ParquetFormat(),
)

# Those of other distributions are found by name, too.
SHARD_FORMATS: PluginTable[ShardFormat] = PluginTable(
    "tokcore.formats",
    ShardFormat,  # type: ignore[type-abstract]
    {one.name: one for one in sorted(_ALL, key=lambda one: one.name)},
)

# What a build writes unless its file says otherwise.
DEFAULT_FORMATS = (ArrowFormat.name, MegatronFormat.name)

# Ours, in the order in which open_shards prefers them.
READING_ORDER = tuple(sorted(_ALL, key=lambda one: not one.maps_ids))

# Folders of files beside those of a format.
_BESIDE = tuple(
    get_path("").partition("/")[0] for get_path in (get_documents_path, get_pieces_path, get_provenance_path)
)


class FormatFile(NamedTuple):
    """A shard in one format: the format's name, and the path of the file that the shard goes by."""

    format: str
    path: str

    def open(self) -> ShardReader:
        """Raises FormatError if it is not a shard of that format, or is damaged."""
        return SHARD_FORMATS[self.format].open_reader(self.path, self.find_documents())

    def find_documents(self) -> Documents | None:
        """The shard's documents file; None if it is not there, or if the format has no need of it."""
        return None if SHARD_FORMATS[self.format].has_columns else find_documents(self.path, self._list_ends())

    def find_provenance(self) -> Provenance | None:
        """The shard's provenance file; None if it is not there: only shards of a shuffled build have one."""
        return find_provenance(self.path, self._list_ends())

    def find_pieces(self) -> PiecesFile | None:
        """What the shard's rows are made of; None if there is no pieces file: only packed shards have one."""
        return find_pieces(self.path, self._list_ends())

    def _list_ends(self) -> tuple[str, str]:
        # Foreign files may lack what our names have between stem and suffix.
        return SHARD_FORMATS[self.format].suffixes[0], "." + self.path.rpartition(".")[2]

    def list_files(self) -> tuple[str, ...]:
        """The paths of the shard's files in its format, whether they are there or not."""
        first, *others = SHARD_FORMATS[self.format].suffixes
        if self.path.endswith(first):
            start = self.path.removesuffix(first)
            return (self.path, *(start + suffix for suffix in others))
        start, _, end = self.path.rpartition(".")
        shared = first.removesuffix(f".{end}")  # which foreign files lack
        return (self.path, *(f"{start}{suffix.removeprefix(shared)}" for suffix in others))


def find_format(name: str) -> ShardFormat:
    """The format of that name. Raises FormatError if this release does not know it."""
    if (found := SHARD_FORMATS.get(name)) is None:
        known = ", ".join((*SHARD_FORMATS, *SHARD_FORMATS.list_others()))
        raise FormatError(f"{name!r:.80} is no format of shards: this release, and what is installed, know {known}")
    return found


def find_format_of(path: str, stem: str) -> ShardFormat | None:
    """The format in which the shard of a stem goes by a path below the folder of all shards; None if none.

    >>> stem = "train-00003-00001-0a1b2c3d4e5f"
    >>> [find_format_of(f"megatron/{stem}_text_document{end}", stem) is None for end in (".bin", ".idx")]
    [False, True]
    """
    folder = path.partition("/")[0]
    one = None if folder in _BESIDE else SHARD_FORMATS.get(folder)
    return one if one is not None and list_paths(one, stem)[0] == path else None


def rank_reading(name: str) -> tuple[int, str]:
    """The key that sorts names of formats by how gladly open_shards reads them: ours, then others."""
    return next((i for i, one in enumerate(READING_ORDER) if one.name == name), len(READING_ORDER)), name


def list_paths(one: ShardFormat, stem: str) -> tuple[str, ...]:
    """Paths of a shard's files in a format, below the folder of all shards. stem: [LANG/]SPLIT-ITEM-SHARD-KEY.

    >>> list_paths(SHARD_FORMATS["olmo"], "en/train-00003-00001-0a1b2c3d4e5f")
    ('olmo/en/train-00003-00001-0a1b2c3d4e5f.npy', 'olmo/en/train-00003-00001-0a1b2c3d4e5f.csv.gz')
    """
    folder = get_folder(one, stem.rpartition("/")[2].partition("-")[0])
    return tuple(f"{folder}/{stem}{suffix}" for suffix in one.suffixes)


def get_folder(one: ShardFormat, split: str) -> str:
    """The folder of a split's shards in a format, below the folder of all shards.

    >>> get_folder(SHARD_FORMATS["megatron"], "train"), get_folder(SHARD_FORMATS["mds"], "train")
    ('megatron', 'mds/train')
    """
    return f"{one.name}/{split}" if one.splits_apart else one.name


def needs_documents(formats: Iterable[str]) -> bool:
    """Whether a shard in these formats has a documents file."""
    return not all(find_format(name).has_columns for name in formats)


def list_all_paths(
    formats: Sequence[str], stem: str, is_shuffled: bool = False, is_packed: bool = False
) -> tuple[str, ...]:
    """Paths of all files of a shard in these formats, below the folder of all shards, in the order of paths."""
    pieces = (get_pieces_path(stem),) if is_packed else ()
    documents = (get_documents_path(stem),) if needs_documents(formats) else ()
    provenance = (get_provenance_path(stem),) if is_shuffled else ()
    paths = (path for name in formats for path in list_paths(find_format(name), stem))
    return tuple(sorted((*paths, *documents, *provenance, *pieces)))


def find_shard_at(path: str) -> FormatFile | None:
    """The shard that a local path means, by any of its files or without their suffix; None if there is none."""
    for one in _list_formats():
        if (main := one.main_file(path)) is not None:
            return FormatFile(one.name, main)
    return None


def _list_formats() -> Iterator[ShardFormat]:
    yield from READING_ORDER
    yield from (SHARD_FORMATS[name] for name in SHARD_FORMATS.list_others())
