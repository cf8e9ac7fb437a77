"""`tokcore repair`: the files of tokenizers that were learned beside an output's own, made again from tokcore.json."""

from __future__ import annotations

from typing import Any, NamedTuple

from tokcore.errors import FormatError, TokError
from tokcore.files.canonical_json import hash_sha256
from tokcore.tokenizer.tokenizer_spec import FILE_NAME, TokenizerSpec
from tokcore_pipelines.build.commit import name_once
from tokcore_pipelines.build.tokenizer_files import find_artifact
from tokcore_pipelines.build.tokenizers_beside import FOLDER, list_beside
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER as ATTEMPTS
from tokcore_schemas.manifest import FileEntry

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
        folder = urls.join(output, FOLDER, fingerprint)
        hashes = {entry.path: entry.sha256 for entry in made.files}
        num_files += len(hashes)
        stored = {entry.path: _read_as_large(output, f"{FOLDER}/{fingerprint}", entry) for entry in made.files}
        damaged = [path for path, data in stored.items() if data is None or hash_sha256(data) != hashes[path]]
        if not damaged:
            continue
        if FILE_NAME in damaged:
            done.left.append(
                f"{FOLDER}/{fingerprint}/{FILE_NAME}: follows from the tables alone. Remove the folder, and learn "
                f"again: `tokcore learn BUILD.toml --at COMMIT`"
            )
            continue
        spec = TokenizerSpec.from_json_bytes(stored[FILE_NAME] or b"", FILE_NAME)
        files = {path: find_artifact(spec, path, hashes[path]) for path in damaged}
        for path in damaged:
            if hash_sha256(files[path]) != hashes[path]:
                done.left.append(f"{FOLDER}/{fingerprint}/{path}: what was made again has other bytes")
                continue
            try:
                storage.require_inside(output, f"{FOLDER}/{fingerprint}")
                storage.replace_file(urls.join(folder, path), files[path], urls.join(output, ATTEMPTS, _SCRATCH))
            except TokError as error:
                done.left.append(name_once(f"{FOLDER}/{fingerprint}/{path}", error))
                continue
            done.repaired.append(f"{FOLDER}/{fingerprint}/{path}")
    storage.remove_empty_folders(urls.join(output, ATTEMPTS))
    return done._replace(num_files=num_files)


def _read_as_large(output: str, folder: str, entry: FileEntry[Any]) -> bytes | None:
    """The bytes of a file that has its size; None if it has not, or cannot be read."""
    try:
        storage.require_inside(output, f"{folder}/{entry.path}")
        pin = storage.find_pin(urls.join(output, folder, entry.path))
        return storage.read_bytes(pin.url) if pin is not None and pin.size_bytes == entry.size_bytes else None
    except TokError:
        return None
