"""The input files of a build: what the patterns of each source match, without what is excluded and what is no data."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tokcore.errors import ConfigError, FormatError, TokError
from tokcore_pipelines.local.terminal import format_count
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.disk_listing import Link, Links, describe_missing
from tokcore_pipelines.store.listing import find_kind
from tokcore_pipelines.store.not_data import OwnOutputs, explain_bad_name, explain_not_data
from tokcore_pipelines.store.parallel_requests import run_at_once
from tokcore_pipelines.store.patterns import (
    Pattern,
    compile_glob,
    find_fixed_folder,
    is_glob,
    name_all_below,
    quote,
    resolve_pattern,
    split_glob,
)
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.retries import name_errors
from tokcore_schemas.config import BuildConfig, Source
from tokcore_schemas.splits import find_split, find_splits


class Found(NamedTuple):
    """A file that a source takes."""

    source: int
    where: str  # the place in the build file that names it, for messages
    uri: str  # as the plan names it: relative to the build file if its pattern is, so that a build can be moved
    pin: storage.FileId
    real: str = ""  # where a file on a disk is; "" unless a source follows links
    is_linked: bool = False  # whether it was found through a link


@dataclasses.dataclass(slots=True)
class LeftOut:
    """The files that a source's patterns match and that it does not take."""

    excluded: list[str] = dataclasses.field(default_factory=list)  # URLs
    no_data: dict[str, str] = dataclasses.field(default_factory=dict)  # URL -> why
    idle: list[str] = dataclasses.field(default_factory=list)  # what to warn of: globs that leave out no file
    links: list[str] = dataclasses.field(default_factory=list)  # what to warn of: links that no key decides about

    def explain(self, most: int = 3) -> str:
        """The first of them and why; "" if there are none."""
        return _name_some(dict.fromkeys(self.excluded, "excluded") | self.no_data, most)

    def describe_links(self) -> list[str]:
        """What became of symbolic links, where a source says nothing of them or leaves them out, a sentence each."""
        links = {url: why for url, why in self.no_data.items() if why.startswith(LINK)}
        left = [f"{format_count(len(links), 'link')} left out: {_name_some(links, 3)}"] if links else []
        return [f"warning: {one}" for one in self.links] + left


def _name_some(reasons: Mapping[str, str], most: int) -> str:
    shown = [f"{redact(url)} ({why})" for url, why in sorted(reasons.items())[:most]]
    return ", ".join(shown) + (f" and {len(reasons) - most:,} more" if len(reasons) > most else "")


OTHER_SPLIT = "not of the split"  # the start of the reason why such a file is left out
LINK = "a link to"  # the same, of what follow_links = false leaves out

ListFiles = Callable[[Pattern, Links], Sequence[storage.FileId]]


def find_inputs(
    config: BuildConfig,
    output: str | None,
    left_out: LeftOut,
    *,
    grows: bool = False,
    list_files: ListFiles = storage.list_files,
    is_old: Callable[[], bool] = lambda: False,
) -> Iterator[Found]:
    """The files of all sources, in the order of the build file. A file that two patterns match comes twice.

    output: URL of the build's output; None: there is none. left_out: is told of what is not taken. grows:
    whether files are still to come, so that a pattern may leave none. list_files: what lists a pattern. is_old: whether
    there is an output already, which may have been begun when links to files were read and links to folders passed
    over: so it goes on. Raises ConfigError for a pattern that leaves none otherwise, for one that would read the
    output, and for one that meets a link, unless its source says what to do; StageError if a store does not answer.
    """
    listings = _Listings(config, output, left_out, grows, list_files, is_old)
    is_real_wanted = any(source.follow_links for source in config.sources)
    for number, source in enumerate(config.sources):
        excluded = _Excluded(config, number, source)
        if output is not None:
            excluded(f"{_get_path(output).rstrip('/')}/manifest.json")  # a glob for what is yet to come is not idle
        for position, pattern in enumerate(source.files):
            where = config.at("source", number, "files", position)
            found: Iterable[storage.FileId]
            if source.split is not None:
                found = _list_split(listings, source, pattern, where, excluded)
            else:
                found = _list_source(listings, source, pattern, where, excluded)
            start = _find_start(config.base, pattern, source.split is not None) if is_real_wanted else ""
            prefix = _find_omitted_prefix(config.base, pattern)
            for pin in found:
                uri = _omit(prefix, pin.url)
                if is_real_wanted and urls.is_local(pin.url):
                    yield Found(number, where, uri, pin, *listings.places.find(pin.url, start))
                else:
                    yield Found(number, where, uri, pin)
        left_out.idle += excluded.describe_idle()


