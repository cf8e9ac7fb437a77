"""What a build counted, as tables that Python reads. Leaves to others: counting, and the files (pretoken_tables)."""

from __future__ import annotations

import dataclasses
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from tokcore.count.pretoken_rows import CountRows
from tokcore.count.pretoken_tables import convert_rows_to_table, join_parts, read_table
from tokcore.count.sum_of_runs import merge_many_rows
from tokcore.errors import ChecksumError, ConfigError, FormatError
from tokcore.files.canonical_json import MANIFEST_FORMAT, MANIFEST_VERSIONS, hash_sha256, parse_canonical
from tokcore.files.jsonable import from_jsonable, require_version
from tokcore.files.url_files import RemoteFile, read_first
from tokcore.shards.commits import list_parts

_STAGE = "counts"
_MANIFEST = "manifest.json"


def open_counts(
    path: str | os.PathLike[str],
    lang: str,
    at: int | None = None,
    split: str | None = None,
    source: str | None = None,
) -> pa.Table:
    """The counts of one language: pretoken (binary), count and documents (uint64); sorted by the pre-token's bytes.

    path: the output of a build that has counted, or its folder counts; or the URL of an output, by way of fsspec. What
    comes after counting need not be there. documents: those that hold the pre-token. The table is in memory.
    at: the number of a commit; a build is commit 0, and None is the newest.
    split: train or validation; source: the name of one, "" for those without; None: counts of all are added up.
    Raises FormatError if nothing was counted there or a file is not a count table, ChecksumError if a file is not the
    one that was committed, ConfigError for a language or a commit that the output does not have, and for a split or a
    source that its tables do not tell apart.

    >>> table = open_counts("out/first", "en")
    >>> table.column_names, table.num_rows
    (['pretoken', 'count', 'documents'], 5)
    >>> table.slice(0, 1).to_pylist()
    [{'pretoken': b' low', 'count': 1, 'documents': 1}]

    With names of sources, and shards.validation in the build file, counts can be taken apart, and weighed:

    >>> open_counts("out/two-sources", "en", split="train").to_pylist()[0]
    {'pretoken': b' cat', 'count': 3, 'documents': 2}
    >>> open_counts("out/two-sources", "en", split="train", source="wiki").to_pylist()[0]
    {'pretoken': b' cat', 'count': 1, 'documents': 1}
    >>> import tokcore
    >>> weighed = [open_counts("out/two-sources", "en", None, "train", name) for name in ("web", "wiki", "wiki")]
    >>> tokcore.learn_bpe(pa.concat_tables(weighed), 257)
    [Merge(left=b'a', right=b't', count=4)]
    """
    place = os.fspath(path).removeprefix("file://")
    manifests = [_read_manifest(part) for part in list_parts(place, at)]
    if all(lang not in manifest.languages for _, manifest in manifests):
        known = sorted({name for _, manifest in manifests for name in manifest.languages})
        raise ConfigError(f"lang = {lang!r}: {place} has counts of {', '.join(known) or 'none'}")
    of_lang = [(folder, file) for folder, manifest in manifests for file in manifest.files if file.about.lang == lang]
    for name, asked in (("split", split), ("source", source)):
        if asked is None:
            continue
        if any(name not in manifest.config.apart_by for _, manifest in manifests):
            raise ConfigError(
                f"{name} = {asked!r}: the count tables of {place} do not tell {name}s apart. Those of a new build do, "
                f"where there is a validation split, or a source with a name."
            )
        known = sorted({getattr(file.about, name) for _, file in of_lang})
        if asked not in known:
            raise ConfigError(f"{name} = {asked!r}: {place} has counts of {lang} for {', '.join(map(repr, known))}")
        of_lang = [(folder, file) for folder, file in of_lang if getattr(file.about, name) == asked]
    # A language all of whose text is masked has no table.
    runs = [_read_table(folder, table) for folder, table in of_lang]
    return convert_rows_to_table(runs[0] if len(runs) == 1 else merge_many_rows(runs))


@dataclasses.dataclass(frozen=True, slots=True)
class _About:
    lang: str
    split: str = ""
    source: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class _Config:
    apart_by: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    path: str
    size_bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True, slots=True)
class _File:
    path: str
    size_bytes: int
    sha256: str
    about: _About
    parts: tuple[_Part, ...] = ()  # files below path, with the rows one after another

    def list_files(self) -> list[_Part]:
        """The files that there are: this one, or its parts."""
        own = [_Part(f"{self.path}/{part.path}", part.size_bytes, part.sha256) for part in self.parts]
        return own or [_Part(self.path, self.size_bytes, self.sha256)]


@dataclasses.dataclass(frozen=True, slots=True)
class _CountsManifest:
    """What is needed of the manifest of counts, which schemas describes in full."""

    config: _Config
    files: tuple[_File, ...]
    languages: dict[str, Any]


def _read_manifest(place: str) -> tuple[str, _CountsManifest]:
    """(folder or URL of the manifest, the manifest). Raises FormatError if there is none of this stage."""
    places = [f"{place.rstrip('/')}{below}/{_MANIFEST}" for below in (f"/{_STAGE}", "")]
    found = read_first(places) if "://" in place else _read_first_local(places)
    content = parse_canonical(found[1], found[0]) if found is not None else None
    if found is None or not isinstance(content, dict) or content.get("stage") != _STAGE:
        raise FormatError(f"{place}: no output of a build that has counted: there is no {_STAGE}/{_MANIFEST} in it")
    require_version(content, found[0], MANIFEST_FORMAT, *MANIFEST_VERSIONS)
    manifest = from_jsonable(_CountsManifest, content, found[0], partial=True)
    for path in (path for file in manifest.files for path in (file.path, *(part.path for part in file.parts))):
        if path != Path(path).name:
            raise FormatError(f"{found[0]}: names {path!r}, which is not in its folder")
    return found[0].removesuffix(f"/{_MANIFEST}"), manifest


def _read_first_local(places: list[str]) -> tuple[str, bytes] | None:
    return next(((place, Path(place).read_bytes()) for place in places if Path(place).is_file()), None)


def _read_table(folder: str, table: _File) -> Iterator[CountRows]:
    return join_parts((f"{folder}/{file.path}", _read_file(folder, file)) for file in table.list_files())


def _read_file(folder: str, file: _Part) -> Iterator[CountRows]:
    """The rows of a file of a count table, once its bytes were compared with what the manifest says."""
    url = f"{folder}/{file.path}"
    if "://" in folder:
        with tempfile.TemporaryDirectory(prefix="tokcore-counts-") as copies:
            RemoteFile(url, file.path, file.size_bytes, file.sha256).copy_to(copies)
            yield from read_table(Path(copies, file.path))
        return
    try:
        data = Path(url).read_bytes()
    except OSError as error:
        raise FormatError(f"{url}: cannot be read: {error.strerror}") from error
    if hash_sha256(data) != file.sha256:
        raise ChecksumError(f"{url}: its bytes are not those that were committed: run `tokcore verify` on the output")
    yield from read_table(io.BytesIO(data))
