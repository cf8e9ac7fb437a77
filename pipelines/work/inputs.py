"""The input files of a build: what the patterns of each source match, without what is excluded and what is no data."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pipelines.store import storage, urls
from pipelines.store.at_once import run_at_once
from pipelines.store.listing import find_kind
from pipelines.store.not_data import OwnOutputs, explain_bad_name, explain_not_data
from pipelines.store.patterns import (
    Pattern,
    compile_glob,
    find_fixed_folder,
    is_glob,
    name_all_below,
    quote,
    resolve_pattern,
    split_glob,
)
from pipelines.store.redaction import redact
from pipelines.store.retries import name_errors
from schemas.config import BuildConfig, Source
from schemas.splits import find_split, find_splits
from tokcore.errors import ConfigError, TokError


class Found(NamedTuple):
    """A file that a source takes."""

    source: int
    where: str  # the place in the build file that names it, for messages
    uri: str  # as the plan names it: relative to the build file if its pattern is, so that a build can be moved
    pin: storage.FileId


@dataclasses.dataclass(slots=True)
class LeftOut:
    """The files that a source's patterns match and that it does not take."""

    excluded: list[str] = dataclasses.field(default_factory=list)  # URLs
    no_data: dict[str, str] = dataclasses.field(default_factory=dict)  # URL -> why
    idle: list[str] = dataclasses.field(default_factory=list)  # what to warn of: globs that leave out no file

    def explain(self, most: int = 3) -> str:
        """The first of them and why; "" if there are none."""
        reasons = dict.fromkeys(self.excluded, "excluded") | self.no_data
        shown = [f"{redact(url)} ({why})" for url, why in sorted(reasons.items())[:most]]
        more = f" and {len(reasons) - most:,} more" if len(reasons) > most else ""
        return ", ".join(shown) + more


OTHER_SPLIT = "not of the split"  # the start of the reason why such a file is left out

ListFiles = Callable[[Pattern], Sequence[storage.FileId]]


def find_inputs(
    config: BuildConfig,
    output: str | None,
    left_out: LeftOut,
    *,
    grows: bool = False,
    list_files: ListFiles = storage.list_files,
) -> Iterator[Found]:
    """The files of all sources, in the order of the build file. A file that two patterns match comes twice.

    output: URL of the build's output; None: there is none. left_out: is told of what is not taken. grows:
    whether files are still to come, so that a pattern may leave none. list_files: what lists a pattern. Raises
    ConfigError for one that does otherwise, and for one that would read the output; StageError if a store does not
    answer.
    """
    listings = _Listings(config, output, left_out, grows, list_files)
    for number, source in enumerate(config.sources):
        excluded = _Excluded(config, number, source)
        if output is not None:
            excluded(f"{_get_path(output).rstrip('/')}/manifest.json")  # a glob for what is yet to come is not idle
        for position, pattern in enumerate(source.files):
            where = config.at("source", number, "files", position)
            found: Iterable[storage.FileId]
            if source.split is not None:
                found = _list_split(listings, pattern, where, source.split, excluded)
            else:
                found = _list_source(listings, pattern, where, excluded)
            prefix = _find_omitted_prefix(config.base, pattern)
            for pin in found:
                yield Found(number, where, pin.url.removeprefix(prefix), pin)
        left_out.idle += excluded.describe_idle()


class _Listings:
    """What the patterns of all sources match. Those in stores are listed at once, some at a time, not one by one."""

    def __init__(
        self, config: BuildConfig, output: str | None, left_out: LeftOut, grows: bool, list_files: ListFiles
    ) -> None:
        """output, left_out, grows, list_files: as for find_inputs."""
        self.base = config.base
        self.grows = grows
        self.output = output
        self.left_out = left_out
        self._list_files = list_files
        self.own = OwnOutputs()  # outputs of tokcore among the inputs
        resolved: list[Pattern] = []
        for source in config.sources:
            with contextlib.suppress(ConfigError):  # raised again where its place in the build file is known
                resolved += [_resolve(config.base, pattern, source.split is not None) for pattern in source.files]
        remote = [one for one in dict.fromkeys(resolved) if not urls.is_local(one.url)]
        for one in remote:
            with contextlib.suppress(ConfigError):
                urls.open_file_system(one.url)  # here, so that one thread sets up the store's library
        self._found = dict(zip(remote, run_at_once(self._list, remote), strict=True))

    def find(self, pattern: Pattern) -> Sequence[storage.FileId]:
        """As storage.list_files()."""
        found = self._found.get(pattern)
        if isinstance(found, TokError):
            raise found
        return self._list_files(pattern) if found is None else found

    def _list(self, pattern: Pattern) -> Sequence[storage.FileId] | TokError:
        try:
            return self._list_files(pattern)
        except TokError as error:
            return error


