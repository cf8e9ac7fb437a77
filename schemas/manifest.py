"""Manifests: what a stage made, in one canonical byte form, with nothing in it that two equal builds could differ in.

A stage has two names. Its identity (configuration and exact inputs) says whether work can be reused. Its content id
says what came out, whatever codec version stored it: the build's root is made of content ids alone.

What a manifest holds differs by stage: schemas.stage_manifests says what.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from schemas.refs import StoredFile
from tokcore.canonical import MANIFEST_FORMAT, MANIFEST_VERSION, write_canonical_json
from tokcore.errors import FormatError
from tokcore.jsonable import to_jsonable

Config = TypeVar("Config")  # the settings that can change these bytes
Totals = TypeVar("Totals")
Language = TypeVar("Language")  # the facts about each language
About = TypeVar("About")  # the facts about each file

# What depends on codec, file version or how work was keyed rather than on what is in the files.
_NOT_CONTENT = frozenset({"sha256", "size_bytes", "identity"})


@dataclasses.dataclass(frozen=True, slots=True)
class FileEntry(Generic[About]):
    """One file that the manifest vouches for."""

    path: str  # relative to the manifest
    size_bytes: int  # as stored
    sha256: str  # of the file as stored
    content_sha256: str  # of the uncompressed content
    about: About

    @classmethod
    def of(cls, stored: StoredFile, about: About) -> FileEntry[About]:
        """The entry of a file that a worker stored."""
        return cls(stored.path, stored.size_bytes, stored.sha256, stored.content_sha256, about)


@dataclasses.dataclass(frozen=True, slots=True)
class Input:
    """The manifest of an earlier stage that this stage was made from."""

    sha256: str  # of the manifest file
    content_sha256: str  # its content id


@dataclasses.dataclass(frozen=True, slots=True)
class Manifest(Generic[Config, Totals, Language, About]):
    """The result of one stage, or of the build as a whole (stage "build")."""

    stage: str
    identity: str  # sha256 of configuration, semantics versions and exact inputs
    config: Config
    inputs: dict[str, Input]  # stage -> its manifest
    files: tuple[FileEntry[About], ...]
    totals: Totals
    languages: dict[str, Language] = dataclasses.field(default_factory=dict)
    root: str = ""  # only of the build: see content_id
    format: str = MANIFEST_FORMAT
    format_version: int = MANIFEST_VERSION

    def to_bytes(self) -> bytes:
        """The content of manifest.json: canonical, the same bytes for the same manifest."""
        return write_canonical_json(to_jsonable(self))

    def as_input(self) -> Input:
        """What a stage made from this one says of it."""
        return Input(hashlib.sha256(self.to_bytes()).hexdigest(), self.content_id())

    def file(self, path: str) -> FileEntry[About]:
        """The entry of a file that every manifest of this stage names. Raises FormatError if this one does not."""
        if (found := next((entry for entry in self.files if entry.path == path), None)) is None:
            raise FormatError(f"{self.stage}/manifest.json: names no {path}")
        return found

    def content_id(self) -> str:
        """sha256 over all but the root, the identity, what a codec decides (sizes and hashes of stored files), and the
        result keys in names, which follow from pins.
        """
        value = to_jsonable(self)
        del value["root"]
        for entry in value["files"]:
            if key := entry["about"].pop("result_key", ""):
                entry["path"] = remove_result_key(entry["path"], key)
        return hashlib.sha256(write_canonical_json(_get_content(value))).hexdigest()


AnyManifest = Manifest[Any, Any, Any, Any]


def compute_identity(stage: str, config: object, inputs: Mapping[str, Input], semantics: Mapping[str, Any]) -> str:
    """The key under which a stage's work may be reused: equal keys, equal bytes. config: as its manifest has it."""
    key = {
        "stage": stage,
        "config": to_jsonable(config),
        "inputs": {name: entry.sha256 for name, entry in inputs.items()},
        "semantics": dict(semantics),
        "format_version": MANIFEST_VERSION,
    }
    return hashlib.sha256(write_canonical_json(key)).hexdigest()


def remove_result_key(path: str, key: str) -> str:
    """The path of a file without the result key in its name.

    >>> remove_result_key("megatron/train-00000-00000-0a1b2c3d4e5f_text_document.bin", "0a1b2c3d4e5f")
    'megatron/train-00000-00000_text_document.bin'
    """
    before, dash, after = path.rpartition(f"-{key}")
    return before + after if key and dash else path


def _get_content(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _get_content(item) for key, item in value.items() if key not in _NOT_CONTENT}
    if isinstance(value, list):
        return [_get_content(item) for item in value]
    return value
