"""`tokcore repair`: the files of tokenizers that were learned beside an output's own, made again from tokcore.json."""

from __future__ import annotations

from typing import NamedTuple

from tokcore.errors import FormatError, TokError
from tokcore.files.canonical_json import hash_sha256
from tokcore.tokenizer.tokenizer_spec import FILE_NAME
from tokcore_pipelines.build.commit import name_once
from tokcore_pipelines.build.tokenizer_files import find_artifact
from tokcore_pipelines.build.tokenizers_beside import FOLDER, list_beside
from tokcore_pipelines.check.whole_files import check_file
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER as ATTEMPTS
from tokcore_pipelines.store.tokenizers import load_spec_of_folder

_SCRATCH = "repair-beside"


class RepairedBeside(NamedTuple):
    """What was found and done."""

    repaired: list[str]  # paths below the output
    left: list[str]  # why a file is still damaged, and what to do
    num_files: int


def repair_beside(output: str) -> RepairedBeside:
    """Write the damaged files of each such tokenizer again, if its tokcore.json is as it was committed."""
    done = RepairedBeside([], [], 0)
    try:
        there = list_beside(output)
    except FormatError as error:
        return done._replace(
            left=[f"{error}. Remove the folder, and learn again: `tokcore learn BUILD.toml --at COMMIT`"]
        )
    num_files = 0
    for fingerprint, made in there.items():
        folder = f"{FOLDER}/{fingerprint}"
        num_files += len(made.files)
        damaged = [entry for entry in made.files if check_file(output, folder, entry)]
        if any(entry.path == FILE_NAME for entry in damaged):
            done.left.append(
                f"{folder}/{FILE_NAME}: follows from the tables alone. Remove the folder, and learn again: "
                f"`tokcore learn BUILD.toml --at COMMIT`"
            )
            continue
        for entry in damaged:
            path = f"{folder}/{entry.path}"
            data = find_artifact(load_spec_of_folder(output, folder), entry.path, entry.sha256)
            try:
                storage.require_inside(output, folder)
                if hash_sha256(data) != entry.sha256 or len(data) != entry.size_bytes:
                    raise FormatError("what was made again has other bytes")
                storage.replace_file(urls.join(output, path), data, urls.join(output, ATTEMPTS, _SCRATCH))
            except TokError as error:
                done.left.append(name_once(path, error))
            else:
                done.repaired.append(path)
    storage.remove_empty_folders(urls.join(output, ATTEMPTS))
    return done._replace(num_files=num_files)
