"""Which process did which work item on an engine: notes beside the records, which no hash covers. No Beam."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import sys
import time
import uuid
from collections import Counter
from pathlib import Path

from pipelines.store import storage, urls
from pipelines.store.attempts import Attempts
from schemas.run_json import WorkerProcess

_STARTED = round(time.time(), 3)


def note_item(attempts: Attempts, item: int) -> None:
    """Leave a note that this process did that work item."""
    note = {"host": platform.node(), "process": os.getpid(), "started": _STARTED, "executable": sys.executable}
    url = urls.join(_get_folder(attempts), f"item-{item:05d}.{uuid.uuid4().hex[:12]}")
    with storage.write_attempt(url) as file:
        file.write(json.dumps({**note, "ancestors": _list_ancestors()}).encode())


def read_notes(attempts: Attempts) -> tuple[WorkerProcess, ...]:
    """The processes that left notes, and how many items each did. An item that was done twice counts twice."""
    items: Counter[WorkerProcess] = Counter()
    for path in storage.list_tree(folder := _get_folder(attempts)):
        note = json.loads(storage.read_bytes(urls.join(folder, path)))
        ancestors = tuple(note.pop("ancestors"))
        items[WorkerProcess(**note, ancestors=ancestors)] += 1
    ordered = sorted(items, key=lambda one: (one.host, one.started or 0, one.process))
    return tuple(dataclasses.replace(one, items=items[one]) for one in ordered)


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
