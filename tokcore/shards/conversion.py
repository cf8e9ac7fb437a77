"""Shards from one format to another, a batch of documents at a time, without tokenizing again.

What is read may be ours or of others: rows with a column of ids, or ids with or without bounds. Leaves to others: where
files are written, and that all of them appear at once (tokcore_pipelines.look.convert).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

import numpy as np

from tokcore.errors import ConfigError, FormatError, IdentityError
from tokcore.formats.documents import SUFFIX as DOCUMENTS
from tokcore.formats.documents import get_documents_path
from tokcore.formats.foreign_rows import ForeignRows, open_foreign_rows
from tokcore.formats.metadata import Told
from tokcore.formats.pieces import SUFFIX as PIECES
from tokcore.formats.pieces import PiecesFile, PiecesWriter
from tokcore.formats.shard_facts import ShardFacts
from tokcore.formats.shard_format import (
    PlainIds,
    ShardFormat,
    ShardReader,
    ShardSettings,
    ShardWithDocuments,
    StoredShard,
    count_most_ids,
)
from tokcore.shards.format_table import SHARD_FORMATS, FormatFile, get_folder
from tokcore.shards.labels import repeat_label
from tokcore.shards.shard_writing import ShardInFormats
from tokcore.shards.token_batch import Ids, Offsets, TokenBatch

# The language of documents for which nothing names one, as in a build file that tokcore writes.
UNKNOWN_LANG = "und"

NewFile = Callable[[str], AbstractContextManager[BinaryIO]]

_OWN_NAMES = ("train-", "validation-")
_VALIDATION = ("validation", "valid", "val", "dev")
_BLOCK = 1 << 20  # ids that are looked at together for the ends of documents


class Reading(NamedTuple):
    """How to read what files do not say themselves."""

    end: int | None = None  # id that ends each document, for files without bounds
    whole: bool = False  # whether a file without bounds is one document
    dtype: str = ""  # of ids, for files that nothing says it of


class NewIds(NamedTuple):
    """Other ids for the same documents: of a smaller vocabulary, or of another tokenizer."""

    before: str  # fingerprint of the tokenizer that the documents were encoded with
    after: str  # of the other one
    vocab_size: int  # of the other one
    change: Callable[[TokenBatch], TokenBatch]  # raises FormatError for ids that are not of the first
    note: str = ""  # for people


class Origin(NamedTuple):
    """A shard to read."""

    file: FormatFile
    name: str  # source of its documents where nothing names one
    stem: str  # [LANG/]NAME of the shards to write
    split: str


class OpenOrigin(NamedTuple):
    """A shard that is read: what it says of itself, and its documents."""

    fingerprint: str
    vocab_size: int | None
    notes: tuple[str, ...]  # what it does not say
    batches: Callable[[], Iterator[TokenBatch]]
    told: Told = ()  # the user's own columns


def list_origins(files: Sequence[FormatFile], root: str) -> list[Origin]:
    """Shards to read, in their order, with the names of what to write from them.

    root: the folder whose name is in none of them. Shards that have names of ours keep them; others are numbered.
    """
    places = [_place_below(file, root) for file in files]
    own = all(name.startswith(_OWN_NAMES) for _, name, _ in places)
    origins = []
    for number, (file, (folder, name, split)) in enumerate(zip(files, places, strict=True)):
        stem = f"{folder}/{name}" if folder else name
        source = Path(file.path).relative_to(root).as_posix()
        origins.append(Origin(file, source, stem if own else f"{split}-{number:05d}-00000", split))
    return origins


def _place_below(file: FormatFile, root: str) -> tuple[str, str, str]:
    """(folder of its language or "", name without suffix, split) of a shard below a folder."""
    one = SHARD_FORMATS[file.format]
    path = PurePosixPath(Path(file.path).relative_to(root).as_posix())
    name = path.name.removesuffix(next((end for end in one.suffixes if path.name.endswith(end)), path.suffix))
    folders = list(path.parts[:-1])
    words = [*folders, name.partition("-")[0], name.partition("_")[0], name]
    split = "validation" if any(word in _VALIDATION for word in words) else "train"
    while folders and folders[0] in ("shards", one.name, "train", "validation"):
        del folders[0]
    return "/".join(folders), name, split


def open_origin(origin: Origin, reading: Reading) -> OpenOrigin:
    """The documents of a shard. Raises ConfigError for one that does not say where they end, and FormatError."""
    one, path = SHARD_FORMATS[origin.file.format], origin.file.path
    if one.open_batches is not None and (rows := open_foreign_rows(one.open_batches(path))) is not None:
        return _open_rows(rows, origin)
    if one.open_plain is not None and not says_bounds(origin.file):
        return _open_plain(one.open_plain(path, reading.dtype), origin, reading)
    reader = origin.file.open()
    if isinstance(reader, ShardWithDocuments) and not reader.has_documents:
        note = f"no languages, ids and sources: language {UNKNOWN_LANG}, source and ordinal are file and row"
        batches = lambda: reader.batches_of_ids(origin.name, UNKNOWN_LANG)  # noqa: E731
        return OpenOrigin("", None, (note,), batches)
    provenance = origin.file.find_provenance()
    batches = reader.batches if provenance is None else lambda: provenance.restore_all(reader.batches())
    told = getattr(reader, "told", ())
    return OpenOrigin(reader.fingerprint, _find_vocab_size(reader), (), batches, told)


def _find_vocab_size(reader: ShardReader) -> int | None:
    return reader.vocab_size if isinstance(reader, ShardWithDocuments) else None


def says_bounds(file: FormatFile) -> bool:
    """Whether the files of a shard, or its documents file, say where documents end."""
    told = SHARD_FORMATS[file.format].has_bounds or file.find_documents() is not None
    return told and all(Path(path).is_file() for path in file.list_files())


def _open_rows(rows: ForeignRows, origin: Origin) -> OpenOrigin:
    notes = (
        () if rows.has_columns else (f"not all of lang and source: {UNKNOWN_LANG} and the file's name stand for them",)
    )
    return OpenOrigin("", None, notes, lambda: rows.batches(origin.name, UNKNOWN_LANG))


def _open_plain(ids: PlainIds, origin: Origin, reading: Reading) -> OpenOrigin:
    if reading.end is not None:
        note, end = f"no bounds: a document ends after each id {reading.end}", reading.end
        return OpenOrigin("", None, (note,), lambda: cut_after(ids, end, origin.name))
    if reading.whole:
        return OpenOrigin("", None, ("no bounds: each file is one document",), lambda: _take_whole(ids, origin.name))
    raise ConfigError(
        f"{ids.path}: does not say where documents end, and no file beside it does. Give the id of the token that ends "
        f"each with --end ID, or --whole to take each file for one document"
    )


def cut_after(ids: PlainIds, end: int, source: str, block_ids: int = _BLOCK) -> Iterator[TokenBatch]:
    """The documents of a file of ids, each up to an id and with it; the last one may lack it."""
    kept = [np.zeros(0, np.int32)]  # of the document that the block before does not end
    ordinal = 0
    for start in range(0, ids.num_tokens, block_ids):
        block = ids.part(start, min(start + block_ids, ids.num_tokens)).astype(np.int32)
        ends = np.flatnonzero(block == end) + 1
        if not len(ends):
            kept.append(block)
            continue
        tokens = np.concatenate([*kept, block[: int(ends[-1])]])
        offsets = np.concatenate([np.zeros(1, np.int64), ends + (len(tokens) - int(ends[-1]))])
        yield _make_plain_batch(tokens, offsets, source, ordinal)
        ordinal += len(ends)
        kept = [block[int(ends[-1]) :]]
    if any(len(part) for part in kept):
        tokens = np.concatenate(kept)
        yield _make_plain_batch(tokens, np.array([0, len(tokens)], np.int64), source, ordinal)


def _take_whole(ids: PlainIds, source: str) -> Iterator[TokenBatch]:
    yield _make_plain_batch(
        ids.part(0, ids.num_tokens).astype(np.int32), np.array([0, ids.num_tokens], np.int64), source, 0
    )


def _make_plain_batch(tokens: Ids, offsets: Offsets, source: str, ordinal: int) -> TokenBatch:
    num = len(offsets) - 1
    ordinals = np.arange(ordinal, ordinal + num, dtype=np.int64)
    return TokenBatch(
        tokens, offsets, [None] * num, repeat_label(UNKNOWN_LANG, num), repeat_label(source, num), ordinals
    )


@dataclasses.dataclass(slots=True)
class Converted:
    """What was written."""

    shards: int = 0
    documents: int = 0
    tokens: int = 0
    notes: dict[str, str] = dataclasses.field(default_factory=dict)  # what files did not say -> the first such file


def find_settings(
    origins: Iterable[Origin],
    reading: Reading,
    vocab_size: int | None,
    compression: str,
    dtype: str,
    target: ShardFormat,
    new_ids: NewIds | None = None,
) -> ShardSettings:
    """What holds for all shards to write. Reads all ids if nothing says how many there can be.

    Raises IdentityError for shards of several tokenizers, or of another one than new_ids is for; ConfigError for a
    dtype that the format lacks or that does not hold every id, and for rows whose documents would get other ids.
    """
    vocab_size = vocab_size if new_ids is None else new_ids.vocab_size
    metadata: dict[str, str] = {}  # the user's own columns
    fingerprints: dict[str, str] = {}
    told = vocab_size or 0
    for origin in origins:
        opened = open_origin(origin, reading)
        fingerprints.setdefault(opened.fingerprint, origin.file.path)
        if new_ids is not None and origin.file.find_pieces() is not None:
            raise ConfigError(
                f"{origin.file.path}: holds rows of one length, which other ids would change. Convert the documents "
                f"that they were made of, and make rows of these"
            )
        for name, kind in opened.told:
            if metadata.setdefault(name, kind) != kind:
                raise FormatError(f"{origin.file.path}: column {name} is {kind}, in an earlier shard {metadata[name]}")
        if vocab_size is None:
            told = max(told, opened.vocab_size or _count_ids(opened))
    if len(fingerprints) > 1:
        one, other = list(fingerprints.values())[:2]
        raise IdentityError(f"{one} and {other} were written with different tokenizers. Convert them apart.")
    fingerprint = next(iter(fingerprints), "")
    if new_ids is not None:
        if fingerprint not in ("", new_ids.before):
            raise IdentityError(
                f"{fingerprints[fingerprint]}: was written with the tokenizer {fingerprint}, not with {new_ids.before}"
            )
        fingerprint = new_ids.after
    told = max(told, 1)
    if dtype and dtype not in target.dtypes:
        known = " or ".join(target.dtypes) if target.dtypes else "one dtype alone"
        raise ConfigError(f"--dtype {dtype}: {target.name} has {known}")
    if dtype and told > count_most_ids(dtype):
        raise ConfigError(
            f"--dtype {dtype}: holds {count_most_ids(dtype)} ids, the vocabulary has {told}. Leave --dtype out"
        )
    settings = ShardSettings(fingerprint, told, compression, metadata=tuple(sorted(metadata.items())))
    return settings._replace(dtype=dtype) if dtype else settings


def _count_ids(opened: OpenOrigin) -> int:
    return max((int(batch.tokens.max(initial=-1)) for batch in opened.batches()), default=-1) + 1


def convert(
    origins: Iterable[Origin],
    reading: Reading,
    target: ShardFormat,
    settings: ShardSettings,
    new_file: NewFile,
    new_ids: NewIds | None = None,
) -> Converted:
    """Write the documents of shards in a format, as its folder, with a documents file beside each shard that needs one.

    new_file: a new file at a path below that folder. A shard becomes one shard, or several if the format holds no more.
    new_ids: other ids for them, by which settings were found.
    Raises FormatError naming the shard that cannot be read or written.
    """
    stored: list[StoredShard] = []
    done = Converted()
    for origin in origins:
        opened = open_origin(origin, reading)
        if new_ids is not None:
            opened = _with_new_ids(opened, new_ids)
        for note in opened.notes:
            done.notes.setdefault(note, origin.name)
        try:
            stored += _convert_one(origin, opened, target, settings, new_file)
        except FormatError as error:
            where = str(error)
            raise type(error)(
                where if where.startswith(origin.file.path) else f"{origin.file.path}: {where}"
            ) from error
    for path, data in target.folder_index(stored, settings).items():
        with new_file(path) as file:
            file.write(data)
    done.shards = len(stored)
    done.documents = sum(shard.facts.documents for shard in stored)
    done.tokens = sum(shard.facts.tokens for shard in stored)
    return done


def _with_new_ids(opened: OpenOrigin, new_ids: NewIds) -> OpenOrigin:
    notes = (*opened.notes, new_ids.note) if new_ids.note else opened.notes
    return opened._replace(batches=lambda: map(new_ids.change, opened.batches()), notes=notes)


def _convert_one(
    origin: Origin, opened: OpenOrigin, target: ShardFormat, settings: ShardSettings, new_file: NewFile
) -> Iterator[StoredShard]:
    batches = opened.batches()
    waiting = next(batches, None)
    number = first = 0
    pieces = origin.file.find_pieces()
    while waiting is not None or not number:
        # In formats that have a limit, names of later shards come after it in the order of names.
        stem = origin.stem if not number else f"{origin.stem}_{number:05d}"
        with contextlib.ExitStack() as stack:
            shard = _NewShard(stem, origin.split, target, settings, stack, new_file)
            while waiting is not None and shard.has_room(waiting):
                shard.write(waiting)
                waiting = next(batches, None)
            made = shard.close()
        if pieces is not None:
            _write_pieces(pieces, first, made.facts, target, settings, new_file)
        yield made
        number, first = number + 1, first + made.facts.documents


def _write_pieces(
    pieces: PiecesFile,
    first: int,
    facts: ShardFacts,
    target: ShardFormat,
    settings: ShardSettings,
    new_file: NewFile,
) -> None:
    """Write what the rows of a new shard are made of beside it. first: the number of its first row in the old one."""
    every = pieces.read()
    start, end = np.searchsorted(every.rows, [first, first + facts.documents]).tolist()
    own = every.slice(start, end)
    folder = get_folder(target, facts.split).removeprefix(target.name).lstrip("/")
    with new_file(f"{folder}/{facts.stem}{PIECES}".lstrip("/")) as file:
        writer = PiecesWriter(file, pieces.length, settings.compression)
        writer.write(own._replace(rows=own.rows - first))
        writer.close()


class _NewShard:
    """One shard while it is written."""

    def __init__(
        self,
        stem: str,
        split: str,
        target: ShardFormat,
        settings: ShardSettings,
        stack: contextlib.ExitStack,
        new_file: NewFile,
    ) -> None:
        lang, _, name = stem.rpartition("/")
        folder = get_folder(target, split).removeprefix(target.name).lstrip("/")
        sidecar = f"{folder}/{stem}{DOCUMENTS}".lstrip("/")
        self._files: list[BinaryIO] = []

        def new(path: str) -> BinaryIO:
            # Everything is below the format's folder here, the documents file included.
            below = sidecar if path == get_documents_path(stem) else path.removeprefix(f"{target.name}/")
            self._files.append(stack.enter_context(new_file(below)))
            return self._files[-1]

        self._target = target
        self._vocab_size = settings.vocab_size
        self._shard = ShardInFormats(ShardFacts(name, 0, lang, split, 0, 0, -1), (target.name,), settings, new)
        self._content = self._shard.content

    def has_room(self, batch: TokenBatch) -> bool:
        """Whether the shard may hold these documents, too; the first ones it must."""
        most = self._target.most_tokens
        held = self._content.num_tokens
        return most is None or not self._content.num_documents or held + batch.num_tokens <= most

    def write(self, batch: TokenBatch) -> None:
        first = self._content.num_documents
        wrong = np.flatnonzero((batch.tokens < 0) | (batch.tokens >= self._vocab_size))
        if len(wrong):
            row = int(np.searchsorted(batch.offsets - batch.offsets[0], int(wrong[0]), side="right")) - 1
            raise FormatError(
                f"document {first + row}: id {int(batch.tokens[wrong[0]])}, the vocabulary has {self._vocab_size} ids"
            )
        self._shard.write(batch)

    def close(self) -> StoredShard:
        facts = self._shard.close()
        return StoredShard(facts, self._files[0].tell(), self._content.hexdigest())
