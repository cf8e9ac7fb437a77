"""What `tokcore show` shows of a shard: its header, or a document's text beside its tokens."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tokcore.errors import ConfigError, FormatError, IdentityError
from tokcore.formats.partition_names import list_above
from tokcore.shards.opened_shards import Shards, describe, open_shards
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.look.show import BETWEEN
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.local_copies import copy_if_remote
from tokcore_pipelines.store.tokenizers import load_tokenizer
from tokcore_schemas.shard_entries import list_named_shards
from tokcore_schemas.stage_table import SHARDS

# Folders from an output to a shard's file: shards, the format, the language.
_LEVELS_UP = 4


def describe_shard(url: str) -> dict[str, Any]:
    """A shard's header: format, tokenizer, documents, tokens. At a URL, a build's manifest must name it."""
    if urls.is_local(url):
        return describe(str(urls.get_local_path(url)))
    with _copy_remote_shard(url) as path:
        return {**describe(path), "path": url}


@dataclasses.dataclass(frozen=True, slots=True)
class ShownDocument:
    """A document of a shard; tokenizer: the one that wrote it, None if it is not found."""

    id: str | None
    lang: str
    source: str
    ordinal: int
    tokens: list[int]
    tokenizer: Tokenizer | None
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """For --json: text is None without a tokenizer; bytes that are no UTF-8 become U+FFFD in it."""
        text = None if self.tokenizer is None else self.tokenizer.decode(self.tokens).decode("utf-8", "replace")
        about = {name: getattr(self, name) for name in ("id", "lang", "source", "ordinal", "tokens")}
        return {**about, **({"metadata": self.metadata} if self.metadata else {}), "text": text}


def read_document(path: str, row: int, tokenizer: Tokenizer | None) -> ShownDocument:
    """A document of the shards at a path. tokenizer: decodes it; None: the one of the output that holds the shards.

    Raises ConfigError if there are fewer documents, IdentityError for a tokenizer that did not write them.
    """
    if not urls.is_local(path):
        with _copy_remote_shard(path) as copy:
            written_with = load_tokenizer(path.rpartition(BETWEEN)[0]) if tokenizer is None else tokenizer
            return _read_document(path, Path(copy), row, written_with)
    return _read_document(path, urls.get_local_path(path), row, tokenizer)


def _read_document(path: str, place: Path, row: int, tokenizer: Tokenizer | None) -> ShownDocument:
    shards = open_shards(place, split="all")
    if row >= len(shards):
        raise ConfigError(f"{path}:{row}: the shard holds {len(shards)} documents, numbered from 0")
    document = shards.document(row)
    found = _find_tokenizer_above(place, shards) if tokenizer is None else tokenizer
    if found is not None and shards.fingerprint and found.fingerprint != shards.fingerprint:
        raise IdentityError(
            f"{path}: written with tokenizer {shards.fingerprint}, not with {found.fingerprint}. "
            f"Name the one that wrote it with --tokenizer."
        )
    return ShownDocument(*document, shards[row].tolist(), found, shards.metadata(row))


@contextlib.contextmanager
def _copy_remote_shard(url: str) -> Iterator[str]:
    """A copy of the file at the URL of a shard, with the shard's other files beside it, while the block runs.

    Raises ConfigError if it is no file that the manifest of an output names.
    """
    output, _, path = url.rpartition(BETWEEN)
    for shard in list_named_shards(require_manifest(output, SHARDS, "build")):
        files = [file.path for file in shard.files]
        if path in files:
            with copy_if_remote(urls.join(output, "shards"), files) as folder:
                yield f"{folder}/{path}"
            return
    raise ConfigError(f"{url}: no shard of {output}: `tokcore show {output}` lists them")


def _find_tokenizer_above(place: Path, shards: Shards) -> Tokenizer | None:
    """The tokenizer of the output that holds a shard; None if it is not there or did not write the shard."""
    for folder in (place, *list_above(place, _LEVELS_UP)):
        if (folder / "tokenizer" / "tokcore.json").is_file():
            try:
                found = Tokenizer.load(folder)
            except FormatError as error:
                raise ConfigError(f"{error}. Name another one with --tokenizer.") from error
            return found if found.fingerprint == shards.fingerprint or not shards.fingerprint else None
    return None
