"""`--from OTHER`: take over what another output holds, where it is what this build would make. Files are copied."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Collection, Iterator
from typing import Any

from tokcore.errors import StageError
from tokcore_pipelines.build.commit import find_manifest, get_folder
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.packed_rows import PackedRows
from tokcore_schemas.refs import StoredFile
from tokcore_schemas.shard_entries import Afresh
from tokcore_schemas.spooled_blocks import SpooledBlocks
from tokcore_schemas.stage_table import Stage

_BLOCK_BYTES = 1 << 20


def find_reusable(other: str, stage: Stage[Any], identity: str) -> AnyManifest | None:
    """The manifest of a stage of another output, if equal work gave it; None if it is other work, or not there."""
    made = find_manifest(other, stage)
    return made if made is not None and made.identity == identity else None


def copy_files(other: str, made: AnyManifest, attempts: Attempts) -> Collection[tuple[StoredFile, Any]]:
    """The files that a manifest of another output names, copied to a working folder, and the facts about each.

    Raises StageError, naming the file, if its bytes are not those that the manifest names.
    """
    names = PackedRows(lambda name: [name], str, blocks=SpooledBlocks())  # of attempts
    for entry in made.files:
        for file in entry.describe().list_files():
            names.append(_copy_file(other, made.stage, file, attempts))

    def list_copied() -> Iterator[tuple[StoredFile, Any]]:
        copied = iter(names)
        for entry in made.files:
            named = entry.describe()
            if named.parts:
                parts = tuple(dataclasses.replace(part, attempt=next(copied)) for part in named.parts)
                yield dataclasses.replace(named, parts=parts), entry.about
            else:
                yield dataclasses.replace(named, attempt=next(copied)), entry.about

    return Afresh(list_copied)


def _copy_file(other: str, stage: str, file: StoredFile, attempts: Attempts) -> str:
    """Copy a file; its name in the attempt folder."""
    url = urls.join(get_folder(other, stage), file.path)
    with attempts.new_final(file.path) as new, storage.open_read(url) as source:
        shutil.copyfileobj(source, new.file, _BLOCK_BYTES)
    stored = new.stored(file.path, file.content_sha256)
    if (stored.size_bytes, stored.sha256) != (file.size_bytes, file.sha256):
        raise StageError(
            f"{redact(url)}: its bytes are not the ones that were committed. "
            f"`tokcore repair {redact(other)}` makes them again; or leave out --from"
        )
    return stored.attempt
