"""The files that a manifest names: whether they are there. Their bytes are not read."""

from __future__ import annotations

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

    folder = get_folder(output, made.stage)
    if urls.is_local(output) or made.stage == BUILD:  # whose folder holds those of all stages
        looked = {entry.path: storage.read_footprint(urls.join(folder, entry.path)) for entry in made.files}
    else:
        looked = dict(storage.list_footprints(folder))
    wrong = [
        get_path_below(made.stage, entry.path)
        for entry in made.files
        if (found := looked.get(entry.path)) is None
        or (found.size_bytes != entry.size_bytes and not (made.stage == BUILD and has_commits(output)))
    ]
    if wrong:
        more = f" and {len(wrong) - _NUM_SHOWN:,} more" if len(wrong) > _NUM_SHOWN else ""
        raise StageError(
            f"{redact(output)}: missing, no file, or not of the size that was committed: "
            f"{', '.join(wrong[:_NUM_SHOWN])}{more}. `tokcore repair {redact(output)}` makes them again"
        )
