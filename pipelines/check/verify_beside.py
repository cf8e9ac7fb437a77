"""What verification asks of the tokenizers that were learned beside an output's own. No Beam."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from tokcore.errors import TokError
from tokcore.tokenizer.tokenizer_spec import FILE_NAME
from tokcore_pipelines.build.commit import MANIFEST, RUN, find_manifest
from tokcore_pipelines.build.identities import KNOWN, compute_identity_under
from tokcore_pipelines.build.make_tokenizer import recount_artifacts, sum_up_tokenizer
from tokcore_pipelines.build.read_log import Log
from tokcore_pipelines.build.tokenizer_files import find_foreign_artifacts
from tokcore_pipelines.build.tokenizers_beside import FOLDER, find_beside, find_commit_of, find_folders
from tokcore_pipelines.check.recount import compare_manifests
from tokcore_pipelines.check.whole_files import check_file
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.tokenizers import load_spec_of_folder
from tokcore_schemas.manifest import FileEntry
from tokcore_schemas.stage_manifests import TokenizerManifest
from tokcore_schemas.stage_table import TOKENIZERS

_FINGERPRINT = re.compile("[0-9a-f]{64}")


class CheckedBeside(NamedTuple):
    """What was looked at."""

    paths: frozenset[str]  # of all files in the folders of these tokenizers, below the output
    num_files: int  # that manifests name, these included
    size_bytes: int
    num_leftovers: int  # files of tokenizers that were not finished, which `tokcore gc` removes


def check_beside(log: Log, present: Collection[str], problems: list[str]) -> CheckedBeside:
    """Check each tokenizer beside the output's own; what is wrong becomes problems. present: paths below the output."""
    output = log.output
    below = [path.removeprefix(f"{FOLDER}/") for path in present if path.startswith(f"{FOLDER}/")]
    paths: set[str] = set()
    num_files = size_bytes = 0
    for fingerprint in find_folders(below):
        folder = f"{FOLDER}/{fingerprint}"
        own = {path for path in present if path.startswith(f"{folder}/")}
        paths |= own
        try:
            storage.require_inside(output, f"{folder}/{MANIFEST}")
            made = find_beside(output, fingerprint)
            assert made is not None
            problems.extend(f"{folder}/{one}" for one in _check(log, folder, made, own))
            num_files += 1 + len(made.files)
            size_bytes += sum(entry.size_bytes for entry in made.files)
        except TokError as error:
            said = str(error)
            problems.append(said if folder in said else f"{folder}: {said}")
    left = set(_find_unfinished(output, below)) - paths
    return CheckedBeside(frozenset(paths | left), num_files, size_bytes, len(left))


def _find_unfinished(output: str, below: Sequence[str]) -> Iterator[str]:
    """The files of folders that no manifest vouches for: not their own, and not that of a build's several sizes."""
    made = find_manifest(output, TOKENIZERS)
    named = {entry.path.split("/")[0] for entry in made.files} if made is not None else set()
    for path in below:
        folder, _, name = path.partition("/")
        if name and folder not in named and _FINGERPRINT.fullmatch(folder):
            yield f"{FOLDER}/{path}"


def _check(log: Log, folder: str, made: TokenizerManifest, present: set[str]) -> Iterator[str]:
    """What is wrong with one; each begins with a file of the folder."""
    output = log.output
    find_commit_of(log, made)
    if made.identity not in {compute_identity_under(semantics, made) for semantics in KNOWN}:
        yield f"{MANIFEST}: its identity does not follow from its settings and its commit"
    named = {entry.path for entry in made.files}
    for path in sorted({*(one.removeprefix(f"{folder}/") for one in present)} - named - {MANIFEST, RUN}):
        yield f"{path}: no manifest names it"
    for entry in made.files:
        if wrong := check_file(output, folder, entry):
            yield from (one.removeprefix(f"{folder}/") for one in wrong)
            return
    spec = load_spec_of_folder(output, folder)
    if spec.fingerprint != folder.rpartition("/")[2]:
        yield f"{FILE_NAME}: its fingerprint is {spec.fingerprint}"
    files = tuple(FileEntry.of(*one) for one in recount_artifacts(urls.join(output, folder), made))
    held = dataclasses.replace(made, files=files, totals=sum_up_tokenizer(spec, made.totals.mix, made.totals.levels))
    yield from (said.removeprefix(f"{made.stage}/") for said in compare_manifests(made, held))
    if find_foreign_artifacts(spec, {entry.path: entry.sha256 for entry in made.files}):
        yield f"{MANIFEST}: its files are not what {FILE_NAME} gives"
