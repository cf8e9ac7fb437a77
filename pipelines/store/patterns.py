"""Patterns of file names. What a user wrote is a pattern; the folder where it starts is a place, and is quoted."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from fsspec.utils import glob_translate

from tokcore.errors import ConfigError
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.redaction import redact

_SPECIAL = re.compile(r"([*?\[])")
_QUOTED = re.compile(r"\[([*?\[])\]")


class Pattern(NamedTuple):
    """What a build file says of files, both ways that it may be meant."""

    url: str  # of the file that it names, if there is one of that very name
    glob: str  # the URL as a glob (* ** ? [...]), with the place that it starts at quoted


def quote(place: str) -> str:
    """The path or URL as a glob that matches it alone.

    >>> quote("run [2024]/a.txt")
    'run [[]2024]/a.txt'
    """
    return _SPECIAL.sub(r"[\1]", place)


def unquote(glob: str) -> str:
    """What quote() was given; a glob that chooses among files still does."""
    return _QUOTED.sub(r"\1", glob)


def name_exactly(url: str) -> Pattern:
    """The pattern of one file."""
    return Pattern(url, quote(url))


def resolve_pattern(base: str, pattern: str) -> Pattern:
    """The pattern in the one spelling of its URL. base: URL of the folder where a relative one starts.

    >>> resolve_pattern("/run [1]", "data/*.txt")
    Pattern(url='/run [1]/data/*.txt', glob='/run [[]1]/data/*.txt')
    """
    return Pattern(urls.resolve(base, pattern), urls.resolve(quote(base), pattern))


def name_all_below(folder: str) -> Pattern:
    """The pattern of all files in a folder, of which this is the URL. Nothing in its name chooses."""
    url = folder.rstrip("/")
    return Pattern(f"{url}/**", f"{quote(url)}/**")


def is_glob(glob: str) -> bool:
    """Whether a glob chooses among files: not if all that could is quoted."""
    return _SPECIAL.search(_QUOTED.sub("", glob)) is not None


def find_fixed_folder(glob: str) -> str:
    """The folder above the first part of a path that is a glob.

    >>> find_fixed_folder("/data [[]1]/*/a.txt"), find_fixed_folder("/*")
    ('/data [1]', '/')
    """
    return split_glob(glob)[0]


def split_glob(glob: str) -> tuple[str, str]:
    """(the folder above the first part of a path that is a glob, that part and all after it).

    >>> split_glob("/data [[]1]/*/a.txt")
    ('/data [1]', '*/a.txt')
    """
    parts = glob.split("/")
    first = next((i for i, part in enumerate(parts) if is_glob(part)), len(parts) - 1)
    return unquote("/".join(parts[:first])) or "/" * glob.startswith("/"), "/".join(parts[first:])


def compile_glob(glob: str) -> re.Pattern[str]:
    """What a glob matches: `*` and `?` within a part of a path, `**` any number of parts. Raises ConfigError."""
    try:
        return re.compile(glob_translate(glob))
    except ValueError as error:
        raise ConfigError(f"{redact(glob)}: ** stands for folders, and alone between slashes: a/**/*.txt") from error


def compile_holders(glob: str) -> Callable[[str], bool]:
    """Whether a folder, or one below it, may hold a file that a glob matches: given that the folder above it may.

    Raises ConfigError as compile_glob().
    """
    parts = glob.split("/")
    matches = [compile_glob("/".join(parts[: i + 1])).match for i in range(len(parts) - 1)]
    any_depth = next((i for i, part in enumerate(parts) if "**" in part), len(parts))

    def may_hold(folder: str) -> bool:
        depth = folder.count("/")
        return depth >= any_depth or (depth < len(parts) - 1 and matches[depth](folder) is not None)

    return may_hold
