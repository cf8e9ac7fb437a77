"""Which code a step of [[map]] is: what a build's identity says of it. Nothing of it is imported here, or run."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tokcore.errors import ConfigError
from tokcore.files.canonical_json import hash_sha256, write_canonical_json
from tokcore.plugins.map_step import MAPS

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OF_AN_EXTRA = re.compile(r";.*\bextra\b")


class Code(NamedTuple):
    """What code a step is."""

    sha256: str  # of names and versions, or of files
    distribution: str  # name and version of the distribution that it belongs to; empty: no installed one


def identify_code(run: str) -> Code:
    """The code of MODULE:FUNCTION, or of an entry point.

    If its module belongs to an installed distribution, the hash is that of its name and version, and of those of all
    that it depends on. Else it is that of the module's file, or of all files of its topmost package. What such a file
    imports from elsewhere is not in it. Raises ConfigError if the module is not there.

    >>> identify_code("pyarrow.compute:list_flatten").distribution.startswith("pyarrow ")
    True
    """
    module, colon, _ = run.partition(":")
    module, named = (module, "") if colon else MAPS.find_module(run)
    place, folders = _locate(module)
    if (owner := _find_owner(module, place)) is not None:
        return _identify_distribution(owner)
    return Code(hash_sha256(write_canonical_json({"": named, **dict(_hash_files(place, folders))})), named)


def _locate(module: str) -> tuple[Path, Sequence[str]]:
    """(file of the topmost module or package that has one, folders of that package; none for a module)."""
    names = module.split(".")
    for end in range(1, len(names) + 1):
        name = ".".join(names[:end])
        try:
            # Of a name with dots this imports what is around: namespaces without a file, in which no code is.
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            spec = None
        if spec is None:
            raise ConfigError(
                f"there is no module {name}: install it, or put its folder into the variable PYTHONPATH, here and "
                f"wherever workers run"
            )
        if spec.has_location and spec.origin is not None:
            if not Path(spec.origin).is_file():
                raise ConfigError(f"the module {name} is no file of its own ({spec.origin}): unpack or install it")
            return Path(spec.origin), tuple(spec.submodule_search_locations or ())
    raise ConfigError(f"the module {module} has no file: name one that has")


def _hash_files(place: Path, folders: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Path below the module's folder -> sha256 of each file that may be code, or be read by it."""
    if not folders:
        yield place.name, _hash_file(place, place.stat())
    for folder in map(Path, folders):
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            is_left_out = path.suffix in (".pyc", ".pyo") or any(
                part.startswith(".") or part == "__pycache__" for part in inside.parts
            )
            if path.is_file() and not is_left_out:
                yield f"{folder.name}/{inside.as_posix()}", _hash_file(path, path.stat())


def _hash_file(path: Path, now: os.stat_result) -> str:
    return _hash_unchanged(path, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)


@lru_cache(maxsize=1 << 14)  # a command asks several times, and a package may be large
def _hash_unchanged(path: Path, *_state: int) -> str:
    return hash_sha256(path.read_bytes())


@cache  # to look through a hundred distributions takes a quarter of a second
def _find_owner(module: str, place: Path) -> Distribution | None:
    """The installed distribution that has a module's file; one that is installed in editable form has none."""
    from importlib.metadata import packages_distributions  # takes 50 ms, and most builds have no [[map]]

    place = place.resolve()
    for name in sorted({*packages_distributions().get(module.partition(".")[0], ())}):
        found = _find_distribution(name)
        if any(Path(str(found.locate_file(file))).resolve() == place for file in found.files or ()):
            return found
    return None


def _identify_distribution(distribution: Distribution) -> Code:
    versions = {_describe(distribution), *_list_dependencies(distribution)}
    return Code(hash_sha256(write_canonical_json(sorted(versions))), _describe(distribution))


def _list_dependencies(distribution: Distribution) -> Iterator[str]:
    """Name and version of all that a distribution needs, and that these need, as far as it is installed."""
    from importlib.metadata import PackageNotFoundError  # as above

    seen: set[str] = set()
    waiting = [*(distribution.requires or ())]
    while waiting:
        requirement = waiting.pop()
        name = _NAME.match(requirement)
        if name is None or name[0] in seen or _OF_AN_EXTRA.search(requirement):
            continue
        seen.add(name[0])
        try:
            found = _find_distribution(name[0])
        except PackageNotFoundError:  # of another platform
            continue
        yield _describe(found)
        waiting += found.requires or ()


def _find_distribution(name: str) -> Distribution:
    from importlib.metadata import distribution  # as above

    return distribution(name)


def _describe(distribution: Distribution) -> str:
    return f"{distribution.name} {distribution.version}"
