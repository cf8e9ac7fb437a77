"""Whose turn it is: of several watchers on one output one commits, and the others take over when it is gone.

As between slices (pipelines/run/slices/presence.py), no clock of another host is read: each watcher leaves a sign under
a new name every few seconds, and one whose sign has not changed for a lease is lost. Nothing hangs on this but economy:
if two watchers think that it is their turn, both do the same work, and the first commit counts.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from tokcore.errors import TokError
from tokcore.files.canonical_json import parse_canonical, write_canonical_json
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER, WATCHERS

SIGN, TURN = "sign", "turn"
_BEATS_PER_LEASE = 5


class Turn:
    """One watcher's signs, and what it sees of the others."""

    def __init__(self, output: str, lease_s: float, describe: Callable[[], dict[str, Any]]) -> None:
        """describe: what the sign says of this watcher, for `tokcore status`."""
        self._unfinished = urls.join(output, FOLDER)
        self._folder = urls.join(output, FOLDER, WATCHERS)
        self._lease_s = lease_s
        self._describe = describe
        self._process = uuid.uuid4().hex[:12]
        self._number = 0
        self._sign = ""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._seen: dict[str, tuple[frozenset[str], float]] = {}  # process -> (its signs, since when they are these)
        self._holders: dict[int, str] = {}  # generation of a turn -> process

    def begin(self) -> None:
        """Show that this watcher lives, from a thread, until end()."""
        self.beat()
        self._thread = threading.Thread(target=self._keep_beating, daemon=True)
        self._thread.start()

    def beat(self) -> None:
        """Leave a new sign in place of the last one."""
        with self._lock:
            before, self._number = self._sign, self._number + 1
            name = f"{SIGN}.{self._process}.{self._number:08d}"
            with storage.write_attempt(urls.join(self._folder, name)) as file:
                file.write(json.dumps(self._describe()).encode())
            self._sign = name
            if before:
                storage.remove_file(urls.join(self._folder, before))

    def take(self) -> bool:
        """Whether it is this watcher's turn: it was, or it is free, or its holder is lost."""
        generations = self._look()
        newest = max(generations, default=0)
        holder = self._find_holder(newest) if newest else None
        if holder == self._process:
            self._remove_lost()
            return True
        if holder is not None and not self._is_lost(holder):
            return False
        url = urls.join(self._folder, f"{TURN}.{newest + 1:08d}")
        taken = storage.create_exclusive(url, write_canonical_json({"process": self._process}), self._folder)
        if taken:
            storage.remove_files(self._folder, [f"{TURN}.{number:08d}" for number in generations])
        return taken

    def end(self) -> None:
        """Remove the sign, by which others know that the turn is free; the last one leaves nothing of turns."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        with contextlib.suppress(TokError, OSError):
            storage.remove_file(urls.join(self._folder, self._sign))
            names = storage.list_tree(self._folder)
            if not any(name.startswith(f"{SIGN}.") for name in names):
                storage.remove_files(self._folder, [name for name in names if name.startswith(f"{TURN}.")])
                storage.remove_empty_folders(self._unfinished)

    def _remove_lost(self) -> None:
        """Remove the signs of watchers that are gone; one that was only slow leaves a new one."""
        lost = [process for process in self._seen if process != self._process and self._is_lost(process)]
        storage.remove_files(self._folder, [name for process in lost for name in self._seen[process][0]])

    def _keep_beating(self) -> None:
        while not self._ended.wait(self._lease_s / _BEATS_PER_LEASE):
            # A store in trouble is no reason to end: at worst, another watcher does the same work.
            with contextlib.suppress(TokError, OSError):
                self.beat()

    def _look(self) -> list[int]:
        """See who has left signs; the generations of turns that there are."""
        now = time.monotonic()
        signs: dict[str, set[str]] = {}
        generations = []
        for name in storage.list_tree(self._folder):
            kind, _, rest = name.partition(".")
            if kind == SIGN:
                signs.setdefault(rest.partition(".")[0], set()).add(name)
            elif kind == TURN and rest.isdigit():
                generations.append(int(rest))
        for process, names in signs.items():
            seen = self._seen.get(process)
            if seen is None or seen[0] != names:
                self._seen[process] = (frozenset(names), now)
        self._seen = {process: seen for process, seen in self._seen.items() if process in signs}
        return generations

    def _find_holder(self, generation: int) -> str | None:
        """The process that took the turn; None if the file was removed meanwhile, by the one who took the next."""
        if generation not in self._holders:
            url = urls.join(self._folder, f"{TURN}.{generation:08d}")
            if (data := storage.read_if_there(url)) is None:
                return None
            self._holders[generation] = parse_canonical(data, url)["process"]
        return self._holders[generation]

    def _is_lost(self, process: str) -> bool:
        """Whether a watcher has removed its sign, or not renewed it for a lease."""
        return process not in self._seen or time.monotonic() - self._seen[process][1] >= self._lease_s
