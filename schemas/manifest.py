"""Manifests: what a stage made, in one canonical byte form, with nothing in it that two equal builds could differ in.

A stage has two names. Its identity (configuration and exact inputs) says whether work can be reused. Its content id
says what came out, whatever codec version stored it: the build's root is made of content ids alone.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

from schemas.refs import StoredFile
from tokcore.canonical import MANIFEST_FORMAT, MANIFEST_VERSION, canonical_json, parse_canonical
from tokcore.errors import ChecksumError, FormatError
from tokcore.jsonable import from_jsonable, require_version, to_jsonable

# What depends on codec, file version or how work was keyed rather than on what is in the files.
_NOT_CONTENT = frozenset({"sha256", "size_bytes", "identity"})


@dataclasses.dataclass(frozen=True, slots=True)
class FileEntry:
    """One file that the manifest vouches for."""

    path: str  # relative to the manifest
    size_bytes: int  # as stored
    sha256: str  # of the file as stored
    content_sha256: str  # of the uncompressed content
    about: dict[str, Any] = dataclasses.field(default_factory=dict)  # e.g. documents and tokens of a shard

    @classmethod
    def of(cls, stored: StoredFile, **about: Any) -> FileEntry:
        return cls(stored.path, stored.size_bytes, stored.sha256, stored.content_sha256, about)


@dataclasses.dataclass(frozen=True, slots=True)
class Input:
    """The manifest of an earlier stage that this stage was made from."""

    sha256: str  # of the manifest file
    content_sha256: str  # its content id


@dataclasses.dataclass(frozen=True, slots=True)
class Manifest:
    """The result of one stage, or of the build as a whole (stage "build")."""

    stage: str
    identity: str  # sha256 of configuration, semantics versions and exact inputs
    config: dict[str, Any]  # the settings that can change these bytes
    inputs: dict[str, Input]  # stage -> its manifest
    files: tuple[FileEntry, ...]
    totals: dict[str, Any]
    languages: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    root: str = ""  # only of the build: see content_id
    format: str = MANIFEST_FORMAT
    format_version: int = MANIFEST_VERSION

    def to_bytes(self) -> bytes:
        return canonical_json(to_jsonable(self))

    def as_input(self) -> Input:
        return Input(hashlib.sha256(self.to_bytes()).hexdigest(), self.content_id())

    def content_id(self) -> str:
        """sha256 over everything but codec-dependent fields, the work key and the root itself."""
        value = to_jsonable(self)
        del value["root"]
        return hashlib.sha256(canonical_json(_content(value))).hexdigest()


def parse_manifest(data: bytes, name: str) -> Manifest:
    """The manifest in these bytes; name says where they came from.

    Raises FormatError unless they are canonical, VersionError for a newer format, ChecksumError for a false root.
    """
    value = parse_canonical(data, name)
    require_version(value, name, MANIFEST_FORMAT, MANIFEST_VERSION)
    manifest = from_jsonable(Manifest, value, name)
    if manifest.to_bytes() != data:
        raise FormatError(f"{name}: not a manifest as tokcore writes it: a field is missing")
    if manifest.root and manifest.root != manifest.content_id():
        raise ChecksumError(f"{name}: its root is {manifest.root}, its content gives {manifest.content_id()}")
    return manifest


def identity_of(stage: str, config: dict[str, Any], inputs: dict[str, Input], semantics: dict[str, Any]) -> str:
    """The key under which a stage's work may be reused: equal keys, equal bytes."""
    key = {
        "stage": stage,
        "config": config,
        "inputs": {name: entry.sha256 for name, entry in inputs.items()},
        "semantics": semantics,
        "format_version": MANIFEST_VERSION,
    }
    return hashlib.sha256(canonical_json(key)).hexdigest()


def _content(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _content(item) for key, item in value.items() if key not in _NOT_CONTENT}
    if isinstance(value, list):
        return [_content(item) for item in value]
    return value
