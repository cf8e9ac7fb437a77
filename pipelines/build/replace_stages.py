"""`--replace STAGE`: remove a stage and all that follows from it, so that they are made again.

Manifests go first, from the build's back to the stage's: a manifest that stands never names files that are gone. What
is to be removed is written down before, so a build that is killed on the way is followed by one that finishes it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from tokcore.errors import StageError
from tokcore.files.canonical_json import parse_canonical, write_canonical_json
from tokcore_pipelines.build.commit import RUN, _get_claim_url, get_folder, get_manifest_url
from tokcore_pipelines.build.dataset_card import remove_card
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER
from tokcore_pipelines.store.crashpoints import reach
from tokcore_schemas.stage_table import BUILD, REJECTED, get_stage, list_following, lists_anew

_TO_REMOVE = "replace.json"  # what is being removed
_REMOVED = "replaced.json"  # what this command has removed already
_AT_WORK = "at-work."

# In the folder of unfinished work: stages of a build whose inputs are being replaced, until the new one is finished.
REPLACED = "replaced"


def replace(output: str, command: str, is_imported: bool, wanted: str) -> None:
    """Remove what a command made and what follows from it, unless a killed run of this command has done so.

    wanted: identifies the build that comes after.
    """
    finish_replacing(output)
    note = write_canonical_json({"replaced": command, "wanted": wanted})
    if storage.read_if_there(_get_url(output, _REMOVED)) == note:
        return
    keeps = lists_anew(command) and _has_work_on_disk(output)
    _remove(output, list_following(command, is_imported), note, keeps)


def make_room(output: str, command: str, is_imported: bool) -> None:
    """Remove what a command made, if nothing worth keeping follows from it."""
    _remove(output, list_following(command, is_imported), b"")


def finish_replacing(output: str) -> None:
    """Remove the rest of what an earlier run began to remove."""
    url = _get_url(output, _TO_REMOVE)
    if (data := storage.read_if_there(url)) is not None:
        value = parse_canonical(data, url)
        if value.get("keeps", False):
            _keep_stages(output, value["stages"])
        _remove_stages(output, value["stages"], value["note"].encode())


def is_replacing(output: str) -> bool:
    """Whether an earlier run began to remove stages, and was killed before it had."""
    return storage.read_if_there(_get_url(output, _TO_REMOVE)) is not None


def forget_replaced(output: str) -> None:
    """Note that the command is done: the next --replace removes again."""
    storage.remove_file(_get_url(output, _REMOVED))


def _has_work_on_disk(output: str) -> bool:
    """Whether there is a stage from which the next build can take over work items."""
    return urls.is_local(output) and any(storage.exists(get_manifest_url(output, name)) for name in REJECTED.within)


def locate_replaced(output: str) -> str:
    """The URL of the stages that an output had before its inputs were replaced; perhaps there are none."""
    return _get_url(output, REPLACED)


def _remove(output: str, stages: Sequence[str], note: bytes, keeps: bool = False) -> None:
    value: dict[str, Any] = {"stages": list(stages), "note": note.decode(), "keeps": keeps}
    storage.create_exclusive(_get_url(output, _TO_REMOVE), write_canonical_json(value), _get_scratch_url(output))
    finish_replacing(output)


def _keep_stages(output: str, stages: Sequence[str]) -> None:
    """Put stages aside, whole, so that what is as before need not be made again."""
    storage.remove_file(get_manifest_url(output, BUILD), durable=True)
    for stage in stages:
        if get_stage(stage).is_taken_over and storage.exists(get_manifest_url(output, stage)):
            storage.move_folder(get_folder(output, stage), urls.join(locate_replaced(output), stage))
            reach("replace.kept")


def _remove_stages(output: str, stages: Sequence[str], note: bytes) -> None:
    for stage in stages:
        storage.remove_file(get_manifest_url(output, stage), durable=True)
        reach("replace.removed")
    unfinished = {path.split("/")[0] for path in storage.list_tree(urls.join(output, FOLDER))}
    for stage in stages:
        for folder in sorted(name for name in unfinished if name.startswith(f"{stage}-")):
            storage.remove_tree(urls.join(output, FOLDER, folder))
        storage.remove_file(_get_claim_url(output, stage))
        if stage == BUILD:
            remove_card(output)
            storage.remove_file(urls.join(output, RUN))
        else:
            storage.remove_tree(get_folder(output, stage))
        reach("replace.removed")
    storage.remove_file(_get_url(output, _REMOVED))
    if note:
        storage.create_exclusive(_get_url(output, _REMOVED), note, _get_scratch_url(output))
    storage.remove_file(_get_url(output, _TO_REMOVE), durable=True)


def _get_url(output: str, name: str) -> str:
    return urls.join(output, FOLDER, name)


def _get_scratch_url(output: str) -> str:
    return urls.join(output, FOLDER, "replace")


# --------------------------------------------------------------------------------------------------- builds at work


def begin_work(output: str) -> str:
    """Leave a file that says that a build is at work in the output; its URL. A killed build leaves it there."""
    url = _get_url(output, f"{_AT_WORK}{uuid.uuid4().hex[:12]}")
    try:
        with storage.write_attempt(url):
            pass
    except StageError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        # An equal build has just ended, and removed the folder of unfinished work.
        with storage.write_attempt(url):
            pass
    return url


def end_work(output: str, sign: str) -> None:
    """Remove what begin_work left, and the folder of unfinished work if nothing else is in it."""
    storage.remove_file(sign)
    storage.remove_empty_folders(urls.join(output, FOLDER))


def are_others_at_work(output: str, own: str) -> bool:
    """Whether another build is at work in the output, or was killed there."""
    names = (path for path in storage.list_tree(urls.join(output, FOLDER)) if path.startswith(_AT_WORK))
    return any(_get_url(output, name) != own for name in names)


def is_sign_of_work(path: str) -> bool:
    """Whether begin_work left this file, by its path below the folder of unfinished work."""
    return path.startswith(_AT_WORK)
