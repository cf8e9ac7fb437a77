"""What a stream leaves beside its output: what waited at its last look, and the wish that it ends."""

from __future__ import annotations

import contextlib
import json

from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER, WATCHERS

NOTHING_WAITS = {"waiting_files": 0, "waiting_bytes": 0, "oldest_waiting_s": 0, "quarantined": 0}


def locate_wish(output: str) -> str:
    """The URL of the file that tells a stream to end."""
    return urls.join(output, FOLDER, WATCHERS, "drain")


def locate_look(output: str) -> str:
    """The URL of the file with the number of a stream's last look, and what waited then."""
    return urls.join(output, FOLDER, WATCHERS, "look")


def read_look(output: str) -> dict[str, int] | None:
    """The last look of a stream: its number (look), its time (said), and what waited; None if there is none."""
    data = storage.read_if_there(locate_look(output))
    with contextlib.suppress(ValueError):  # it is just being written
        return NOTHING_WAITS | json.loads(data) if data else None
    return None
