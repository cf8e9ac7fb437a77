"""The signs of life of slices: what each host of a build knows of the others."""

from __future__ import annotations

import json
import os
import platform

from tokcore.errors import TokError
from tokcore_pipelines.local.run_options import Slice
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER
from tokcore_pipelines.store.signs_of_life import Seen, Signs

SIGNS = "slices"  # folder of the signs, in the folder of unfinished work
_ENDED = "ended"
_LEFT = "left"  # of a slice that has done its share, and was not to wait


class Presence(Signs[int]):
    """This slice's own signs, and those that it sees."""

    def __init__(self, output: str, share: Slice) -> None:
        kind, folder = f"{share.number}-of-{share.of}", urls.join(output, FOLDER, SIGNS)
        note = {"host": platform.node(), "process": os.getpid(), "why": ""}
        super().__init__(folder, kind, share.lease_s, lambda: note)
        self._share = share
        self._note = note
        self._left: dict[int, str] = {}  # the last sign of each slice that has left

    def begin(self) -> None:
        """Show that this slice lives, until end(). What an earlier process of it left is removed."""
        if not self.has_begun:
            names = [name for name in storage.list_tree(self.folder) if name.startswith(f"{self.kind}.")]
            storage.remove_files(self.folder, names)
            super().begin()

    def end(self, why: str = "", *, has_left: bool = False) -> None:
        """Remove the sign. why: what ended this slice before its time, which others are told; empty if nothing did.

        has_left: whether its share is done, and it did not wait for others.
        """
        self._note["why"] = why
        super().end(_LEFT if has_left else _ENDED if why else "")

    def look(self) -> None:
        """See which signs there are now."""
        names: dict[int, set[str]] = {number: set() for number in range(1, self._share.of + 1)}
        self._left = {}
        for name in storage.list_tree(self.folder):
            which, _, of = name.split(".")[0].partition("-of-")
            if of == str(self._share.of) and which.isdigit() and int(which) in names:
                # One that has left shows no sign of life: it is told apart for describe() alone.
                if name.endswith(f".{_LEFT}"):
                    self._left[int(which)] = name
                else:
                    names[int(which)].add(name)
        self.observe(names)

    def is_lost(self, number: int) -> bool:
        """Whether a slice said goodbye, or has given no new sign for a lease, on this host's clock."""
        seen = self.seen.get(number)
        if number == self._share.number or seen is None:
            return False
        return _has_ended(seen) or seen.silent_s >= self.lease_s

    def describe(self, number: int) -> str:
        """A slice in words: where it runs; why it ended, or how long it has been silent, if that is long."""
        title = f"slice {number}/{self._share.of}"
        seen = self.seen.get(number)
        has_left = seen is not None and not seen.names and number in self._left
        if seen is None or not (seen.names or has_left):
            return f"{title} (not seen yet: do all hosts share the output?)"
        silent_s = seen.silent_s
        try:
            note = json.loads(storage.read_bytes(urls.join(self.folder, max(seen.names or {self._left[number]}))))
        except (TokError, ValueError):  # a newer sign has just replaced it
            return title
        where = f"{title} (host {note['host']}, process {note['process']}"
        if has_left:
            return f"{where}, has done its share and did not wait: run its command again)"
        if _has_ended(seen):
            return f"{where}, ended: {note['why']})"
        return f"{where}, silent for {silent_s:.0f} s)" if 2 * silent_s > self.lease_s else f"{where})"


def _has_ended(seen: Seen) -> bool:
    """Whether every process that showed itself has said goodbye."""
    last = {name.split(".")[1]: name.split(".")[2] for name in sorted(seen.names)}
    return bool(last) and all(sign == _ENDED for sign in last.values())
