"""The files that a manifest names: whether they are there. Their bytes are not read."""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.stages.commit import get_folder, get_path_below
from pipelines.stages.read_log import has_commits
from pipelines.store import storage, urls
from pipelines.store.redaction import redact
from schemas.manifest import AnyManifest
from schemas.stage_manifests import BUILD
from tokcore.errors import StageError

_NUM_SHOWN = 3


def require_files(output: str, made: AnyManifest) -> None:
    """Raise StageError unless the files of a stage are there with their sizes.

    After a commit README.md, the one file of a build, is that of the newest commit.
    """
    require_sizes(output, made.stage, ((entry.path, entry.size_bytes) for entry in made.files))


def require_sizes(output: str, stage: str, files: Iterable[tuple[str, int]]) -> None:
    """As require_files. files: paths below the stage's folder, and sizes in bytes."""
    sizes = dict(files)
    folder = get_folder(output, stage)
    if urls.is_local(output) or stage == BUILD:  # whose folder holds those of all stages
        found = storage.find_sizes(folder, sizes)
    else:
        found = {path: one.size_bytes for path, one in storage.list_footprints(folder).items()}
    wrong = [
        get_path_below(stage, path)
        for path, size_bytes in sizes.items()
        if path not in found or (found[path] != size_bytes and not (stage == BUILD and has_commits(output)))
    ]
    if wrong:
        more = f" and {len(wrong) - _NUM_SHOWN:,} more" if len(wrong) > _NUM_SHOWN else ""
        raise StageError(
            f"{redact(output)}: missing, no file, or not of the size that was committed: "
            f"{', '.join(wrong[:_NUM_SHOWN])}{more}. `tokcore repair {redact(output)}` makes them again"
        )
