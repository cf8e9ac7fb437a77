"""Threads that cannot start: an error in time, in place of a wait for ever; and what to do about too little memory."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from pathlib import Path

from tokcore.errors import list_causes
from tokcore_pipelines.local.terminal import format_size

START_SECONDS = 20.0  # in which a thread begins, on a machine however busy
_LEAST_BYTES = 512 << 20  # of address space: what a command's libraries take, and some work

# What libraries say, beside MemoryError, when the system gives them no memory or thread.
_WORDS = (
    "can't start new thread",
    "failed to map segment",
    "cannot allocate memory",
    "alloc of size",
    "std::bad_alloc",
)


class _Started(threading.Event):
    """What Thread.start() waits for. A thread that dies of too little memory before it sets this never sets it."""

    def wait(self, timeout: float | None = None) -> bool:
        if not super().wait(START_SECONDS if timeout is None else timeout):
            raise RuntimeError("can't start new thread: it was created, and did not begin")
        return True


def limit_thread_starts() -> None:
    """From now on let Thread.start() raise RuntimeError, in this whole process, if a thread does not begin in time."""
    start = threading.Thread.start

    def start_in_time(thread: threading.Thread) -> None:
        if hasattr(thread, "_started") and not thread._started.is_set():
            thread._started = _Started()
        start(thread)

    threading.Thread.start = start_in_time  # type: ignore[method-assign,assignment]


def spare_address_space() -> None:
    """Where address space is limited, let Arrow reserve none of it ahead, here and in workers: it would take 1 GiB."""
    if find_address_space() is not None:
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def describe_shortage(error: BaseException | None) -> str:
    """What to do about an error that comes of too little memory, or too many processes; empty for any other error.

    What caused it is looked at, too: what reads a file may blame its bytes.
    """
    return next(filter(None, map(_describe_shortage, list_causes(error, explicit=True))), "")


def _describe_shortage(error: BaseException) -> str:
    is_refused = isinstance(error, OSError) and error.errno in (errno.ENOMEM, errno.EAGAIN)
    said = str(error).lower()
    if not (isinstance(error, MemoryError) or is_refused or any(word in said for word in _WORDS)):
        return ""
    found = find_address_space()
    limit = f"It may use {format_size(found[0])} of address space (`ulimit -v`): raise that. " if found else ""
    return (
        f"the system gave this process no memory, or no thread ({str(error).strip() or type(error).__name__}). {limit}"
        f"Try fewer --workers, end other programs, or raise the limits of memory and of processes (`ulimit -u`)"
    )


def find_address_space() -> tuple[int, int] | None:
    """(limit of this process's address space, what is left of it), in bytes; None if there is no limit."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            return limit, limit - pages * resource.getpagesize()
    return None


def describe_small_space() -> str:
    """Why a command is not begun in so small an address space; empty if it is large enough."""
    found = find_address_space()
    if found is None or found[1] >= _LEAST_BYTES:
        return ""
    limit, left, least = map(format_size, (found[0], max(0, found[1]), _LEAST_BYTES))
    return (
        f"this process may use {limit} of address space (`ulimit -v`), of which {left} are left: a command needs "
        f"{least}. Raise the limit. To bound memory, limit a control group instead"
    )
