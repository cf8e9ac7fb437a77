"""How far a stage is on an engine, by what its workers recorded: few engines tell counters while a job runs.

A job that was found again is measured alike, and so is what an earlier one did.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from tokcore_pipelines.local.pool import OnProgress
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts

_EVERY_S = 2.0
# Listing many records takes long. At most this share of the time is spent on it.
_SHARE = 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class Pieces:
    """What a stage has to do."""

    num: int
    name: Callable[[], Mapping[str, int]]  # key of the record of each -> its stored bytes


class Recorded:
    """Counts the pieces that have a record."""

    def __init__(self, attempts: Attempts, pieces: Pieces) -> None:
        self.num_done = 0
        self.done_bytes = 0
        self._folder = urls.join(attempts.folder, "done")
        self._left: dict[str, int] | None = None
        self._pieces = pieces
        self._next = 0.0

    def look(self, *, at_once: bool = False) -> int:
        """Count again, if it is time to; stored bytes of what was found to be done since the last look."""
        began = time.monotonic()
        if began < self._next and not at_once:
            return 0
        if self._left is None:
            self._left = {f"{key}.json": size for key, size in self._pieces.name().items()}
        found = [size for name in storage.list_tree(self._folder) if (size := self._left.pop(name, None)) is not None]
        self.num_done += len(found)
        self.done_bytes += sum(found)
        now = time.monotonic()
        self._next = now + max(_EVERY_S, (now - began) / _SHARE)
        return sum(found)


@contextlib.contextmanager
def telling(recorded: Recorded, on_progress: OnProgress | None) -> Iterator[None]:
    """While the block runs, and once at its end, on_progress gets the stored bytes of what is found to be done."""
    ended = threading.Event()

    def tell() -> None:
        if on_progress is not None and (found := recorded.look(at_once=ended.is_set())):
            on_progress("read", found)

    def watch() -> None:
        while not ended.wait(_EVERY_S):
            tell()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
    tell()
