"""Files of an output that have an object of JSON in each line: a dataclass for each."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tokcore.files.canonical_json import parse_canonical
from tokcore.files.jsonable import from_jsonable
from tokcore_pipelines.store import storage

T = TypeVar("T")


def read_lines(url: str, cls: type[T]) -> Iterator[T]:
    """The objects in a file, which may be larger than memory, as they are asked for.

    Raises FormatError, naming the line, unless it is canonical and what tokcore writes for cls.
    """
    with io.BufferedReader(storage.open_read(url)) as lines:
        yield from parse_lines(lines, url, cls)


def read_table(url: str, cls: type[T]) -> list[T]:
    """As read_lines, of a file that fits into memory; it costs one request in a store."""
    return [*parse_lines(io.BytesIO(storage.read_bytes(url)), url, cls)]


def parse_lines(lines: Iterable[bytes], name: str, cls: type[T]) -> Iterator[T]:
    """The objects in these lines. name: of the file, for messages. Raises as read_lines."""
    for number, line in enumerate(lines, 1):
        place = f"{name}:{number}"
        yield from_jsonable(cls, parse_canonical(line, place), place)