def explain_not_taken(config: BuildConfig, left_out: LeftOut) -> str:
    """The first files that no source takes, and why; "" if there are none.

    Those that patterns match, and on a disk others that lie beside them and end alike.
    """
    patterns = [
        _resolve(config.base, one, source.split is not None) for source in config.sources for one in source.files
    ]
    globs = [_get_glob(one) for one in patterns if urls.is_local(one.url)]
    matches, own = [compile_glob(one).match for one in globs], OwnOutputs()
    unmatched = dict[str, str]()
    for folder, _, last in (one.rpartition("/") for one in globs):
        _, dot, ending = re.split(r"[*?\]]", last)[-1].partition(".")
        beside = f"{folder}/*.{ending}"
        for pin in storage.list_files(Pattern(beside, beside), Links()) if dot else ():
            is_data = not (explain_not_data(pin.url, folder, "*") or own.holding(pin.url))
            if is_data and not any(match(pin.url) for match in matches):
                unmatched[pin.url] = "no pattern matches it"
    return _name_some(unmatched | dict.fromkeys(left_out.excluded, "excluded") | left_out.no_data, 3)


class _Listings:
    """What the patterns of all sources match. Those in stores are listed at once, some at a time, not one by one."""

    def __init__(
        self,
        config: BuildConfig,
        output: str | None,
        left_out: LeftOut,
        grows: bool,
        list_files: ListFiles,
        is_old: Callable[[], bool],
    ) -> None:
        """output, left_out, grows, list_files, is_old: as for find_inputs."""
        self.base = config.base
        self.is_old = is_old
        self.grows = grows
        self.output = output
        self.left_out = left_out
        self._list_files = list_files
        self.own = OwnOutputs()  # outputs of tokcore among the inputs
        self.places = _Places()
        resolved: list[Pattern] = []
        for source in config.sources:
            with contextlib.suppress(ConfigError):  # raised again where its place in the build file is known
                resolved += [_resolve(config.base, pattern, source.split is not None) for pattern in source.files]
        remote = [one for one in dict.fromkeys(resolved) if not urls.is_local(one.url)]
        for one in remote:
            with contextlib.suppress(ConfigError):
                urls.open_file_system(one.url)  # here, so that one thread sets up the store's library
        self._found = dict(zip(remote, run_at_once(self._list, remote), strict=True))

    def find(self, pattern: Pattern, links: Links) -> Sequence[storage.FileId]:
        """As storage.list_files()."""
        found = self._found.get(pattern)
        if isinstance(found, TokError):
            raise found
        return self._list_files(pattern, links) if found is None else found

    def _list(self, pattern: Pattern) -> Sequence[storage.FileId] | TokError:
        try:
            return self._list_files(pattern, Links())
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
    listings: _Listings, source: Source, pattern: str, where: str, excluded: _Excluded
) -> Iterator[storage.FileId]:
    """The files of a pattern that the source takes. where: its place in the build file."""
    shown, output = f"{where} = {redact(pattern)!r}", listings.output
    links = Links(source.follow_links is True)
    try:
        resolved = _resolve(listings.base, pattern, source.split is not None)
        url = resolved.url
        system, _ = urls.open_file_system(url)
        path = urls.find_path(system, resolved.glob)
        if output is not None:
            _refuse_output(shown, url, path, output, excluded)
        found = listings.find(resolved, links)
    except ConfigError as error:
        raise error if str(error).startswith(where) else ConfigError(f"{where}: {error}") from error
    start, globbed = split_glob(path)
    dropped = LeftOut()
    met = {
        one: link
        for one, link in links.met.items()
        if not _is_passed_over(one, link, start, globbed, excluded) and not listings.own.holding(one)
    }
    _decide_about_links(listings, source, shown, met, dropped)
    if not found and not listings.grows:
        said = "".join(f" {one}." for one in dropped.describe_links()) or _explain_no_match(pattern)
        raise ConfigError(f"{shown}: no file matches {redact(url)}.{said}")
    alone = len(found) == 1 and found[0].url == url
    local_output = output if output is not None and urls.is_local(url) and urls.is_local(output) else ""
    is_any_kept = False
    for pin in found:
        own = urls.find_path(system, pin.url)
        if pin.url in dropped.no_data:
            continue
        if excluded(own):
            dropped.excluded.append(pin.url)
        elif not alone and (why := explain_not_data(own, start, globbed)):
            dropped.no_data[pin.url] = why
        elif not alone and (folder := listings.own.holding(listings.places.find(own)[0] if links.met else pin.url)):
            dropped.no_data[pin.url] = f"of the tokcore output {redact(folder)}"
        elif local_output and _is_link_into(pin.url, local_output, links):
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


def _is_passed_over(path: str, link: Link, start: str, globbed: str, excluded: _Excluded) -> bool:
    """Whether a link leads to nothing that the source would take. start, globbed: as for explain_not_data."""
    below = f"{path}/_"
    if excluded(path) or (link.kind != "file" and excluded(below)):
        return True
    as_file, as_folder = (explain_not_data(one, start, globbed) for one in (path, below))
    return bool((as_file or link.kind == "folder") and (as_folder or link.kind == "file"))


