"""tokcore convert: shards in another format, as a new folder.

What is read and written is in tokcore.shards.conversion.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from tokcore.errors import ConfigError, TokError
from tokcore.formats.partition_names import list_above
from tokcore.shards.conversion import Converted, NewIds, Origin, Reading, convert, find_settings, list_origins
from tokcore.shards.format_table import find_format
from tokcore.shards.opened_shards import find_shard_files
from tokcore.shards.token_batch import Replacer, TokenBatch
from tokcore.tokenizer.encode_again import EncodeAgain
from tokcore.tokenizer.smaller import make_smaller
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec
from tokcore_pipelines.build.commit import find_manifest, require_manifest
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.new_folder import NewFolder, make_folder, require_free
from tokcore_pipelines.store.stored_shards import copy_shard_if_remote, find_main_files
from tokcore_pipelines.store.tokenizers import load_spec
from tokcore_schemas.shard_entries import list_named_shards
from tokcore_schemas.stage_manifests import BuildManifest
from tokcore_schemas.stage_table import SHARDS, WHOLE

# Folders from an output to a shard's file: shards, the format, the split, the language.
_LEVELS_UP = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What a conversion read and wrote."""

    output: str
    format: str
    shards: int
    documents: int
    tokens: int
    notes: tuple[str, ...]  # what the files that were read did not say


def convert_shards(
    url: str,
    to: str,
    target: str,
    reading: Reading,
    vocab_size: int | None,
    compression: str,
    dtype: str,
    at: int | None = None,
    new_ids: NewIds | None = None,
) -> Report:
    """Write the shards at a path, or of an output at a URL, in the format named `to`, as the folder target.

    at: the commit of the output; None: the newest. new_ids: other ids for the documents. Raises ConfigError if target
    is there, and what tokcore.shards.conversion raises.
    """
    if not urls.is_local(target):
        raise ConfigError(f"{target}: only a local folder can appear at once. Convert to one, then copy it")
    place = urls.get_local_path(target)
    require_free(place)
    one = find_format(to)
    told = None if new_ids is not None else vocab_size or _find_vocab_size(url)
    urls_of_parts = _list_parts(url, at)
    with make_folder(place) as folder:
        settings = find_settings(_read_all(urls_of_parts), reading, told, compression, dtype, one, new_ids)
        done = convert(_read_all(urls_of_parts), reading, one, settings, _Files(folder).new_file, new_ids)
    return _make_report(str(place), to, done)


class _Files:
    """New files of a folder, with a point to die at after each."""

    def __init__(self, folder: NewFolder) -> None:
        self._folder = folder

    @contextlib.contextmanager
    def new_file(self, path: str) -> Iterator[BinaryIO]:
        with self._folder.new_file(path) as file:
            yield file
        reach("convert.shard")


def _list_parts(url: str, at: int | None) -> list[str]:
    """The URLs of the parts of an output at a commit that have documents; of what is no output, its own.

    Raises ConfigError if a commit is named of what is none.
    """
    if at is None and _find_build(url) is None:
        return [url]
    made = [part for part, shards in read_output(url, at).find_all(SHARDS) if shards.totals.shards]
    return made or [url]


def find_own_tokenizer(url: str) -> TokenizerSpec | None:
    """The tokenizer of the output at a URL; None if there is none."""
    return load_spec(url) if _find_build(url) is not None else None


def take_apart(spec: TokenizerSpec, vocab_size: int) -> NewIds:
    """What gives documents the ids that they have under fewer merges. Raises ConfigError as make_smaller does."""
    smaller = make_smaller(spec, vocab_size, field="--vocab-size")
    change = functools.partial(_replace, smaller.make_replacer())
    return NewIds(spec.fingerprint, smaller.spec.fingerprint, smaller.spec.vocab_size, change)


def encode_again(old: TokenizerSpec, new: TokenizerSpec) -> NewIds:
    """What gives documents the ids of another tokenizer. Raises ConfigError for a tokenizer that loses text."""
    change = functools.partial(_replace, EncodeAgain(old, new))
    note = "documents were decoded and encoded again, which takes longer than --vocab-size"
    return NewIds(old.fingerprint, new.fingerprint, new.vocab_size, change, note)


def _replace(by: Replacer, batch: TokenBatch) -> TokenBatch:
    return batch.replace_ids(by)


def _find_build(url: str) -> BuildManifest | None:
    """The manifest of the build whose output is at a URL; None if none is: files of others may have any names."""
    try:
        return find_manifest(url, WHOLE)
    except TokError:
        return None


def _read_all(parts: Sequence[str]) -> Iterator[Origin]:
    for part in parts:
        yield from _read_origins(part)


def _read_origins(url: str) -> Iterator[Origin]:
    """The shards to read; of an output in a store each is here only until the next one is asked for."""
    if urls.is_local(url):
        place = urls.get_local_path(url).resolve()
        yield from list_origins(find_shard_files(place), str(place if place.is_dir() else place.parent))
        return
    for shard in list_named_shards(require_manifest(url, SHARDS, "build")):
        with copy_shard_if_remote(url, shard) as folder:
            (_, path), file = find_main_files(shard)[0], find_main_files(shard, folder)[0]
            yield Origin(file, path, shard.facts.stem, shard.facts.split)


def _find_vocab_size(url: str) -> int | None:
    """Of the tokenizer of the output that the shards are in; None if there is none."""
    if not urls.is_local(url):
        return load_spec(url).vocab_size
    place = urls.get_local_path(url).resolve()
    for folder in (place, *list_above(place, _LEVELS_UP)):
        if (folder / "tokenizer" / "tokcore.json").is_file() and (folder / "shards").is_dir():
            with contextlib.suppress(TokError):  # the ids themselves are looked at, too
                return load_spec(str(folder)).vocab_size
    return None


def _make_report(output: str, to: str, done: Converted) -> Report:
    notes = tuple(f"{where}: {what}" for what, where in done.notes.items())
    return Report(output, to, done.shards, done.documents, done.tokens, notes)