class _Excluded:
    """The globs that a source's exclude holds, and which of them have left out nothing yet."""

    def __init__(self, config: BuildConfig, number: int, source: Source) -> None:
        self._where = config.at("source", number, "exclude")
        self._globs: dict[str, re.Pattern[str]] = {}
        self._idle = dict.fromkeys(source.exclude)
        for pattern in source.exclude:
            try:
                path = _get_glob(resolve_pattern(config.base, pattern)).rstrip("/") if "/" in pattern else pattern
                self._globs[pattern] = compile_glob(path)
            except ConfigError as error:
                raise ConfigError(f"{self._where}: {error}") from error

    def __call__(self, path: str) -> bool:
        """Whether a file is excluded: by its name, by its path, or with a folder above it."""
        is_excluded = False
        for pattern, regex in self._globs.items():
            if (not is_excluded or pattern in self._idle) and _is_excluded_by(pattern, regex, path):
                is_excluded = True
                self._idle.pop(pattern, None)
        return is_excluded

    def describe_idle(self) -> list[str]:
        """A warning for each glob that was true of no file."""
        return [
            f"{self._where}: {redact(pattern)!r} leaves out no file"
            + (", for it is a path from the build file's folder, as files is" if "/" in pattern else "")
            for pattern in self._idle
        ]


def _is_excluded_by(pattern: str, regex: re.Pattern[str], path: str) -> bool:
    if "/" not in pattern:
        return regex.match(path.rpartition("/")[2]) is not None
    while path and not regex.match(path):
        path = path.rpartition("/")[0]
    return path != ""


def _list_source(
    listings: _Listings, pattern: str, where: str, excluded: _Excluded, is_split: bool = False
) -> Iterator[storage.FileId]:
    """The files of a pattern that the source takes. where: its place in the build file. is_split: as for _resolve."""
    shown, output = f"{where} = {redact(pattern)!r}", listings.output
    try:
        resolved = _resolve(listings.base, pattern, is_split)
        url = resolved.url
        system, _ = urls.open_file_system(url)
        path = urls.find_path(system, resolved.glob)
        if output is not None:
            _refuse_output(shown, url, path, output, excluded)
        found = listings.find(resolved)
    except ConfigError as error:
        raise error if str(error).startswith(where) else ConfigError(f"{where}: {error}") from error
    if not found and not listings.grows:
        raise ConfigError(f"{shown}: no file matches {redact(url)}.{_explain_no_match(pattern)}")
    alone = len(found) == 1 and found[0].url == url
    local_output = output if output is not None and urls.is_local(url) and urls.is_local(output) else ""
    is_any_kept = False
    dropped = LeftOut()
    start, globbed = split_glob(path)
    for pin in found:
        own = urls.find_path(system, pin.url)
        if excluded(own):
            dropped.excluded.append(pin.url)
        elif not alone and (why := explain_not_data(own, start, globbed)):
            dropped.no_data[pin.url] = why
        elif not alone and (folder := listings.own.holding(pin.url)):
            dropped.no_data[pin.url] = f"of the tokcore output {redact(folder)}"
        elif local_output and _is_link_into(pin.url, local_output):
            raise ConfigError(f"{shown}: {pin.url} is a link into the build's output {local_output}. Remove it.")
        elif why := explain_bad_name(pin.url):
            if not listings.grows:
                raise ConfigError(f"{shown}: {why}, or exclude it")
            dropped.no_data[ascii(pin.url)] = why
        else:
            is_any_kept = True
            yield pin
    listings.left_out.excluded += dropped.excluded
    listings.left_out.no_data |= dropped.no_data
    if not is_any_kept and not listings.grows:
        raise ConfigError(
            f"{shown}: all files that match ({len(found)}) are left out: {dropped.explain()}. "
            f"Name other files, or one of these alone."
        )


