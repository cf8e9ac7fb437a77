"""Manifests as they are stored: the one door through which processes read them. Long ones are read in parts.

Workers read those that were there when the stage that is made from them began.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterator
from typing import Any, cast

from tokcore.errors import StageError
from tokcore.files.canonical_json import hash_sha256
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.stage_table import PACKED_BYTES, Made, Stage, parse_long_manifest, parse_manifest

_BLOCK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest.json that is there."""

    url: str
    sha256: str
    size_bytes: int
    data: bytes | None = dataclasses.field(compare=False)  # None: it is long, and read again when it is parsed

    def parse(self, stage: Stage[Made]) -> Made:
        """What it says. Raises FormatError if it is not a manifest of this stage, StageError if it was replaced."""
        return cast(Made, _parse(self, stage))

    def read(self) -> Iterator[bytes]:
        """All of it; of a long one in parts. Raises StageError, at the end, if it was replaced."""
        hasher = hashlib.sha256()
        for some in self.read_unchecked():
            hasher.update(some)
            yield some
        if hasher.hexdigest() != self.sha256:
            raise StageError(f"{redact(self.url)}: was replaced while it was read. Run the command again.")

    def read_unchecked(self) -> Iterator[bytes]:
        """As read, but of what is there by now: for who does not read to the end."""
        if self.data is not None:
            yield self.data
            return
        with storage.open_read(self.url) as file:
            while some := file.read(_BLOCK_BYTES):
                yield some


def find_manifest_file(url: str, is_long: bool = False) -> ManifestFile | None:
    """The file at a URL; None if there is none. is_long: whether it is known to be, so that a store is asked for parts.

    Raises StageError if it cannot be read.
    """
    if not is_long and not urls.is_local(url):
        data = storage.read_if_there(url)
        return None if data is None else ManifestFile(url, hash_sha256(data), len(data), data)
    if (opened := storage.open_if_there(url)) is None:
        return None
    with opened as file:
        if file.size() < PACKED_BYTES:
            data = file.read()
            return ManifestFile(url, hash_sha256(data), len(data), data)
        hasher, size_bytes = hashlib.sha256(), 0
        while some := file.read(_BLOCK_BYTES):
            hasher.update(some)
            size_bytes += len(some)
    return ManifestFile(url, hasher.hexdigest(), size_bytes, None)


# A build reads each of its manifests often, in case another build has changed it.
@functools.lru_cache(maxsize=8)
def _parse(file: ManifestFile, stage: Stage[Any]) -> AnyManifest:
    if file.data is None:
        return cast(AnyManifest, parse_long_manifest(file.read, file.url, stage))
    return cast(AnyManifest, parse_manifest(file.data, file.url, stage))


def read_manifest(output: str, stage: Stage[Made], sha256: str = "", meanwhile: str = "") -> Made:
    """The manifest of a finished stage. Raises StageError if it is gone, FormatError if it is damaged.

    sha256: of its file; "": any. Raises StageError if it is another one; meanwhile: what was done, for the message.
    """
    url = urls.join(output, stage.name, "manifest.json")
    if (found := find_manifest_file(url)) is None:
        raise StageError(f"{redact(url)}: missing; it was removed meanwhile")
    if sha256 and found.sha256 != sha256:
        raise StageError(f"{redact(url)}: was replaced while {meanwhile}. Run the command again.")
    return found.parse(stage)
