"""The tokenizers of an output: its own, which encoded it, and those in tokenizers/FINGERPRINT beside it.

A tokenizer is its fingerprint, so no commit needs to name one that was learned later. Its own manifest says which
commit it was learned from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tokcore.errors import ConfigError, FormatError
from tokcore_pipelines.build.commit import MANIFEST, RUN, find_manifest, require_manifest
from tokcore_pipelines.build.read_log import Log
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.manifest import Input
from tokcore_schemas.stage_manifests import TokenizerManifest
from tokcore_schemas.stage_table import TOKENIZER, TOKENIZERS, parse_manifest

FOLDER = TOKENIZERS.name
COMMIT = "commit"  # the input that the manifest of a tokenizer names that was learned from one


def find_beside(output: str, fingerprint: str) -> TokenizerManifest | None:
    """The manifest of a tokenizer that was learned from a commit; None if there is none of that fingerprint.

    Raises FormatError if what is there is not one.
    """
    url = urls.join(output, FOLDER, fingerprint, MANIFEST)
    data = storage.read_if_there(url)
    return parse_manifest(data, url, TOKENIZER) if data is not None else None


def list_beside(output: str) -> dict[str, TokenizerManifest]:
    """Fingerprint -> manifest, of all tokenizers that were learned from commits. Raises as find_beside."""
    found = {}
    for fingerprint in find_folders(storage.list_tree(urls.join(output, FOLDER))):
        if (made := find_beside(output, fingerprint)) is not None:
            found[fingerprint] = made
    return found


def has_beside(output: str) -> bool:
    """Whether tokenizers were learned from commits of the output."""
    return bool(find_folders(storage.list_tree(urls.join(output, FOLDER))))


def find_folders(paths: Sequence[str]) -> list[str]:
    """The folders with a manifest of their own, sorted. paths: of files below tokenizers/.

    >>> find_folders(["0a/manifest.json", "0a/tokcore.json", "1b/tokcore.json", "manifest.json"])
    ['0a']
    """
    cut = (path.split("/") for path in paths)
    return sorted(names[0] for names in cut if len(names) == 2 and names[1] == MANIFEST)


def list_named_beside(output: str) -> Iterator[str]:
    """The paths, below the output, of the files of these tokenizers, manifests and run.json included."""
    for fingerprint, made in list_beside(output).items():
        for name in (MANIFEST, RUN, *(entry.path for entry in made.files)):
            yield f"{FOLDER}/{fingerprint}/{name}"


def list_fingerprints(output: str) -> dict[str, str]:
    """Fingerprint -> path of the folder below the output, of all tokenizers of an output, its own first."""
    own = require_manifest(output, TOKENIZER)
    several = find_manifest(output, TOKENIZERS)
    found = {own.totals.fingerprint: TOKENIZER.name}
    for _, one in several.totals.list_ascending() if several is not None else ():
        found.setdefault(one.fingerprint, f"{FOLDER}/{one.fingerprint}")
    for fingerprint in list_beside(output):
        found.setdefault(fingerprint, f"{FOLDER}/{fingerprint}")
    return found


def find_tokenizer(output: str, named: str) -> str:
    """The URL of the folder of one of an output's tokenizers. named: how its fingerprint begins.

    Raises ConfigError if none begins like that, or several do.
    """
    there = list_fingerprints(output)
    if len(found := [one for one in there if one.startswith(named.lower())]) == 1 and named:
        return urls.join(output, there[found[0]])
    what = "several tokenizers begin" if found else "no tokenizer begins"
    raise ConfigError(
        f"--tokenizer {named}: in {redact(output)} {what} like that; there are {', '.join(one[:16] for one in there)}"
    )


def name_commit_as_input(log: Log, number: int) -> Input:
    """A commit as the manifest of a tokenizer names it: its file, and its root."""
    return Input(log.hash_commit(number), log.root(number))


def find_commit_of(log: Log, made: TokenizerManifest) -> int:
    """The number of the commit that a tokenizer was learned from. Raises FormatError if the log has no such commit."""
    named = made.inputs.get(COMMIT)
    for number in range(log.newest + 1):
        if named == name_commit_as_input(log, number):
            return number
    raise FormatError(
        f"{FOLDER}/{made.totals.fingerprint}/{MANIFEST}: was learned from a commit that the log does not have"
    )
