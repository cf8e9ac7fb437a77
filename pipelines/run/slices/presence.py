"""Signs of life: each slice leaves a file under a new name every few seconds, and others see that the name changes.

No clock of another host is read. A slice is lost if its sign has not changed for a lease, on the clock of the host that
looks. If that is wrong, because a host was only slow, two hosts do the same work, which does no harm.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import threading
import time
import uuid

from tokcore.errors import TokError
from tokcore_pipelines.local.run_options import Slice
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER

SIGNS = "slices"  # folder of the signs, in the folder of unfinished work
_BEATS_PER_LEASE = 5
_ENDED = "ended"


@dataclasses.dataclass(slots=True)
class _Seen:
    """What was seen of another slice."""

    names: frozenset[str]
    since: float  # of this host's monotonic clock: when the names were first seen

    @property
    def has_ended(self) -> bool:
        """Whether every process that showed itself has said goodbye."""
        last = {name.split(".")[1]: name.split(".")[2] for name in sorted(self.names)}
        return bool(last) and all(sign == _ENDED for sign in last.values())


class Presence:
    """This slice's own signs, and those that it sees."""

    def __init__(self, output: str, share: Slice) -> None:
        self._folder = urls.join(output, FOLDER, SIGNS)
        self._share = share
        self._process = uuid.uuid4().hex[:12]
        self._number = 0
        self._sign = ""
        self._ended: threading.Event | None = None
        self._thread: threading.Thread | None = None
        self._seen: dict[int, _Seen] = {}

    # ------------------------------------------------------------------------------------------------------- own signs

    def begin(self) -> None:
        """Show that this slice lives, from a thread, until end(). What an earlier process of it left is removed."""
        if self._ended is not None:
            return
        own = f"{self._spell(self._share.number)}."
        storage.remove_files(self._folder, [name for name in storage.list_tree(self._folder) if name.startswith(own)])
        self._ended = threading.Event()
        self._beat()
        self._thread = threading.Thread(target=self._keep_beating, daemon=True)
        self._thread.start()

    def end(self, why: str = "") -> None:
        """Remove the sign. why: what ended this slice before its time, which others are told; empty if nothing did."""
        if self._ended is None or self._ended.is_set():
            return
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        with contextlib.suppress(TokError):
            if why:
                self._leave(_ENDED, why)
            storage.remove_file(urls.join(self._folder, self._sign))

    def _keep_beating(self) -> None:
        assert self._ended is not None
        while not self._ended.wait(self._share.lease_s / _BEATS_PER_LEASE):
            # A store in trouble is no reason to end: at worst, others do this slice's work, too.
            with contextlib.suppress(TokError, OSError):
                self._beat()

    def _beat(self) -> None:
        before = self._sign
        self._number += 1
        self._sign = self._leave(f"{self._number:08d}")
        if before:
            storage.remove_file(urls.join(self._folder, before))

    def _leave(self, sign: str, why: str = "") -> str:
        name = f"{self._spell(self._share.number)}.{self._process}.{sign}"
        note = {"host": platform.node(), "process": os.getpid(), "why": why}
        with storage.write_attempt(urls.join(self._folder, name)) as file:
            file.write(json.dumps(note).encode())
        return name

    def _spell(self, number: int) -> str:
        return f"{number}-of-{self._share.of}"

    # -------------------------------------------------------------------------------------------------- those of others

    def look(self) -> None:
        """See which signs there are now."""
        now = time.monotonic()
        names: dict[int, set[str]] = {number: set() for number in range(1, self._share.of + 1)}
        for name in storage.list_tree(self._folder):
            which, _, of = name.split(".")[0].partition("-of-")
            if of == str(self._share.of) and which.isdigit() and int(which) in names:
                names[int(which)].add(name)
        for number, found in names.items():
            seen = self._seen.get(number)
            if seen is None or seen.names != found:
                self._seen[number] = _Seen(frozenset(found), now)

    def is_lost(self, number: int) -> bool:
        """Whether a slice said goodbye, or has given no new sign for a lease, on this host's clock."""
        seen = self._seen.get(number)
        if number == self._share.number or seen is None:
            return False
        return seen.has_ended or time.monotonic() - seen.since >= self._share.lease_s

    def describe(self, number: int) -> str:
        """A slice in words: where it runs; why it ended, or how long it has been silent, if that is long."""
        title = f"slice {number}/{self._share.of}"
        seen = self._seen.get(number)
        if seen is None or not seen.names:
            return f"{title} (not seen yet: do all hosts share the output?)"
        silent_s = time.monotonic() - seen.since
        try:
            note = json.loads(storage.read_bytes(urls.join(self._folder, max(seen.names))))
        except (TokError, ValueError):  # a newer sign has just replaced it
            return title
        where = f"{title} (host {note['host']}, process {note['process']}"
        if seen.has_ended:
            return f"{where}, ended: {note['why']})"
        return f"{where}, silent for {silent_s:.0f} s)" if 2 * silent_s > self._share.lease_s else f"{where})"
