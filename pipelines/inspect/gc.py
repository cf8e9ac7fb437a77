"""`tokcore gc OUTPUT`: remove files that no manifest names: unfinished work, and files of uncommitted stages. No Beam.

A running build is safe: if any file to remove is younger than the limit, nothing is removed. A build begins each stage
by writing a new file, so a running build has a young file.
"""

from __future__ import annotations

import dataclasses
import re
import time

from pipelines.stages.commit import MANIFEST, RUN, find_manifest
from pipelines.stages.dataset_card import CARD, is_card
from pipelines.store import storage, urls
from pipelines.store.attempts import FOLDER
from pipelines.store.redaction import redact
from schemas.stage_manifests import BUILD, STAGES
from tokcore.errors import ConfigError, FormatError

DEFAULT_AGE = "24h"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LOOK_AGAIN_SECONDS = 0.2


@dataclasses.dataclass(frozen=True, slots=True)
class Collected:
    """What gc removed, or would remove."""

    removed: tuple[str, ...]  # paths below the output
    size_bytes: int
    youngest_seconds: float | None  # age of the youngest file that no manifest names; None if there is none
    too_young: bool  # nothing was removed, since a build may be running
    left: tuple[str, ...]  # named by no manifest, but in no place that a build writes to


def gc(output: str, older_than: str = DEFAULT_AGE, dry_run: bool = False) -> Collected:
    """Remove the files of an output that no manifest names, if all of them are older than the limit.

    older_than: 90s, 30m, 24h or 7d. dry_run: remove nothing, but say what would be.
    Raises ConfigError if there is no build, or if a manifest cannot be read, since what it names is then unknown.
    """
    limit = parse_seconds(older_than)
    if not storage.exists(output):
        raise ConfigError(f"{redact(output)}: there is no output")
    unnamed, left = _find_unnamed(output)
    looked = {path: storage.read_footprint(urls.join(output, path)) for path in unnamed}
    facts = {path: fact for path, fact in looked.items() if fact is not None}
    youngest = min((time.time() - fact.changed for fact in facts.values()), default=None)
    too_young = youngest is not None and youngest < limit
    removed: list[str] = []
    if not too_young:
        removed = list(facts) if dry_run else _remove(output, list(facts))
    return Collected(tuple(removed), sum(facts[path].size_bytes for path in removed), youngest, too_young, tuple(left))


def parse_seconds(duration: str) -> int:
    """The seconds of a duration such as 90s, 30m, 24h or 7d.

    >>> parse_seconds("90s"), parse_seconds("7d"), parse_seconds("0")
    (90, 604800, 0)
    """
    match = re.fullmatch(r"(\d+)([smhd]?)", duration)
    if match is None or (not match[2] and int(match[1])):
        raise ConfigError(f"--older-than {duration}: expected a number and a unit: 90s, 30m, 24h or 7d")
    return int(match[1]) * _SECONDS[match[2] or "s"]


def _find_unnamed(output: str) -> tuple[list[str], list[str]]:
    """(paths in a build's places that no manifest names, in the order of removal; paths in other places)."""
    named: set[str] = set()
    try:
        for stage in (*STAGES, BUILD):
            if (made := find_manifest(output, stage)) is not None:
                prefix = f"{stage}/" if stage != BUILD else ""
                named |= {f"{prefix}{name}" for name in (MANIFEST, RUN, *(entry.path for entry in made.files))}
    except FormatError as error:
        raise ConfigError(f"{error}. What it names is unknown, so nothing is removed; see `tokcore verify`") from error
    present = storage.list_tree(output)
    places = {*STAGES, FOLDER}
    if not named and not any(path.startswith(f"{FOLDER}/") for path in present):
        raise ConfigError(f"{redact(output)}: holds no build, so nothing is removed")
    unnamed = [path for path in present if path not in named]
    ours = [path for path in unnamed if path.split("/")[0] in places or _is_of_build(output, path)]
    return sorted(ours, key=_order_removal), sorted(set(unnamed) - set(ours))


def _is_of_build(output: str, path: str) -> bool:
    """Whether a path is one of those that a build has beside its folders. A README.md may also be the user's."""
    return path in (MANIFEST, RUN) or (path == CARD and is_card(storage.read_bytes(urls.join(output, path))))


def _order_removal(path: str) -> tuple[bool, bool, str]:
    """Sort key: records before the files that they name, claims after the files that they protect."""
    return path.endswith(".claim"), "/done/" not in path, path


def _remove(output: str, paths: list[str]) -> list[str]:
    """Remove the files one by one, until a build begins to work; return what was removed."""
    removed: list[str] = []
    known, looked = set(paths), 0.0
    for path in paths:
        if time.monotonic() - looked > _LOOK_AGAIN_SECONDS:
            unnamed, _ = _find_unnamed(output)
            if not set(unnamed) <= known:
                return removed
            still, looked = set(unnamed), time.monotonic()
        if path in still:
            storage.remove_file(urls.join(output, path))
            removed.append(path)
    for place in (FOLDER, *STAGES):
        storage.remove_empty_folders(urls.join(output, place))
    return removed
