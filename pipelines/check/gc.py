"""`tokcore gc OUTPUT`: remove files that no manifest names: unfinished work, and files of uncommitted stages. No Beam.

A running build is safe: if any file to remove is younger than the limit, nothing is removed. A build begins each stage
by writing a new file, so a running build has a young file.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Sequence

from tokcore.errors import ConfigError, FormatError
from tokcore_pipelines.build.commit import MANIFEST, RUN, find_manifests, get_path_below, require_output
from tokcore_pipelines.build.dataset_card import CARD, is_card
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.build.tokenizers_beside import list_named_beside
from tokcore_pipelines.history.expire_commits import list_expired
from tokcore_pipelines.history.tombstone_changes import list_named_files, list_planned_files
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER, WATCHERS
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.commit_log import OWN, PARTS, find_number, name_commit
from tokcore_schemas.stage_table import STAGES, WHOLE
from tokcore_schemas.tombstones import REMOVED

DEFAULT_AGE = "24h"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclasses.dataclass(frozen=True, slots=True)
class Collected:
    """What gc removed, or would remove."""

    removed: tuple[str, ...]  # paths below the output
    size_bytes: int
    youngest_seconds: float | None  # age of the youngest file that no manifest names; None if there is none
    too_young: bool  # nothing was removed, since a build may be running
    left: tuple[str, ...]  # named by no manifest, but in no place that a build writes to
    num_uploads: int = 0  # unfinished uploads in parts that were dropped, or would be; on S3 alone
    uploads_expire: bool = False  # whether the store drops such uploads by itself, and does not list them


def gc(output: str, older_than: str = DEFAULT_AGE, dry_run: bool = False) -> Collected:
    """Remove the files of an output that no manifest names, if all of them are older than the limit.

    older_than: 90s, 30m, 24h or 7d. dry_run: remove nothing, but say what would be.
    Raises ConfigError if there is no build, or if a manifest cannot be read, since what it names is then unknown.
    """
    limit = parse_seconds(older_than)
    require_output(output)
    present = storage.list_footprints(output)
    unnamed, left = _find_unnamed(output, sorted(present))
    uploads = storage.list_uploads(output)
    ages = [time.time() - then for then in [present[path].changed for path in unnamed] + [one.begun for one in uploads]]
    youngest = min(ages, default=None)
    too_young = youngest is not None and youngest < limit
    removed: list[str] = []
    if not too_young:
        removed = unnamed if dry_run else _remove(output, unnamed)
        if removed == unnamed and not dry_run:
            storage.abort_uploads(output, uploads)
    return Collected(
        tuple(removed),
        sum(present[path].size_bytes for path in removed),
        youngest,
        too_young,
        tuple(left),
        0 if too_young or removed != unnamed else len(uploads),
        not urls.is_local(output) and urls.find_scheme(output) not in ("s3", "s3a"),
    )


def parse_seconds(duration: str) -> int:
    """The seconds of a duration such as 90s, 30m, 24h or 7d.

    >>> parse_seconds("90s"), parse_seconds("7d"), parse_seconds("0")
    (90, 604800, 0)
    """
    match = re.fullmatch(r"(\d+)([smhd]?)", duration)
    if match is None or (not match[2] and int(match[1])):
        raise ConfigError(f"--older-than {duration}: expected a number and a unit: 90s, 30m, 24h or 7d")
    return int(match[1]) * _SECONDS[match[2] or "s"]


def _find_unnamed(output: str, present: Sequence[str]) -> tuple[list[str], list[str]]:
    """(paths in a build's places that no manifest names, in the order of removal; paths in other places).

    present: the paths of all files of the output.
    """
    try:
        named = _list_named(output) | {*list_named_beside(output)} | {file.path for file in list_planned_files(output)}
        if any(find_number(path) is not None for path in present):
            log = read_log(output)
            named |= {name_commit(number) for number in range(1, log.newest + 1)}
            named |= {*list_named_files(log)}
            named -= {*list_expired(log, present)}
            for path in {part.path for part in log.reachable() if part.path != OWN}:
                named |= {f"{path}/{name}" for name in _list_named(urls.join(output, path))}
    except FormatError as error:
        raise ConfigError(f"{error}. What it names is unknown, so nothing is removed; see `tokcore verify`") from error
    places = {*STAGES, FOLDER, PARTS, REMOVED}
    if not named and not any(path.startswith(f"{FOLDER}/") for path in present):
        raise ConfigError(f"{redact(output)}: holds no build, so nothing is removed")
    # Watchers remove their own signs. Notes about files in quarantine stay: they are a person's to remove.
    unnamed = [path for path in present if path not in named and not path.startswith(f"{FOLDER}/{WATCHERS}/")]
    ours = [path for path in unnamed if path.split("/")[0] in places or _is_of_build(output, path)]
    return sorted(ours, key=_order_removal), sorted(set(unnamed) - set(ours))


def _list_named(output: str) -> set[str]:
    """The paths of the files that the manifests of a build name, their own included."""
    named: set[str] = set()
    for stage, made in find_manifests(output, (*STAGES.values(), WHOLE)).items():
        named |= {get_path_below(stage, name) for name in (MANIFEST, RUN, *(file.path for file in made.list_files()))}
    return named


def _is_of_build(output: str, path: str) -> bool:
    """Whether a path is one of those that a build has beside its folders. A README.md may also be the user's."""
    return path in (MANIFEST, RUN) or (path == CARD and is_card(storage.read_bytes(urls.join(output, path))))


def _order_removal(path: str) -> tuple[bool, bool, str]:
    """Sort key: records before the files that they name, claims after the files that they protect."""
    return path.endswith(".claim"), "/done/" not in path, path


def _remove(output: str, paths: list[str]) -> list[str]:
    """Remove the files, unless a build begins to work; return what was removed.

    Records go first: without them a build that begins meanwhile takes over nothing of the rest. Then one more listing
    shows whether one has begun.
    """
    records = [path for path in paths if "/done/" in path]
    rest = paths[len(records) :]
    storage.remove_files(output, records)
    unnamed, _ = _find_unnamed(output, storage.list_tree(output))
    if not set(unnamed) <= set(paths):
        return records
    claims = [path for path in rest if path.endswith(".claim")]
    storage.remove_files(output, rest[: len(rest) - len(claims)])
    storage.remove_files(output, claims)
    for place in (FOLDER, PARTS, REMOVED, *STAGES):
        storage.remove_empty_folders(urls.join(output, place))
    return paths
