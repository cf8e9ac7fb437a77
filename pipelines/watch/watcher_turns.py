"""Whose turn it is: of several watchers on one output one commits, and the others take over when it is gone.

Each shows that it lives, as slices do (store/signs_of_life.py). Nothing hangs on this but economy: if two watchers
think that it is their turn, both do the same work, and the first commit counts.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Any

from tokcore.errors import TokError
from tokcore.files.canonical_json import parse_canonical, write_canonical_json
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER, WATCHERS
from tokcore_pipelines.store.signs_of_life import Signs

SIGN, TURN = "sign", "turn"


def describe_watcher(role: str, began: float, **more: Any) -> dict[str, Any]:
    """What a sign says, for `tokcore status`. began: seconds since 1970."""
    where = {"host": os.uname().nodename, "process": os.getpid()}
    return {**where, "role": role, "began": int(began), "said": int(time.time()), **more}


class Turn(Signs[str]):
    """One watcher's signs, and what it sees of the others, by their processes."""

    def __init__(self, output: str, lease_s: float, describe: Callable[[], dict[str, Any]]) -> None:
        """describe: calls describe_watcher."""
        super().__init__(urls.join(output, FOLDER, WATCHERS), SIGN, lease_s, describe)
        self._unfinished = urls.join(output, FOLDER)
        self._holders: dict[int, str] = {}  # generation of a turn -> process

    def take(self) -> bool:
        """Whether it is this watcher's turn: it was, or it is free, or its holder is lost."""
        generations = self._look()
        newest = max(generations, default=0)
        holder = self._find_holder(newest) if newest else None
        if holder == self.process:
            self._remove_lost()
            return True
        if holder is not None and not self._is_lost(holder):
            return False
        url = urls.join(self.folder, f"{TURN}.{newest + 1:08d}")
        taken = storage.create_exclusive(url, write_canonical_json({"process": self.process}), self.folder)
        if taken:
            storage.remove_files(self.folder, [f"{TURN}.{number:08d}" for number in generations])
        return taken

    def end(self, last: str = "") -> None:
        """Remove the sign, by which others know that the turn is free; the last one leaves nothing of turns."""
        super().end(last)
        with contextlib.suppress(TokError, OSError):
            names = storage.list_tree(self.folder)
            if not any(name.startswith(f"{SIGN}.") for name in names):
                storage.remove_files(self.folder, [name for name in names if name.startswith(f"{TURN}.")])
                storage.remove_empty_folders(self._unfinished)

    def _remove_lost(self) -> None:
        """Remove the signs of watchers that are gone; one that was only slow leaves a new one."""
        lost = [process for process in self.seen if process != self.process and self._is_lost(process)]
        storage.remove_files(self.folder, [name for process in lost for name in self.seen[process].names])

    def _look(self) -> list[int]:
        """See who has left signs; the generations of turns that there are."""
        signs: dict[str, set[str]] = {}
        generations = []
        for name in storage.list_tree(self.folder):
            kind, _, rest = name.partition(".")
            if kind == SIGN:
                signs.setdefault(rest.partition(".")[0], set()).add(name)
            elif kind == TURN and rest.isdigit():
                generations.append(int(rest))
        self.observe(signs)
        return generations

    def _find_holder(self, generation: int) -> str | None:
        """The process that took the turn; None if the file was removed meanwhile, by the one who took the next."""
        if generation not in self._holders:
            url = urls.join(self.folder, f"{TURN}.{generation:08d}")
            if (data := storage.read_if_there(url)) is None:
                return None
            self._holders[generation] = parse_canonical(data, url)["process"]
        return self._holders[generation]

    def _is_lost(self, process: str) -> bool:
        """Whether a watcher has removed its sign, or not renewed it for a lease."""
        return process not in self.seen or self.seen[process].silent_s >= self.lease_s
