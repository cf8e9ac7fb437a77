"""The files that a manifest names: whether they are there. Their bytes are not read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from pipelines.stages.commit import get_folder, get_path_below
from pipelines.store import storage, urls
from pipelines.store.redaction import redact
from schemas.manifest import AnyManifest
from tokcore.errors import StageError

_NUM_SHOWN = 3
_NUM_THREADS = 16  # that ask a store for sizes


def require_files(output: str, made: AnyManifest) -> None:
    """Raise StageError unless the files of a stage are there with their sizes."""

    def is_sound(path: str, size_bytes: int) -> bool:
        found = storage.read_footprint(urls.join(get_folder(output, made.stage), path))
        return found is not None and found.size_bytes == size_bytes

    with ThreadPoolExecutor(_NUM_THREADS) as threads:
        sound = list(threads.map(lambda entry: is_sound(entry.path, entry.size_bytes), made.files))
    wrong = [
        get_path_below(made.stage, entry.path)
        for entry, is_right in zip(made.files, sound, strict=True)
        if not is_right
    ]
    if wrong:
        more = f" and {len(wrong) - _NUM_SHOWN:,} more" if len(wrong) > _NUM_SHOWN else ""
        raise StageError(
            f"{redact(output)}: missing, or not of the size that was committed: {', '.join(wrong[:_NUM_SHOWN])}{more}. "
            f"`tokcore repair {redact(output)}` makes them again"
        )
