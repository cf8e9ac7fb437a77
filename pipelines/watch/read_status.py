"""`tokcore status`: what the watchers of an output say of themselves, and what its log says."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from tokcore.files.jsonable import to_jsonable
from tokcore_pipelines.build.read_log import Log, read_log
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER, WATCHERS
from tokcore_pipelines.watch.quarantine import Quarantine
from tokcore_pipelines.watch.stream_notes import read_look
from tokcore_pipelines.watch.watcher_turns import SIGN


def read_status(output: str, with_drift: bool = False, baseline: str = "") -> dict[str, Any]:
    """The newest commit, its totals, the watchers, the files in quarantine, and drift, as JSON.

    with_drift: whether to measure drift here, by the usual limits. Otherwise it is what the watcher that commits says.
    baseline: as for Drift. Raises as read_log and Drift.measure do.
    """
    log = read_log(output)
    quarantine = Quarantine(output)
    quarantine.read()
    watchers = _read_signs(output)
    drift = _measure_drift(log, output, baseline) if with_drift else _find_drift(watchers)
    return {
        "newest_commit": log.newest,
        "gap": log.gap,
        "totals": to_jsonable(log.totals()),
        "watchers": watchers,
        "stream": read_look(output),
        "drift": drift,
        "quarantine": sorted(quarantine.notes.values(), key=lambda note: note["uri"]),
    }


def _measure_drift(log: Log, output: str, baseline: str) -> dict[str, Any] | None:
    # Loads what reads tables: only for who asks for it.
    from tokcore_pipelines.watch.drift import Drift
    from tokcore_schemas.build_tables import WatchTable

    return Drift(output, WatchTable(), baseline).measure(log)


def _find_drift(watchers: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What the signs of watchers hold of drift, once for the output; it is taken from them."""
    found = [drift for one in watchers if (drift := one.pop("drift", None)) is not None]
    return found[0] if found else None


def _read_signs(output: str) -> list[dict[str, Any]]:
    """The newest sign of each watcher, that of the one that commits first."""
    folder = urls.join(output, FOLDER, WATCHERS)
    found: dict[str, dict[str, Any]] = {}
    for name in sorted(storage.list_tree(folder)):
        kind, _, rest = name.partition(".")
        if kind != SIGN or (data := storage.read_if_there(urls.join(folder, name))) is None:
            continue
        with contextlib.suppress(ValueError):  # one that is being written: the one before is there, too
            found[rest.partition(".")[0]] = json.loads(data)
    return sorted(found.values(), key=lambda sign: (sign["role"], sign["host"], sign["process"]))
