"""Files that failed again and again: noted beside the output, left alone until they change or the note is removed."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping

from tokcore.files.canonical_json import hash_sha256, write_canonical_json
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER, WATCHERS
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.watch.waiting_files import Waiting

_NOTES = "quarantine"
_KEY_DIGITS = 24


class Quarantine:
    """The notes of an output. A note is about one version of a file."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._folder = urls.join(output, FOLDER, WATCHERS, _NOTES)
        self.notes: dict[str, dict[str, str]] = {}  # name of the note -> what it says

    def read(self) -> None:
        """See which notes there are now."""
        names = storage.list_tree(self._folder)
        self.notes = {name: self.notes.get(name) or self._read(name) for name in names if name.endswith(".json")}

    def put(self, uri: str, change: Waiting, error: str) -> None:
        """Note that a file failed as often as it may."""
        note = {
            "uri": redact(uri),
            "error": error,
            "date": datetime.datetime.now(datetime.UTC).isoformat("T", "seconds"),
        }
        name = _name(uri, change)
        storage.create_exclusive(urls.join(self._folder, name), json.dumps(note).encode(), self._folder)
        self.notes[name] = note

    def find(self, changes: Mapping[str, Waiting]) -> set[str]:
        """The uris of changes that are in quarantine."""
        return {uri for uri, change in changes.items() if _name(uri, change) in self.notes} if self.notes else set()

    def forget_others(self, changes: Mapping[str, Waiting]) -> None:
        """Remove the notes about files that have changed since, or are gone."""
        names = {_name(uri, change) for uri, change in changes.items()} if self.notes else set()
        old = [name for name in self.notes if name not in names]
        storage.remove_files(self._folder, old)
        for name in old:
            del self.notes[name]

    def _read(self, name: str) -> dict[str, str]:
        data = storage.read_if_there(urls.join(self._folder, name))
        try:
            note = json.loads(data or b"")
        except ValueError:
            note = None
        return note if isinstance(note, dict) else {"uri": name, "error": "the note cannot be read", "date": ""}


def _name(uri: str, change: Waiting) -> str:
    return hash_sha256(write_canonical_json([uri, change.size_bytes, change.version]))[:_KEY_DIGITS] + ".json"
