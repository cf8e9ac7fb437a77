"""Manifests: what a stage made, in one canonical byte form, with nothing in it that two equal builds could differ in.

A stage has two names. Its identity (configuration and exact inputs) says whether work can be reused. Its content id
says what came out, whatever codec version stored it: the build's root is made of content ids alone. It is the root of
a Merkle tree (tokcore_schemas.merkle), so that a short proof shows that an output holds a file.

What a manifest holds differs by stage: tokcore_schemas.stage_manifests says what.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from tokcore.errors import FormatError
from tokcore.files.canonical_json import MANIFEST_FORMAT, MANIFEST_VERSION, hash_pieces, write_canonical_json
from tokcore.files.jsonable import to_jsonable, written_unless
from tokcore_schemas.merkle import Step, hash_leaf, hash_tree, prove
from tokcore_schemas.refs import FilePart, StoredFile

T = TypeVar("T")
Config = TypeVar("Config")  # the settings that can change these bytes
Totals = TypeVar("Totals")
Language = TypeVar("Language")  # the facts about each language
About = TypeVar("About")  # the facts about each file

# What depends on codec, file version or how work was keyed rather than on what is in the files. Where lang_normalize
# changes a code, the languages and the ledgers say so.
_NOT_CONTENT = frozenset({"sha256", "size_bytes", "identity", "decoded_from", "lang_normalize"})

# Consecutive entries of a manifest that have a tree of their own.
ENTRIES_PER_PART = 10_000

_BUILD = "build"  # stage_manifests.BUILD


@dataclasses.dataclass(frozen=True, slots=True)
class FileEntry(Generic[About]):
    """One file that the manifest vouches for, or a table that lies in several."""

    path: str  # relative to the manifest
    size_bytes: int  # as stored
    sha256: str  # of the file as stored
    content_sha256: str  # of the uncompressed content
    about: About
    parts: tuple[FilePart, ...] = written_unless(())  # as of StoredFile; not content, as size_bytes and sha256

    @classmethod
    def of(cls, stored: StoredFile, about: About) -> FileEntry[About]:
        """The entry of a file that a worker stored."""
        parts = tuple(dataclasses.replace(part, attempt="") for part in stored.parts)
        return cls(stored.path, stored.size_bytes, stored.sha256, stored.content_sha256, about, parts)

    def describe(self) -> StoredFile:
        """The file, at its final place."""
        return StoredFile(self.path, "", self.size_bytes, self.sha256, self.content_sha256, self.parts)

    def list_files(self) -> Iterator[FileEntry[About]]:
        """The files that there are: this one, or its parts."""
        if not self.parts:
            yield self
        for file in self.describe().list_files() if self.parts else ():
            yield FileEntry.of(file, self.about)


@dataclasses.dataclass(frozen=True, slots=True)
class Input:
    """The manifest of an earlier stage that this stage was made from."""

    sha256: str  # of the manifest file
    content_sha256: str  # its content id


class LongFiles(Sequence[FileEntry[Any]]):
    """The files of a long manifest, of which there may be millions, without an object for each: PackedEntries."""

    @abc.abstractmethod
    def find(self, path: str) -> FileEntry[Any] | None:
        """The first entry of that path."""

    @abc.abstractmethod
    def list_json(self) -> Iterator[bytes]:
        """The entries as canonical JSON, some at a time, with commas between them."""

    @abc.abstractmethod
    def list_values(self) -> Iterator[dict[str, Any]]:
        """The JSON form of each entry."""

    @abc.abstractmethod
    def remember_parts(self, stage: str, compute: Callable[[], list[str]]) -> list[str]:
        """What compute gives for a manifest of that stage, which is called once: it takes a minute of very many."""


@dataclasses.dataclass(frozen=True, slots=True)
class Manifest(Generic[Config, Totals, Language, About]):
    """The result of one stage, or of the build as a whole (stage "build")."""

    stage: str
    identity: str  # sha256 of configuration, semantics versions and exact inputs
    config: Config
    inputs: dict[str, Input]  # stage -> its manifest
    files: tuple[FileEntry[About], ...]  # of a long manifest LongFiles, packed
    totals: Totals
    languages: dict[str, Language] = dataclasses.field(default_factory=dict)
    root: str = ""  # only of the build: see content_id
    format: str = MANIFEST_FORMAT
    format_version: int = MANIFEST_VERSION

    def to_bytes(self) -> bytes:
        """The content of manifest.json: canonical, the same bytes for the same manifest."""
        if isinstance(self.files, LongFiles):
            return b"".join(self.write())
        return write_canonical_json(to_jsonable(self))

    def as_input(self) -> Input:
        """What a stage made from this one says of it."""
        return Input(self.hash_file(), self.content_id())

    def hash_file(self) -> str:
        """sha256 of manifest.json."""
        return hash_pieces(self.write())

    def write(self) -> Iterator[bytes]:
        """What to_bytes gives, some entries at a time."""
        head = to_jsonable(dataclasses.replace(self, files=()))
        before = {key: value for key, value in head.items() if key < "files"}
        after = {key: value for key, value in head.items() if key > "files"}
        yield write_canonical_json(before)[:-2] + b',"files":['
        comma = b""
        for some in _list_json(self.files):
            yield comma + some
            comma = b","
        yield b"]," + write_canonical_json(after)[1:]

    def list_files(self) -> Iterator[FileEntry[About]]:
        """The files that there are, in order: each entry, or where it has parts, each of these."""
        return (file for entry in self.files for file in entry.list_files())

    def file(self, path: str) -> FileEntry[About]:
        """The entry of a file that every manifest of this stage names. Raises FormatError if this one does not."""
        if isinstance(self.files, LongFiles):
            found = self.files.find(path)
        else:
            found = next((entry for entry in self.files if entry.path == path), None)
        if found is None:
            raise FormatError(f"{self.stage}/manifest.json: names no {path}")
        return found

    def content_id(self) -> str:
        """The root of a Merkle tree over all but the root, the identity, what a codec decides (sizes and hashes of
        stored files), what follows from other hashes (md5), and the result keys in names, which follow from pins.
        Of version 1: one sha256 of it all.
        """
        if self.format_version == 1:
            return self._hash_as_version_1()
        return hash_tree(self._list_trees()).hex()

    def list_parts(self) -> list[str]:
        """The root of each part: of at most ENTRIES_PER_PART entries, in their order."""
        if isinstance(self.files, LongFiles):
            return self.files.remember_parts(self.stage, functools.partial(self._hash_parts, self.files.list_values()))
        return self._hash_parts(map(to_jsonable, self.files))

    def _hash_parts(self, entries: Iterable[dict[str, Any]]) -> list[str]:
        leaves = (hash_leaf(self._write_leaf(entry)) for entry in entries)
        return [hash_tree(part).hex() for part in _cut_into_parts(leaves)]

    def write_leaf(self, entry: FileEntry[About]) -> bytes:
        """The leaf of an entry: its content in canonical JSON, with the path below the output."""
        return self._write_leaf(to_jsonable(entry))

    def _write_leaf(self, entry: dict[str, Any]) -> bytes:
        value = _get_content_of_entry(entry)
        value["path"] = entry["path"] if self.stage == _BUILD else f"{self.stage}/{value['path']}"
        return write_canonical_json(value)

    def prove_entry(self, path: str) -> list[Step]:
        """The steps from the leaf of a file up to the content id. path: relative to the manifest.

        Raises FormatError if the manifest does not name it, or is of version 1, which has no proofs.
        """
        self._require_tree()
        number = self.files.index(self.file(path))
        part, place = divmod(number, ENTRIES_PER_PART)
        first = part * ENTRIES_PER_PART
        leaves = [hash_leaf(self.write_leaf(entry)) for entry in self.files[first : first + ENTRIES_PER_PART]]
        return [*prove(leaves, place), *prove(self._list_trees(), 1 + len(self.inputs) + part)]

    def prove_input(self, stage: str) -> list[Step]:
        """The steps from the content id of a stage that this one was made from up to its own. Raises as prove_entry."""
        self._require_tree()
        return prove(self._list_trees(), 1 + sorted(self.inputs).index(stage))

    def _require_tree(self) -> None:
        if self.format_version == 1:
            raise FormatError(
                f"{self.stage}/manifest.json: of format_version 1, whose root proves no single file. "
                f"Build again into a new output."
            )

    def _list_trees(self) -> list[bytes]:
        """The roots below the content id: of all but the files, of each stage that this one was made from, of parts."""
        head = _get_content(to_jsonable(dataclasses.replace(self, files=(), root="")))
        del head["root"]
        head.update(files=len(self.files), inputs=sorted(self.inputs))
        made_from = [bytes.fromhex(self.inputs[stage].content_sha256) for stage in sorted(self.inputs)]
        return [hash_leaf(write_canonical_json(head)), *made_from, *map(bytes.fromhex, self.list_parts())]

    def _hash_as_version_1(self) -> str:
        value = to_jsonable(self)
        del value["root"]
        value["files"] = [_get_content_of_entry(entry) for entry in value["files"]]
        return hashlib.sha256(write_canonical_json(_get_content(value))).hexdigest()


AnyManifest = Manifest[Any, Any, Any, Any]


def compute_identity(
    stage: str,
    config: object,
    inputs: Mapping[str, Input],
    semantics: Mapping[str, Any],
    format_version: int = MANIFEST_VERSION,
) -> str:
    """The key under which a stage's work may be reused: equal keys, equal bytes. config: as its manifest has it."""
    key = {
        "stage": stage,
        "config": to_jsonable(config),
        "inputs": {name: entry.sha256 for name, entry in inputs.items()},
        "semantics": dict(semantics),
        "format_version": format_version,
    }
    return hashlib.sha256(write_canonical_json(key)).hexdigest()


