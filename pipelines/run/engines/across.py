"""How our errors get from a worker to the driver: engines pass on text only, and class and message must survive.

A worker adds a note to the error, which its traceback ends with; the driver finds the note in whatever the engine says.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tokcore.errors import StageError, TokError

T = TypeVar("T")

_NOTE = re.compile(r"tokcore-error (\w+) ([A-Za-z0-9+/=]+)")


def run_here(function: Callable[[], T]) -> T:
    """function(), whose errors find_error finds."""
    with _noting():
        return function()


def pass_errors(elements: Iterable[T]) -> Iterator[T]:
    """The elements; find_error finds errors that are raised on the way."""
    with _noting():
        yield from elements


@contextmanager
def _noting() -> Iterator[None]:
    try:
        yield
    except TokError as error:
        message = base64.b64encode(str(error).encode()).decode()
        error.add_note(f"tokcore-error {type(error).__name__} {message}")
        raise


def find_error(text: str) -> TokError | None:
    """The error that a worker raised, with its class, in what an engine says of a failed job; None if there is none."""
    found = _NOTE.search(text)
    if found is None:
        return None
    classes = {cls.__name__: cls for cls in _list_classes(TokError)}
    return classes.get(found[1], StageError)(base64.b64decode(found[2]).decode())


def _list_classes(cls: type[TokError]) -> Iterator[type[TokError]]:
    yield cls
    for below in cls.__subclasses__():
        yield from _list_classes(below)
