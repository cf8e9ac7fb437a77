"""Claims on pieces of work that are in no share, or in that of a lost slice. The claim created first wins.

A claim has a generation. The first is created if there is none; the next one, once its holder is lost. A name is
created once, so of several hosts that want a generation one gets it. Claims belong to slices: a slice that is started
again goes on with its own.
"""

from __future__ import annotations

from tokcore.files.canonical_json import parse_canonical, write_canonical_json
from tokcore_pipelines.local.run_options import Slice
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts


class Claims:
    """The claims of one stage of one output, as far as this host has seen them."""

    def __init__(self, attempts: Attempts, share: Slice) -> None:
        self._attempts = attempts
        self._share = share
        self._folder = urls.join(attempts.folder, "claims")
        self._last: dict[str, int] = {}  # key -> generation
        self._holders: dict[tuple[str, int], int] = {}

    def look(self) -> None:
        """See which claims there are now."""
        for name in storage.list_tree(self._folder):
            key, _, generation = name.rpartition(".")
            self._last[key] = max(self._last.get(key, 0), int(generation))

    def find_holder(self, key: str) -> int | None:
        """The slice that has the last claim of a piece of work; None if there is no claim."""
        if not (last := self._last.get(key, 0)):
            return None
        if (key, last) not in self._holders:
            url = self._get_url(key, last)
            data = storage.read_if_there(url)
            if data is None:  # the stage was committed, and its folder removed
                return None
            self._holders[key, last] = parse_canonical(data, url)["slice"]
        return self._holders[key, last]

    def take(self, key: str) -> bool:
        """Create the next claim of a piece of work; whether it is this slice's now."""
        generation = self._last.get(key, 0) + 1
        data = write_canonical_json({"slice": self._share.number})
        if storage.create_exclusive(self._get_url(key, generation), data, self._attempts.scratch):
            self._holders[key, generation] = self._share.number
        self._last[key] = generation
        return self.find_holder(key) == self._share.number

    def _get_url(self, key: str, generation: int) -> str:
        return urls.join(self._folder, f"{key}.{generation}")
