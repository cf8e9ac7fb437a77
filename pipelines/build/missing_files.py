"""The files that a manifest names: whether they are there. Their bytes are not read."""

from __future__ import annotations

from collections.abc import Iterable

from tokcore.errors import StageError
from tokcore_pipelines.build.commit import get_folder, get_path_below
from tokcore_pipelines.build.read_log import has_commits
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.stage_table import BUILD

_NUM_SHOWN = 3


def require_files(output: str, made: AnyManifest) -> None:
    """Raise StageError unless the files of a stage are there with their sizes.

    After a commit README.md, the one file of a build, is that of the newest commit.
    """
    require_sizes(output, made.stage, ((entry.path, entry.size_bytes) for entry in made.list_files()))


def _require_inside(output: str, folder: str) -> None:
    try:
        storage.require_inside(output, folder)
    except StageError as error:
        raise StageError(
            f"{redact(output)}: {folder} is {error}. Move what it leads to into the output, in place of the link"
        ) from error


def require_sizes(output: str, stage: str, files: Iterable[tuple[str, int]]) -> None:
    """As require_files. files: paths below the stage's folder, and sizes in bytes."""
    sizes = dict(files)
    folder = get_folder(output, stage)
    # Of a link the size is the link's own, which is none that was committed; a folder that is one must be looked for.
    for below in sorted({get_path_below(stage, path.rpartition("/")[0]) for path in sizes}):
        _require_inside(output, below)
    if urls.is_local(output) or stage == BUILD:  # whose folder holds those of all stages
        found = storage.find_sizes(folder, sizes)
    else:
        found = {path: one.size_bytes for path, one in storage.list_footprints(folder).items()}
    wrong = [
        path
        for path, size_bytes in sizes.items()
        if path not in found or (found[path] != size_bytes and not (stage == BUILD and has_commits(output)))
    ]
    if wrong:
        said = [
            f"{get_path_below(stage, path)}: {_describe(folder, path, found.get(path), sizes[path])}"
            for path in wrong[:_NUM_SHOWN]
        ]
        more = f", and {len(wrong) - _NUM_SHOWN:,} more files" if len(wrong) > _NUM_SHOWN else ""
        again = "it" if len(wrong) == 1 else "them"
        raise StageError(
            f"{redact(output)}: {', '.join(said)}{more}. `tokcore repair {redact(output)}` makes {again} again"
        )


def _describe(folder: str, path: str, found: int | None, size_bytes: int) -> str:
    """What is wrong with a file. found: its size as it is listed, None if it is not there."""
    if found is None:
        return "missing"
    if not storage.is_file(urls.join(folder, path)):
        return "no file"
    try:
        storage.require_inside(folder, path)
    except StageError as error:
        return str(error)
    return f"{found} bytes, committed with {size_bytes}"
