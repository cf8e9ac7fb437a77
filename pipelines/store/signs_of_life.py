"""Signs of life: a process leaves a file under a new name every few seconds, and others see that the name changes.

No clock of another host is read. A process is lost if its sign has not changed for a lease, on the clock of the host
that looks. If that is wrong, because a host was only slow, two hosts do the same work, which does no harm.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from tokcore.errors import TokError
from tokcore_pipelines.store import storage, urls

_BEATS_PER_LEASE = 5

K = TypeVar("K")


class Seen(NamedTuple):
    """The signs of one process, and since when they are the same."""

    names: frozenset[str]  # of the signs
    since: float  # of this host's monotonic clock: when these were first seen

    @property
    def silent_s(self) -> float:
        """For how many seconds there has been no new sign."""
        return time.monotonic() - self.since


class Signs(Generic[K]):
    """This process's own signs, and those that it sees of others, each of whom has a key."""

    def __init__(self, folder: str, kind: str, lease_s: float, describe: Callable[[], Mapping[str, Any]]) -> None:
        """folder: URL. kind: how the names of this one's signs begin. describe: what a sign says of this process."""
        self.folder = folder
        self.process = uuid.uuid4().hex[:12]
        self.lease_s = lease_s
        self.seen: dict[K, Seen] = {}
        self.kind = kind
        self._describe = describe
        self._number = 0
        self._sign = ""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Show that this process lives, from a thread, until end()."""
        self.beat()
        self._thread = threading.Thread(target=self._keep_beating, daemon=True)
        self._thread.start()

    @property
    def has_begun(self) -> bool:
        return self._thread is not None

    def beat(self) -> None:
        """Leave a new sign in place of the last one."""
        with self._lock:
            before, self._number = self._sign, self._number + 1
            self._sign = self._leave(f"{self._number:08d}")
            if before:
                storage.remove_file(urls.join(self.folder, before))

    def end(self, last: str = "") -> None:
        """Remove the sign. last: how the name of one ends that is left in its place; empty: none is."""
        if self._thread is None or self._ended.is_set():
            return
        self._ended.set()
        self._thread.join()
        with contextlib.suppress(TokError, OSError):
            if last:
                self._leave(last)
            storage.remove_file(urls.join(self.folder, self._sign))

    def observe(self, signs: Mapping[K, set[str]]) -> None:
        """Note the names of the signs that there are now. Who is not among the keys is forgotten."""
        now = time.monotonic()
        before = self.seen
        self.seen = {
            key: before[key] if key in before and before[key].names == names else Seen(frozenset(names), now)
            for key, names in signs.items()
        }

    def _leave(self, sign: str) -> str:
        name = f"{self.kind}.{self.process}.{sign}"
        with storage.write_attempt(urls.join(self.folder, name)) as file:
            file.write(json.dumps(self._describe()).encode())
        return name

    def _keep_beating(self) -> None:
        while not self._ended.wait(self.lease_s / _BEATS_PER_LEASE):
            # A store in trouble is no reason to end: at worst, others do this one's work, too.
            with contextlib.suppress(TokError, OSError):
                self.beat()