def _decide_about_links(
    listings: _Listings, source: Source, shown: str, met: Mapping[str, Link], dropped: LeftOut
) -> None:
    """Take the links that a pattern met as the source says. Raises ConfigError if it does not say.

    shown: the pattern, for messages. dropped: is told of those that are left out.
    """
    if not met:
        return
    path, link = min(met.items())
    more = f" (and {len(met) - 1:,} more)" if len(met) > 1 else ""
    if source.follow_links is None:
        said = f"{shown}: {path} is a link to {link.target}{more}."
        keys = "follow_links = true reads what links lead to, follow_links = false leaves them out"
        if not listings.is_old():
            raise ConfigError(f"{said} Say in this source what to do: {keys}.")
        listings.left_out.links.append(
            f"{said} As this output was begun without the key, links to files are read, and folders that links lead to "
            f"are not. A new output asks for the key: {keys}."
        )
    elif not source.follow_links:
        dropped.no_data |= {one: f"{LINK} {link.target}" for one, link in met.items()}
    else:
        missing = {one: link for one, link in met.items() if link.kind == "missing"}
        for one, link in sorted(missing.items()):
            if not listings.grows:
                raise ConfigError(f"{shown}: {one} is {describe_missing(link)}. Put that back, or exclude the link.")
            dropped.no_data[one] = describe_missing(link)


def _list_split(
    listings: _Listings, source: Source, folder: str, where: str, excluded: _Excluded
) -> list[storage.FileId]:
    """The files of the source's split in a folder, by their names below it."""
    split = source.split or ""
    shown = f"{where} = {redact(folder)!r}"
    if is_glob(folder) and not _is_folder(urls.resolve(listings.base, folder)):
        raise ConfigError(f"{shown}: split chooses files in a folder. Name the folder alone, or remove split.")
    found = _list_source(listings, source, folder, where, excluded)
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
    """is_split: whether the pattern names a folder, all of whose files are asked for."""
    return name_all_below(urls.resolve(base, pattern)) if is_split else resolve_pattern(base, pattern)


def _find_start(base: str, pattern: str, is_split: bool) -> str:
    """The folder on a disk in which a pattern begins to choose; "" if it is in a store, or wrong."""
    with contextlib.suppress(ConfigError):
        return find_fixed_folder(_get_glob(_resolve(base, pattern, is_split)))
    return ""


def _get_path(url: str) -> str:
    return urls.open_file_system(url)[1]


def _get_glob(pattern: Pattern) -> str:
    return urls.find_path(urls.open_file_system(pattern.url)[0], pattern.glob)


def _is_link_into(url: str, output: str, links: Links) -> bool:
    """Whether a local file is a link to what lies in a local output, or may lie below such a link, and does."""
    if not links.met and not os.path.islink(url):  # noqa: PTH114 - making a Path takes longer, and there may be millions
        return False
    return Path(url).resolve().is_relative_to(Path(urls.get_local_path(output)).resolve())


class _Places:
    """Where files on a disk are. Those of a folder come together, so few folders are looked at."""

    def __init__(self) -> None:
        self._folder = ("", "")  # the last folder, and where it is
        self._start = ("", "")  # the same, of where a pattern begins to choose

    def find(self, path: str, start: str = "") -> tuple[str, bool]:
        """(where a file is, whether a link below start leads there)."""
        folder, _, name = path.rpartition("/")
        if self._folder[0] != folder:
            self._folder = folder, os.path.realpath(folder)
        if self._start[0] != start:
            self._start = start, os.path.realpath(start)
        if os.path.islink(path):  # noqa: PTH114 - making a Path takes longer, and there may be millions
            return os.path.realpath(path), True
        below = folder.removeprefix(start).strip("/")
        unlinked = os.path.join(self._start[1], below).rstrip("/")  # noqa: PTH118 - as above
        return f"{self._folder[1].rstrip('/')}/{name}", self._folder[1].rstrip("/") != unlinked


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


def _omit(prefix: str, url: str) -> str:
    """The URL without the prefix, unless what is left would be taken for another place: a key may look like a URL."""
    below = url.removeprefix(prefix)
    if below != url and not urls.is_local(url):
        try:
            urls.check_relative(below)
        except FormatError:
            return url
    return below


def _find_omitted_prefix(base: str, pattern: str) -> str:
    """What a plan omits at the start of URLs that a relative pattern matches, so that a build can be moved; else ""."""
    if "://" in pattern or pattern.startswith("/"):
        return ""
    return f"{(urls.spell(base) if '://' in base else urls.resolve(base, '.')).rstrip('/')}/"
