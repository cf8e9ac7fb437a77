"""Work that gives back the memory it is done with, so that a worker takes no more for each piece of work it does.

glibc keeps freed arrays of up to 32 MB for later. Between two steps of sorting that is most of what a worker holds, and
it is scattered, so each step takes some more.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import pyarrow as pa

P = ParamSpec("P")
T = TypeVar("T")


def freeing_memory(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, which calls free_memory when it ends, also if it raises."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        finally:
            free_memory()

    return call


def free_memory() -> None:
    """Give unused memory back to the system. Other C libraries than glibc do that by themselves."""
    pa.default_memory_pool().release_unused()
    trim = _find_trim()
    if trim is not None:
        trim(0)


@functools.cache
def _find_trim() -> Callable[[int], int] | None:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
