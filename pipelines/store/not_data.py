"""Files in folders of data that are not data: hidden files, READMEs, files that other tools leave, our own outputs.

A glob never takes them, unless the last part of it names them: `README*`, `.*`. A file named alone is always taken.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable

from tokcore.files.canonical_json import MANIFEST_FORMAT
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.urls import join
from tokcore_schemas.stage_table import PLAN, STAGES

_ABOUT = re.compile(r"(readme|licen[cs]e)([._-].*)?", re.IGNORECASE)
# Of Hugging Face datasets, Spark, Hadoop and desktops; compared in lower case.
_MARKS = frozenset(
    {"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"}
    | {"_success", "_metadata", "_common_metadata", "thumbs.db", "desktop.ini"}
)
_SUMS = re.compile(r".*\.(crc|md5|sha1|sha256|sha512)|(md5|sha1|sha256|sha512)sums?(\.txt)?", re.IGNORECASE)
_WORKING_FOLDERS = frozenset({"_attempts", "_temporary", "_spark_metadata", "_delta_log", "__MACOSX"})

# Of an output, beside the folders of its stages, each of which has a manifest, too.
_OWN_FILES = frozenset({"manifest.json", "run.json"})
_MAX_MANIFEST_BYTES = 1 << 28


def explain_not_data(path: str, start: str, pattern: str) -> str:
    """Why a file that a glob matches is no data; "" if it may be.

    start: the folder in which the glob begins to choose. pattern: the parts of the glob below it.
    """
    *folders, name = path.removeprefix(start).strip("/").split("/")
    *wanted, last = pattern.split("/")
    for folder in folders:
        if folder not in wanted and (folder.startswith(".") or folder in _WORKING_FOLDERS):
            return f"in the {'hidden' if folder.startswith('.') else 'working'} folder {folder}"
    why = _explain(name)
    return "" if why and _explain(re.split(r"[*?\[]", last, maxsplit=1)[0]) else why


def explain_bad_name(url: str) -> str:
    """What is wrong with the name of a file, and the fix; "" if nothing is. Local files may have names of any bytes."""
    try:
        url.encode()
    except UnicodeEncodeError:
        return f"{os.fsencode(url)!r}: the name is not UTF-8, so no manifest can hold it. Rename the file"
    return ""


def _explain(name: str) -> str:
    if name.startswith("."):
        return "hidden"
    if _ABOUT.fullmatch(name):
        return "about the data"
    return "a mark of another tool" if name.lower() in _MARKS or _SUMS.fullmatch(name) else ""


class OwnOutputs:
    """Finds the outputs of tokcore that hold files, and asks the store seldom."""

    def __init__(self, exists: Callable[[str], bool] | None = None) -> None:
        self._exists = exists or storage.exists
        self._known: dict[str, bool] = {}
        self._above: tuple[str, str] = (
            "",
            "",
        )  # the last folder, and the output that holds it: files of a folder come together

    def holding(self, url: str) -> str:
        """The folder of the output that a file belongs to; "" if it belongs to none."""
        folder, _, name = url.rpartition("/")
        if self._above[0] != folder:
            self._above = folder, self._find_above(folder)
        if above := self._above[1]:
            return above
        return folder if name in _OWN_FILES and self._is_output(folder) else ""

    def _find_above(self, url: str) -> str:
        """The folder of the output that a folder is in; "" if it is in none."""
        scheme, colon, path = url.rpartition("://")
        folders = path.split("/")
        for i, folder in enumerate(folders):
            if folder in STAGES:
                above = scheme + colon + "/".join(folders[:i])
                if self._is_own(f"{above}/{folder}") or self._is_own(f"{above}/{PLAN.name}"):
                    return above
        return ""

    def _is_output(self, folder: str) -> bool:
        return self._is_own(folder) or self._is_own(f"{folder}/{PLAN.name}")

    def _is_own(self, folder: str) -> bool:
        """Whether a folder holds a manifest of ours."""
        if folder not in self._known:
            url = join(folder, "manifest.json")
            self._known[folder] = self._exists(url) and _is_manifest(url)
        return self._known[folder]


def _is_manifest(url: str) -> bool:
    if storage.stat(url).size_bytes > _MAX_MANIFEST_BYTES:
        return False
    try:
        content = json.loads(storage.read_bytes(url))
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("format") == MANIFEST_FORMAT
