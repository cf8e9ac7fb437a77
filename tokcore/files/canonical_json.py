"""Canonical JSON, the only form in which JSON is hashed, and sha256.

Canonical JSON has one byte form: UTF-8, keys sorted by code point, no spaces, integers only, one "\\n" at the end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, Protocol

import orjson

from tokcore.errors import FormatError

# The format that manifests name. It is here because tokcore.shards.opened_shards reads manifests and may not import
# tokcore_schemas.
MANIFEST_FORMAT = "tokcore-manifest"
MANIFEST_VERSION = 2
# Versions that this release reads. Those of 1 have another root (tokcore_schemas.manifest).
MANIFEST_VERSIONS = (1, MANIFEST_VERSION)

# The format that files of a log name.
COMMIT_FORMAT = "tokcore-commit"
COMMIT_VERSION = 2
COMMIT_FILES_VERSION = 3  # of commits that name files of tombstones, which earlier releases would overlook
COMMIT_VERSIONS = (1, COMMIT_VERSION, COMMIT_FILES_VERSION)  # that are read

# Depth of lists and dicts. Without this limit, the space left on the caller's stack would be the limit.
MAX_DEPTH = 64


class Written:
    """A value that is canonical JSON already, such as a long list that the kernel has written."""

    __slots__ = ("json",)

    def __init__(self, json: bytes) -> None:
        self.json = json

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Written) and self.json == other.json

    def __hash__(self) -> int:
        return hash(self.json)


_CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
_LINES = 1000  # that are looked at together
_SCALARS = {str, int, bool, type(None), Written}
_CONTAINERS = {dict, list, tuple}


def hash_sha256(data: bytes | memoryview) -> str:
    """sha256 of data, 64 lowercase hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def hash_pieces(pieces: Iterable[bytes]) -> str:
    """As hash_sha256, of data in pieces.

    >>> hash_pieces([b"a", b"b"]) == hash_sha256(b"ab")
    True
    """
    hasher = hashlib.sha256()
    for some in pieces:
        hasher.update(some)
    return hasher.hexdigest()


def write_canonical_json(value: Any) -> bytes:
    """The one byte form of a value of dicts with str keys, lists, str, int, bool, None and Written.

    Raises TypeError for a float (its digits would depend on the writer) and for any other type, ValueError for a value
    that is nested deeper than MAX_DEPTH or holds itself, UnicodeEncodeError for a lone surrogate.

    >>> write_canonical_json({"b": [1, None], "a": "é"})
    b'{"a":"\\xc3\\xa9","b":[1,null]}\\n'
    """
    _check(value)
    try:
        return orjson.dumps(value, _copy_written, option=_CANONICAL)
    except TypeError:  # integers of more than 64 bits, lone surrogates
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=_parse_written)
        return text.encode() + b"\n"


def _parse_written(value: Written) -> Any:
    return orjson.loads(value.json)


def _copy_written(value: Written) -> orjson.Fragment:
    return orjson.Fragment(value.json)


def write_canonical_lines(values: Iterable[Any]) -> bytes:
    """The canonical JSON of each value, one after the other.

    >>> write_canonical_lines([{"a": 1}, {"b": 2}])
    b'{"a":1}\\n{"b":2}\\n'
    """
    return b"".join(list_canonical_lines(values))


def list_canonical_lines(values: Iterable[Any]) -> Iterator[bytes]:
    """As write_canonical_lines, some lines at a time."""
    waiting = iter(values)
    while some := list(islice(waiting, _LINES)):  # each line alone would take 4 kB while it is held
        yield _write_plain_lines(some) or b"".join(map(write_canonical_json, some))


def _write_plain_lines(values: list[Any]) -> bytes | None:
    """As write_canonical_lines, if all are dicts of scalars, as in most tables; else None. Checks all at once, in C."""
    if (
        set(map(type, values)) != {dict}
        or not set(map(type, chain.from_iterable(values))) <= {str}
        or not set(map(type, chain.from_iterable(map(dict.values, values)))) <= _SCALARS
    ):
        return None
    try:
        return b"".join([orjson.dumps(value, option=_CANONICAL) for value in values])
    except TypeError:  # integers of more than 64 bits, lone surrogates
        return None


def parse_canonical(data: bytes, name: str) -> Any:
    """The value whose canonical JSON is data. Raises FormatError, which names `name`, for anything else."""
    try:
        value = json.loads(data)
        again = write_canonical_json(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise FormatError(f"{name}: not canonical JSON: {error}") from error
    if again != data:
        at = next((i for i, (a, b) in enumerate(zip(data, again, strict=False)) if a != b), min(len(data), len(again)))
        raise FormatError(f"{name}: not canonical JSON: byte {at} differs from the canonical form of the same value")
    return value


class _Writable(Protocol):
    def write(self, data: bytes | memoryview, /) -> int: ...


class Sha256Writer:
    """Writes to a buffered binary file and knows the size and sha256 of all that was written."""

    def __init__(self, file: _Writable) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    def write(self, data: bytes | memoryview) -> int:
        self._hash.update(data)
        self.size_bytes += memoryview(data).nbytes
        return self._file.write(data)

    def writelines(self, pieces: Iterable[bytes]) -> None:
        """Write these one after the other, as open files do."""
        for some in pieces:
            self.write(some)

    @property
    def sha256(self) -> str:
        """The sha256 of all bytes written so far."""
        return self._hash.hexdigest()


def _check(value: Any) -> None:
    # What most lines of a table are: a dict of scalars.
    if type(value) is dict and set(map(type, value)) == {str} and set(map(type, value.values())) <= _SCALARS:
        return
    # Checks each level by its types, so that long lists are looked at in C.
    level = [value]
    for depth in range(MAX_DEPTH + 1):
        all_kinds = set(map(type, level))
        kinds = all_kinds - _SCALARS
        if not kinds:
            return
        for kind in kinds:
            if not issubclass(kind, (*_CONTAINERS, str, int)):
                item = next(item for item in level if type(item) is kind)
                raise TypeError(f"canonical JSON: {item!r} is neither str nor int nor bool nor None")
        if kinds <= _CONTAINERS:
            held = [item for item in level if type(item) in _CONTAINERS]
            if kinds == {list} and depth < MAX_DEPTH and set(map(type, chain.from_iterable(held))) <= _SCALARS:
                return  # so end most: with a long list of short ones, such as merges
        else:
            held = [item for item in level if isinstance(item, tuple(_CONTAINERS))]
        # Each container once: one that holds itself twice would double with every level.
        containers = dict(zip(map(id, held), held, strict=True)).values()
        if containers and depth == MAX_DEPTH:
            raise ValueError(f"canonical JSON: nested deeper than {MAX_DEPTH}")
        if not any(issubclass(kind, dict) for kind in kinds):
            level = list(chain.from_iterable(containers))
            continue
        for item in containers:
            if isinstance(item, dict) and set(map(type, item)) - {str}:
                for key in item:
                    if not isinstance(key, str):
                        raise TypeError(f"canonical JSON: the key {key!r} is not a str")
        level = list(chain.from_iterable(item.values() if isinstance(item, dict) else item for item in containers))
