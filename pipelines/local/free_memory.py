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

_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h

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


def share_arena() -> None:
    """Have all threads that start from now on allocate from one arena.

    By default glibc has many arenas, and each keeps some of the memory that its threads have freed. A process that
    starts new threads all the time would grow for hours.
    """
    if (set_option := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        set_option(_ARENA_MAX, 1)


@functools.cache
def _find_trim() -> Callable[[int], int] | None:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
