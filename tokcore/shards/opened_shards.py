"""Token shards as trainers read them: one sequence of documents over all files of a build or a folder.

Leaves to others: the formats (tokcore.shards.format_table) and whether the files are the committed ones (tokcore
verify).
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import functools
import json
import operator
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, overload

import numpy as np
import numpy.typing as npt

from tokcore.errors import FormatError, IdentityError, TokError
from tokcore.files.canonical_json import MANIFEST_FORMAT, MANIFEST_VERSIONS, parse_canonical
from tokcore.files.jsonable import Place, from_jsonable, require_version
from tokcore.files.ranged_files import RangedFile, read_by_ranges
from tokcore.files.url_files import RemoteFile, copy_bytes, read_first
from tokcore.formats.documents import SUFFIX as DOCUMENTS
from tokcore.formats.documents import Documents
from tokcore.formats.partition_names import list_above
from tokcore.formats.pieces import SUFFIX as PIECES
from tokcore.formats.pieces import PiecesFile
from tokcore.formats.provenance import SUFFIX as PROVENANCE
from tokcore.formats.provenance import Provenance
from tokcore.formats.shard_facts import ShardFacts
from tokcore.formats.shard_format import ShardReader
from tokcore.shards.commits import list_parts
from tokcore.shards.followed_shards import FollowedShards
from tokcore.shards.format_table import (
    READING_ORDER,
    SHARD_FORMATS,
    FormatFile,
    find_format_of,
    find_shard_at,
    list_all_paths,
    rank_reading,
)
from tokcore.shards.token_batch import Ids

SPLITS = ("train", "validation", "all")

# Shards that are kept open at a time, each a few memory maps and at most one decoded record batch.
MAX_OPEN = 64

# The manifest of a build's shards, below the build's output; of a shard's folder it is at most two levels up, or more
# where that is the folder of a partition.
MANIFEST = "manifest.json"
_LEVELS_UP = 2
_FOLDERS_OF_A_SHARD = 5  # of its split, its language, its format, the stage; the output


class ShardDocument(NamedTuple):
    """Where a document came from: source and ordinal name the record; id is None where the source names none."""

    id: str | None
    lang: str
    source: str
    ordinal: int


Beside = TypeVar("Beside", Provenance, PiecesFile)


class OpenableShard(NamedTuple):
    """A shard in one format, not open yet, and what it is known to hold."""

    format: str
    path: str  # that it goes by
    num_documents: int
    num_tokens: int | None = None  # None: only reading it can tell
    files: tuple[RemoteFile, ...] = ()  # at a URL, the first of which is the path's
    cache: str = ""  # the folder to which they are copied; "": they are read where they are
    has_gaps: bool = False  # whether padding took the place of removed documents in its rows, or may have

    def open(self) -> ShardReader:
        """Raises FormatError if it is not a shard of that format, or is damaged."""
        if not self.files:
            return FormatFile(self.format, self.path).open()
        if self.cache:
            return self._open_copies(self.cache)
        if SHARD_FORMATS[self.format].reads_ranges:
            with read_by_ranges(RangedFile(file.url, file.size_bytes, file.sha256) for file in self.files):
                named = [file.url for file in self.files if file.url.endswith(DOCUMENTS)]
                documents = Documents(named[0]) if named else None
                return SHARD_FORMATS[self.format].open_reader(self.path, documents)
        # What is mapped stays as long as its reader, whatever becomes of the name.
        with tempfile.TemporaryDirectory(prefix="tokcore-shards-") as folder:
            return self._open_copies(folder)

    def find_provenance(self) -> Provenance | None:
        """Its provenance file; None if it has none, as in a build that is not shuffled."""
        if not self.files:
            return FormatFile(self.format, self.path).find_provenance()
        return self._open_beside(PROVENANCE, Provenance)

    def find_pieces(self) -> PiecesFile | None:
        """What its rows are made of, if it is a packed shard; else None."""
        if not self.files:
            return FormatFile(self.format, self.path).find_pieces()
        return self._open_beside(PIECES, PiecesFile)

    def _open_beside(self, suffix: str, open_file: Callable[[str], Beside]) -> Beside | None:
        """A copy of the file with that suffix at a URL, opened; None if there is none."""
        for file in self.files:
            if file.name.endswith(suffix):
                with tempfile.TemporaryDirectory(prefix="tokcore-shards-") as folder:
                    file.copy_to(self.cache or folder)
                    return open_file(f"{self.cache or folder}/{file.name}")
        return None

    def _open_copies(self, folder: str) -> ShardReader:
        for file in self.files:
            file.copy_to(folder)
        return FormatFile(self.format, f"{folder}/{self.files[0].name}").open()


Found = TypeVar("Found", FormatFile, OpenableShard)


def _open(files: Sequence[OpenableShard], number: int) -> ShardReader:
    return files[number].open()


def _find_provenance(files: Sequence[OpenableShard], number: int) -> Provenance | None:
    return files[number].find_provenance()


class Shards(Sequence[Ids]):
    """Documents of several shards, in the order of the files; shards[i] is an int32 array, read-only.

    A slice or a list of indexes gives a list of arrays. copy(i) gives a writable array.
    From formats that map ids (Megatron's int32) the arrays are views of the file. Files are opened when a document of
    theirs is asked for. Pickles by its paths; safe to read from several threads.

    >>> shards = open_shards("out/first")
    >>> len(shards), shards[1].tolist()
    (2, [257, 259, 258, 261])
    >>> [len(tokens) for tokens in shards]
    [7, 4]
    >>> [len(tokens) for tokens in shards[[1, 0, 1]]]
    [4, 7, 4]
    """

    def __init__(self, files: Sequence[OpenableShard], fingerprint: str) -> None:
        """fingerprint: of the tokenizer that all of them must be written with."""
        self._files = tuple(files)
        self._fingerprint = fingerprint
        self._starts = [0, *accumulate(file.num_documents for file in self._files)]
        self._opened = functools.lru_cache(MAX_OPEN)(functools.partial(_open, self._files))
        self._provenance = functools.lru_cache(MAX_OPEN)(functools.partial(_find_provenance, self._files))

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, in order.

        >>> [os.path.basename(path)[: len("train-00000-00000")] for path in shards.paths]
        ['train-00000-00000']
        """
        return tuple(file.path for file in self._files)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the tokenizer that wrote them; "" if there is no shard, or none that names it.

        >>> len(shards.fingerprint)
        64
        """
        return self._fingerprint

    @property
    def num_tokens(self) -> int:
        """The tokens of all documents together; reads the files unless a manifest has the number.

        >>> shards.num_tokens
        11
        """
        known = (file.num_tokens for file in self._files)
        return sum(self._shard(i).num_tokens if num is None else num for i, num in enumerate(known))

    def list_files(self) -> tuple[OpenableShard, ...]:
        """The shards, in order, each to be opened by itself.

        >>> [shard.num_documents for shard in shards.list_files()]
        [2]
        """
        return self._files

    def stored_as(self, number: int) -> tuple[str, str]:
        """(format, dtype of the ids as stored) of the shard that paths[number] names.

        >>> shards.stored_as(0)
        ('megatron', 'int32')
        """
        return self._files[number].format, self._shard(number).dtype

    def document(self, index: int) -> ShardDocument:
        """id, lang, source and ordinal of a document.

        >>> shards.document(1)
        ShardDocument(id='page-2', lang='en', source='pages.jsonl', ordinal=1)
        """
        number, row = self._place(index)
        id, lang, source, ordinal = self._shard(number).columns(row)
        # Shards of a shuffled build name no source: a file of its own does.
        if not source and (provenance := self._provenance(number)) is not None:
            source, ordinal = provenance.sources[row], int(provenance.ordinals[row])
        return ShardDocument(id, lang, source, ordinal)

    def metadata(self, index: int) -> dict[str, Any]:
        """What [metadata] of the build file carries beside a document: name -> value, None where it has none.

        >>> shards.metadata(1)
        {}
        """
        number, row = self._place(index)
        told: dict[str, Any] = getattr(self._shard(number), "metadata_of", lambda row: {})(row)
        return told

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, index: int) -> Ids: ...
    @overload
    def __getitem__(self, index: slice | Iterable[int]) -> list[Ids]: ...
    def __getitem__(self, index: int | slice | Iterable[int]) -> Ids | list[Ids]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if isinstance(index, Iterable):
            return [self[_require_index(i, position)] for position, i in enumerate(index)]
        shard, row = self._find(index)
        return shard.tokens(row)

    @overload
    def copy(self, index: int, dtype: npt.DTypeLike = np.int32) -> npt.NDArray[Any]: ...
    @overload
    def copy(self, index: slice | Iterable[int], dtype: npt.DTypeLike = np.int32) -> list[npt.NDArray[Any]]: ...
    def copy(
        self, index: int | slice | Iterable[int], dtype: npt.DTypeLike = np.int32
    ) -> npt.NDArray[Any] | list[npt.NDArray[Any]]:
        """What shards[index] is, as arrays of one's own: writable, as torch.from_numpy wants them.

        >>> shards.copy(1, np.int64).tolist(), shards.copy(1).flags.writeable, shards[1].flags.writeable
        ([257, 259, 258, 261], True, False)
        >>> [len(tokens) for tokens in shards.copy([1, 0])]
        [4, 7]
        """
        found = self[index]
        return [tokens.astype(dtype) for tokens in found] if isinstance(found, list) else found.astype(dtype)

    def __iter__(self) -> Iterator[Ids]:
        for number, file in enumerate(self._files):
            if file.num_documents:
                shard = self._shard(number)
                yield from (shard.tokens(row) for row in range(file.num_documents))

    def __reduce__(self) -> tuple[Any, ...]:
        return Shards, (self._files, self._fingerprint)

    def __repr__(self) -> str:
        return f"<Shards: {len(self)} documents in {len(self._files)} files>"

    def _find(self, index: int) -> tuple[ShardReader, int]:
        number, row = self._place(index)
        return self._shard(number), row

    def _place(self, index: int) -> tuple[int, int]:
        """The number of the shard of a document, and its row there."""
        index = operator.index(index)
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"document {index} of {len(self)}")
        # Of several shards that start here, all but the last are empty.
        number = bisect.bisect_right(self._starts, position) - 1
        return number, position - self._starts[number]

    def _shard(self, number: int) -> ShardReader:
        file = self._files[number]
        shard = self._opened(number)
        if shard.fingerprint != self._fingerprint:
            raise IdentityError(
                f"{file.path}: written with tokenizer {shard.fingerprint or 'unknown'}, "
                f"the other shards with {self._fingerprint or 'unknown'}. Open them apart."
            )
        if len(shard) != file.num_documents:
            raise FormatError(f"{file.path}: {len(shard)} documents, expected {file.num_documents}")
        return shard


def _require_index(index: Any, position: int) -> int:
    """One index of a list. Raises TypeError for what is no integer; a list of bool would be a mask elsewhere."""
    if isinstance(index, bool) or not hasattr(index, "__index__"):
        raise TypeError(f"index {position} of the list is {index!r:.80}: expected an integer")
    return operator.index(index)


@overload
def open_shards(
    path: str | os.PathLike[str],
    split: str = "train",
    cache: str | os.PathLike[str] | None = None,
    at: int | None = None,
    *,
    follow: Literal[False] = False,
) -> Shards: ...
@overload
def open_shards(
    path: str | os.PathLike[str],
    split: str = "train",
    cache: str | os.PathLike[str] | None = None,
    at: int | None = None,
    *,
    follow: Literal[True],
) -> FollowedShards: ...
def open_shards(
    path: str | os.PathLike[str],
    split: str = "train",
    cache: str | os.PathLike[str] | None = None,
    at: int | None = None,
    *,
    follow: bool = False,
) -> Shards | FollowedShards:
    """The shards at a local path: a build's output, a folder of shards, or one file of a shard.

    A URL of a build's output works, too, by way of fsspec. Only the blocks of a shard that are asked for are read; a
    process keeps the 64 MiB of blocks that it used last. cache: a folder for copies. When a document is asked for, the
    files of its shard are copied there whole and compared with the sha256 in the manifest; later calls and other
    processes find them there.

    split: train, validation or all; a single shard is opened whatever it holds. Where a manifest is there, only what
    it names is read. Where a folder holds several formats, one that maps ids is taken (Megatron's `.bin` files).
    at: the number of a commit of an output that was updated; 0 is the build, None the newest. Shards of parts come in
    the order in which the parts were added. follow: the documents of an output one after another, and then those that
    later commits bring; begins with the commit at, None is the build.
    Raises FormatError if there are no shards or one is damaged, IdentityError if they are of several tokenizers,
    ConfigError if there is no such commit, or it is expired, ChecksumError, when a document is asked for, if its file
    at a URL is not the one of the manifest.

    >>> shards = open_shards("out/first")
    >>> shards[0].tolist(), shards.document(0).id
    ([257, 258, 259, 258, 260, 83, 261], 'page-1')
    >>> len(open_shards("out/first", split="validation"))
    0
    """
    if split not in SPLITS:
        raise ValueError(f"split = {split!r}: expected one of {', '.join(SPLITS)}")
    whole = os.fspath(path).removeprefix("file://")
    if follow:
        return FollowedShards(
            whole, lambda parts: _join_shards([_open_part(part, split, cache) for part in parts]), at or 0
        )
    if (parts := list_parts(whole, at)) != [whole.rstrip("/") or whole]:
        return _join_shards([_open_part(part, split, cache) for part in parts])
    return _open_part(path, split, cache)


def _open_part(path: str | os.PathLike[str], split: str, cache: str | os.PathLike[str] | None) -> Shards:
    """As open_shards, of what one build made, or of files of no build."""
    if "://" in (url := os.fspath(path)) and not url.startswith("file://"):
        return _open_remote(url.rstrip("/"), split, cache)
    place = Path(url.removeprefix("file://")).resolve()
    if not place.is_dir():
        return _open_unnamed([_find_single_shard(place)])
    manifest = _find_manifest(place)
    if manifest is None:
        _require_finished(place)
        return _open_unnamed(
            [one for one in _choose_one_format(place, _find_shards_below(place)) if _is_in_split(one.path, split)]
        )
    root, content = manifest
    files, fingerprint = _list_named_shards(root, content)
    if not files:
        return Shards([], fingerprint)
    below = [file for file in files if Path(file.path).is_relative_to(place)]
    return Shards([file for file in _choose_one_format(place, below) if _is_in_split(file.path, split)], fingerprint)


def _join_shards(parts: Sequence[Shards]) -> Shards:
    """The documents of all parts, in their order. Raises IdentityError if they are of several tokenizers."""
    if not parts:
        return Shards([], "")
    for part in parts:
        if part.fingerprint != parts[0].fingerprint:
            raise IdentityError(
                f"{part.paths[:1]} and {parts[0].paths[:1]} were written with different tokenizers. Open them apart."
            )
    return Shards([file for part in parts for file in part.list_files()], parts[0].fingerprint)


def _open_remote(url: str, split: str, cache: str | os.PathLike[str] | None) -> Shards:
    found = read_first([f"{url}/shards/{MANIFEST}", f"{url}/{MANIFEST}"])
    if found is None:
        raise FormatError(
            f"{url}: no output of a build: there is no shards/{MANIFEST} in it. "
            f"Are bucket and folder right? Is the build finished?"
        )
    origin, data = found
    content = parse_canonical(data, origin)
    if not _names_shards(content):
        raise FormatError(f"{url}: a build without shards. Is it finished?")
    root = origin.removesuffix(f"/{MANIFEST}")
    files, fingerprint = _list_named_shards(root, content)
    if cache is None:
        files = [file for file in files if SHARD_FORMATS[file.format].reads_ranges] or files
    else:
        copies = copy_bytes(data, Path(cache).resolve(), MANIFEST).parent
        files = [file._replace(path=str(copies / file.files[0].name), cache=str(copies)) for file in files]
    chosen = _choose_one_format(url, files) if files else []
    return Shards([file for file in chosen if _is_in_split(file.path, split)], fingerprint)


def find_shard_files(path: str | os.PathLike[str]) -> list[FormatFile]:
    """The shards at a local path in one format, in order, none of them opened.

    If there is a manifest, those that it names. Raises FormatError if there are none.
    """
    place = Path(path).resolve()
    if not place.is_dir():
        return [_find_single_shard(place)]
    if (manifest := _find_manifest(place)) is None:
        _require_finished(place)
        return _choose_one_format(place, _find_shards_below(place))
    files, _ = _list_named_shards(*manifest)
    below = [file for file in files if Path(file.path).is_relative_to(place)]
    return [FormatFile(file.format, file.path) for file in _choose_one_format(place, below)]


class NamedShards(NamedTuple):
    """What the manifests of outputs name."""

    outputs: set[Path]  # their folders
    files: list[FormatFile]  # in every format; those that can be opened
    faults: dict[Path, str]  # what is not to be opened, manifests included -> why


def find_named_shards(place: Path) -> NamedShards:
    """The shards that manifests of outputs name. No link out of an output is followed, and no FIFO opened.

    place: the output, a folder above it, or a file or folder in it. Manifests that cannot be read are passed over.
    """
    named = NamedShards(set(), [], {})
    paths = {*place.rglob(MANIFEST), *(folder / MANIFEST for folder in list_above(place, _FOLDERS_OF_A_SHARD))}
    for path in sorted(paths):
        root = path.parent
        if (fault := _find_fault(path, root)) is not None:
            named.faults[path] = fault
            if _is_of_build(root.parent):  # whatever is there, tables of counts are no shards
                named.outputs.add(root.parent)
            continue
        with contextlib.suppress(OSError, ValueError, RecursionError, TokError):
            data = path.read_bytes()
            content = json.loads(data)
            if _names_shards(content):
                manifest = _read_named(root, parse_canonical(data, str(path)))
                faults = dict(_find_faults(root, manifest))
                named.faults.update((root / name, fault) for name, fault in faults.items())
                files = _list_openable(root, manifest, faults)
                # The folder itself, if it was copied out of its output.
                named.outputs.add(root.parent if root.name == content["stage"] else root)
                named.files.extend(FormatFile(file.format, file.path) for file in files)
    return named


def _names_shards(content: Any) -> bool:
    """Whether this is the manifest of a stage whose files are shards; of packed ones, rows are the documents."""
    if not isinstance(content, dict) or "stage" not in content or content.get("root"):  # which a whole build has
        return False
    totals = content.get("totals")
    return not isinstance(totals, dict) or "shards" in totals  # a damaged one is refused, not passed over


def _find_fault(path: Path, folder: Path) -> str | None:
    """Why a file below a folder is not to be opened; None if it may be, or is not there."""
    # Unlike Path.resolve, realpath takes links that lead to themselves.
    if not Path(os.path.realpath(path)).is_relative_to(folder):
        return f"{path}: a link to a place outside of {folder}"
    if path.exists() and not path.is_file():
        return f"{path}: expected a file, found a folder, a FIFO or a device"
    return None


def _require_finished(place: Path) -> None:
    if _is_of_build(place):
        raise FormatError(f"{place}: a build without shards. Is it finished?")


def _is_of_build(place: Path) -> bool:
    return (place / "plan").is_dir() or (place / "_attempts").is_dir()


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What one shard says about itself: format, tokenizer, documents, tokens."""
    shards = open_shards(path, split="all")
    if len(shards.paths) != 1:
        raise FormatError(f"{path}: a folder of {len(shards.paths)} shards; name one of them")
    name, dtype = shards.stored_as(0)
    return {
        "path": shards.paths[0],
        "format": name,
        "dtype": dtype,
        "documents": len(shards),
        "tokens": shards.num_tokens,
        "tokenizer": shards.fingerprint,
    }


def _find_single_shard(place: Path) -> FormatFile:
    """The shard meant by the path of one of its files, or by that path without suffix."""
    found = find_shard_at(str(place))
    if found is None and place.is_file():
        ends = ", ".join(sorted({suffix for one in READING_ORDER for suffix in one.suffixes}))
        raise FormatError(
            f"{place}: not a file by which a shard goes: they end with {ends}; .npy without NumPy's header"
        )
    if found is None and place.exists():
        raise FormatError(f"{place}: expected a file or a folder, found a FIFO, a socket or a device")
    if found is None:
        raise FormatError(f"{place}: there is no such file or folder")
    return found


def _find_shards_below(place: Path) -> list[FormatFile]:
    """All shards below a folder, in the order of their paths."""
    found = (find_shard_at(str(file)) for file in sorted(place.rglob("*")) if file.is_file())
    return list(dict.fromkeys(one for one in found if one is not None))


def _open_unnamed(found: Sequence[FormatFile]) -> Shards:
    """Shards that no manifest describes: each is opened once to learn what it holds."""
    files = []
    fingerprints: dict[str, str] = {}
    for one in found:
        shard = one.open()
        # Rows must be decoded to count their ids, others need not.
        num_tokens = None if SHARD_FORMATS[one.format].has_columns else shard.num_tokens
        files.append(OpenableShard(one.format, one.path, len(shard), num_tokens, has_gaps=_has_gaps(one)))
        fingerprints.setdefault(shard.fingerprint, one.path)
    if len(fingerprints) > 1:
        one_path, other = list(fingerprints.values())[:2]
        raise IdentityError(f"{one_path} and {other} were written with different tokenizers. Open them apart.")
    return Shards(files, next(iter(fingerprints), ""))


def _has_gaps(file: FormatFile) -> bool:
    """Whether documents were removed from a packed shard in place. Who reads one whose pieces are damaged is told."""
    with contextlib.suppress(FormatError):
        pieces = file.find_pieces()
        return pieces is not None and bool(pieces.read().are_gaps.any())
    return False


def _find_manifest(place: Path) -> tuple[Path, Any] | None:
    """(folder, content) of the manifest of shards that place is under, if there is one; others' are passed over."""
    for root in (place / "shards", place, *list_above(place, _LEVELS_UP)):
        path = root / MANIFEST
        if path.is_file():
            data = path.read_bytes()
            try:
                content = json.loads(data)
            except (ValueError, RecursionError) as error:
                raise FormatError(f"{path}: not a manifest: {error}") from error
            if _names_shards(content):
                return root, parse_canonical(data, str(path))
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class _NoFacts:
    """Of a file that is no shard's, nothing is needed."""


@dataclasses.dataclass(frozen=True, slots=True)
class _File:
    path: str
    size_bytes: int
    sha256: str
    about: ShardFacts | _NoFacts


@dataclasses.dataclass(frozen=True, slots=True)
class _Totals:
    fingerprint: str


@dataclasses.dataclass(frozen=True, slots=True)
class _Config:
    in_place_of: str = ""  # of packed rows, from which documents were removed in place


@dataclasses.dataclass(frozen=True, slots=True)
class _ShardsManifest:
    """What is needed of the manifest of shards, which schemas describes in full."""

    files: tuple[_File, ...]
    totals: _Totals
    config: _Config = _Config()


def _list_named_shards(root: Path | str, content: Any) -> tuple[list[OpenableShard], str]:
    """The shards that a manifest names, in its order, and their tokenizer's fingerprint.

    root: the folder of the manifest; a str is the URL of one.
    """
    manifest = _read_named(root, content)
    if not isinstance(root, str):
        for _, fault in _find_faults(root, manifest):
            raise FormatError(fault)
    return _list_openable(root, manifest, {}), manifest.totals.fingerprint


def _read_named(root: Path | str, content: Any) -> _ShardsManifest:
    path = f"{root}/{MANIFEST}"
    require_version(content, path, MANIFEST_FORMAT, *MANIFEST_VERSIONS)
    manifest = from_jsonable(_ShardsManifest, content, path, partial=True)
    for i, file in enumerate(manifest.files):
        if not _is_plain(file.path):
            raise FormatError(f"{path}: names {file.path!r}, which is not below its folder")
        if isinstance(facts := file.about, ShardFacts) and (facts.documents < 0 or facts.tokens < 0):
            raise Place(path, f"files[{i}].about").error("two counts", facts)
    return manifest


def _list_openable(root: Path | str, manifest: _ShardsManifest, faults: Collection[str]) -> list[OpenableShard]:
    """The shards that a manifest names, in its order; not those that need a file at fault, such as an index."""
    by_path = {file.path: file for file in manifest.files}
    shut = {name.partition("/")[0] for name in faults if not isinstance(by_path[name].about, ShardFacts)}
    files = []
    for file in manifest.files:
        if not isinstance(facts := file.about, ShardFacts):
            continue
        if (one := find_format_of(file.path, facts.stem)) is None:
            continue
        needed = [file.path, *list_all_paths([one.name], facts.stem, is_shuffled=True, is_packed=True)]
        if one.name in shut or any(name in faults for name in needed):
            continue
        remote = tuple(
            RemoteFile(f"{root}/{name}", name, by_path[name].size_bytes, by_path[name].sha256)
            for name in dict.fromkeys(needed)
            if isinstance(root, str) and name in by_path
        )
        has_gaps = bool(manifest.config.in_place_of)
        files.append(
            OpenableShard(one.name, f"{root}/{file.path}", facts.documents, facts.tokens, remote, has_gaps=has_gaps)
        )
    if (total := sum(file.num_documents for file in files)) > sys.maxsize:
        raise FormatError(f"{root}/{MANIFEST}: its files have {total} documents, more than any disk holds")
    return files


def _find_faults(root: Path, manifest: _ShardsManifest) -> Iterator[tuple[str, str]]:
    """The files below a folder that are not to be opened, and why."""
    for file in manifest.files:
        if (fault := _find_fault(root / file.path, root)) is not None:
            yield file.path, fault


def _is_plain(path: str) -> bool:
    """Whether a path that a manifest names is relative, and stays below its folder if there are no links."""
    if path.startswith("/") or "\\" in path or "\0" in path or "://" in path:
        return False
    return not any(name in ("", ".", "..") for name in path.split("/"))


def _choose_one_format(place: Path | str, shards: Sequence[Found]) -> list[Found]:
    """The shards in the format, of those that are there, that is read most gladly."""
    if not shards:
        raise FormatError(f"{place}: no shards in it. Is the build finished?")
    names = sorted({shard.format for shard in shards}, key=rank_reading)
    found = {name: [shard for shard in shards if shard.format == name] for name in names}
    if len({len(own) for own in found.values()}) > 1:
        numbers = " and ".join(f"{len(own)} {name}" for name, own in found.items())
        raise FormatError(
            f"{place}: {numbers} shards, which are not the same shards in several formats. Open the folder of one "
            f"format."
        )
    return next(iter(found.values()))


def _is_in_split(path: str, split: str) -> bool:
    name = Path(path).name
    return split == "all" or name.startswith(f"{split}-") or not name.startswith(("train-", "validation-"))