def remove_result_key(path: str, key: str) -> str:
    """The path of a file without the result key in its name.

    >>> remove_result_key("megatron/train-00000-00000-0a1b2c3d4e5f_text_document.bin", "0a1b2c3d4e5f")
    'megatron/train-00000-00000_text_document.bin'
    """
    before, dash, after = path.rpartition(f"-{key}")
    return before + after if key and dash else path


def _list_json(files: Sequence[FileEntry[Any]]) -> Iterator[bytes]:
    """As LongFiles.list_json, of any files."""
    if isinstance(files, LongFiles):
        return files.list_json()
    return (write_canonical_json(to_jsonable(part))[1:-2] for part in _cut_into_parts(files))


def _cut_into_parts(entries: Iterable[T]) -> Iterator[list[T]]:
    waiting = iter(entries)
    while part := [*itertools.islice(waiting, ENTRIES_PER_PART)]:
        yield part


def _get_content_of_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """The content of a file's entry, with no result key in its name, and no hash that follows from content_sha256."""
    about = dict(entry["about"])
    key = about.pop("result_key", "")
    about.pop("md5", None)
    entry = {key: value for key, value in entry.items() if key != "parts"}  # how rows are cut is no content
    content: dict[str, Any] = _get_content({**entry, "about": about, "path": remove_result_key(entry["path"], key)})
    return content


def _get_content(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _get_content(item) for key, item in value.items() if key not in _NOT_CONTENT}
    if isinstance(value, list):
        return [_get_content(item) for item in value]
    return value
