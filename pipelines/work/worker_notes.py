"""What worker processes of an engine leave beside the records: who did what, who refused. No hash covers it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_schemas.run_json import WorkerProcess

_STARTED = round(time.time(), 3)

# The variable that says for which process of the engine this one works.
SERVES = "TOKCORE_SERVES"


def note_item(attempts: Attempts, item: int) -> None:
    """Leave a note that this process did that work item."""
    note = {"host": platform.node(), "process": os.getpid(), "started": _STARTED, "executable": sys.executable}
    url = urls.join(_get_folder(attempts), f"item-{item:05d}.{uuid.uuid4().hex[:12]}")
    note["serves"] = os.environ.get(SERVES, "")
    with storage.write_attempt(url) as file:
        file.write(json.dumps({**note, "ancestors": _list_ancestors()}).encode())


def read_notes(attempts: Attempts) -> tuple[WorkerProcess, ...]:
    """The processes that left notes, and how many items each did. An item that was done twice counts twice."""
    items: Counter[WorkerProcess] = Counter()
    for note in _read_all(_get_folder(attempts)):
        ancestors = tuple(note.pop("ancestors"))
        items[WorkerProcess(**note, ancestors=ancestors)] += 1
    ordered = sorted(items, key=lambda one: (one.host, one.started or 0, one.process))
    return tuple(dataclasses.replace(one, items=items[one]) for one in ordered)


def get_greetings(attempts: Attempts) -> str:
    """URL of the folder where the workers of a job say that they have started, or why they refuse."""
    return urls.join(attempts.folder, "greetings")


def greet(folder: str, version: str, refusal: str = "") -> None:
    """Say in that folder that this worker, of that version, has started; or why it refuses to."""
    url = urls.join(folder, f"{uuid.uuid4().hex[:12]}.json")
    note = {"host": platform.node(), "process": os.getpid(), "version": version, "refusal": refusal}
    with storage.write_attempt(url) as file:
        file.write(json.dumps(note).encode())


def read_greetings(folder: str) -> tuple[int, str]:
    """How many workers have started, and why one refused; empty if none did."""
    notes = [*_read_all(folder)]
    refusals = [f"{note['host']}: {note['refusal']}" for note in notes if note["refusal"]]
    return len(notes) - len(refusals), refusals[0] if refusals else ""


def _read_all(folder: str) -> Iterator[dict[str, Any]]:
    """The notes in a folder. One that is still being written, or whose writer was killed, is passed over.

    So is one that is gone: an equal build that has finished removes them all.
    """
    for path in storage.list_tree(folder):
        with contextlib.suppress(ValueError):
            yield json.loads(storage.read_if_there(urls.join(folder, path)) or b"")


def _get_folder(attempts: Attempts) -> str:
    return urls.join(attempts.folder, "workers")


def _list_ancestors() -> list[int]:
    """The ids of the processes above this one, as far as the system tells."""
    found = [os.getppid()]
    while found[-1] > 1:
        try:
            status = Path(f"/proc/{found[-1]}/stat").read_text()
        except OSError:  # no Linux, or it has just ended
            break
        found.append(int(status.rpartition(")")[2].split()[1]))
    return found