def _list_split(listings: _Listings, folder: str, where: str, split: str, excluded: _Excluded) -> list[storage.FileId]:
    """The files of a split in a folder, by their names below it."""
    shown = f"{where} = {redact(folder)!r}"
    if is_glob(folder) and not _is_folder(urls.resolve(listings.base, folder)):
        raise ConfigError(f"{shown}: split chooses files in a folder. Name the folder alone, or remove split.")
    found = _list_source(listings, folder, where, excluded, True)
    start = _get_path(urls.resolve(listings.base, folder)).rstrip("/")
    files = {_get_path(pin.url).removeprefix(f"{start}/"): pin for pin in found}
    for name in [name for name in files if _is_no_data(name)]:
        listings.left_out.no_data[files.pop(name).url] = "a mark of another tool"
    splits = find_splits(files, start.rpartition("/")[2])
    if not files and listings.grows:
        return []
    if (named := find_split(split, splits)) is None:
        has = f"has the splits {', '.join(splits)}" if splits else "has no files"
        raise ConfigError(f'{shown}: split = "{split}": the folder {has}. Write one of them, or name its files.')
    for name, pin in files.items():
        if name not in splits[named]:
            listings.left_out.no_data[pin.url] = f"{OTHER_SPLIT} {named}"
    return [files[name] for name in splits[named]]


def _explain_no_match(pattern: str) -> str:
    scheme = urls.find_scheme(pattern)
    if scheme in ("http", "https"):
        return f" {scheme}:// is for single files under their full names: the server has none, or did not answer."
    return "" if scheme else " Relative paths start at the build file's folder."


def _is_no_data(name: str) -> bool:
    """Whether the datasets library, too, takes a file for no data, beside those that no glob takes."""
    *folders, last = name.split("/")
    return last in ("config.json", "dummy_data.zip") or any(folder.startswith("__") for folder in folders)


def _is_folder(url: str) -> bool:
    system, path = urls.open_file_system(url)
    with name_errors("list", url):
        return find_kind(system, path) == "directory"


def _resolve(base: str, pattern: str, is_split: bool) -> Pattern:
    """is_split: whether a folder is named, all of whose files are asked for."""
    return name_all_below(urls.resolve(base, pattern)) if is_split else resolve_pattern(base, pattern)


def _get_path(url: str) -> str:
    return urls.open_file_system(url)[1]


def _get_glob(pattern: Pattern) -> str:
    return urls.find_path(urls.open_file_system(pattern.url)[0], pattern.glob)


def _is_link_into(url: str, output: str) -> bool:
    """Whether a local file is a link to what lies in a local output."""
    if not os.path.islink(url):  # noqa: PTH114 - making a Path takes longer, and there may be millions
        return False
    return Path(url).resolve().is_relative_to(Path(urls.get_local_path(output)).resolve())


def _refuse_output(shown: str, url: str, path: str, output: str, excluded: _Excluded) -> None:
    """Raise ConfigError if a pattern can match what the build writes."""
    system, folder = urls.open_file_system(output)
    if urls.open_file_system(url)[0].protocol != system.protocol:
        return
    folder = folder.rstrip("/")
    if urls.is_local(url):
        start, globbed = split_glob(path)
        path = f"{quote(os.path.realpath(start)).rstrip('/')}/{globbed}"
        folder = str(Path(folder).resolve())
    if _can_match_below(path.split("/"), folder.split("/")) and not any(
        excluded(f"{one}/manifest.json") for one in (folder, urls.open_file_system(output)[1].rstrip("/"))
    ):
        if find_fixed_folder(path) == folder or find_fixed_folder(path).startswith(f"{folder}/"):
            raise ConfigError(f"{shown}: lies in the output {redact(output)}. Give the output a folder of its own.")
        raise ConfigError(
            f"{shown}: the output {redact(output)} lies inside this pattern, so the build would read what it writes. "
            f"Name an output elsewhere, a narrower pattern, or add the output to exclude."
        )


def _can_match_below(pattern: list[str], folder: list[str]) -> bool:
    """Whether a path pattern, in parts, can match a file below a folder."""
    for number, part in enumerate(folder):
        if number < len(pattern) and pattern[number] == "**":
            return True
        if number >= len(pattern) - 1:
            return False
        if part != pattern[number] and not compile_glob(pattern[number]).match(part):
            return False
    return True


def _find_omitted_prefix(base: str, pattern: str) -> str:
    """What a plan omits at the start of URLs that a relative pattern matches, so that a build can be moved; else ""."""
    if "://" in pattern or pattern.startswith("/"):
        return ""
    return f"{(urls.spell(base) if '://' in base else urls.resolve(base, '.')).rstrip('/')}/"
