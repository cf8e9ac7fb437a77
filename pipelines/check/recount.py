"""Recounting: the manifest that each stage would make of what its files hold, beside the one that stands. No Beam.

There are no rules here of what manifests may say. The stage's own sum, in its row of tokcore_pipelines.build.table,
makes one out of records: those of tasks that read what is stored, or what the manifest says of its files. Any
difference is told by its path.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tokcore.errors import FormatError, LedgerError, TokError, VersionError
from tokcore.files.jsonable import to_jsonable
from tokcore_pipelines.build.commit import MANIFEST, get_path_below
from tokcore_pipelines.build.finish import recount_build
from tokcore_pipelines.build.identities import KNOWN, compute_identity_under, find_semantics
from tokcore_pipelines.build.shard_files import SumOfShards, name_shards, recount_shard_files
from tokcore_pipelines.build.stage import Made
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.build.table import WORK, DerivedWork
from tokcore_pipelines.work.result_keys import make_table_key
from tokcore_schemas.gaps import GAPS
from tokcore_schemas.manifest import AnyManifest, FileEntry, compute_identity
from tokcore_schemas.refs import StoredFile
from tokcore_schemas.shard_entries import Afresh, iterate_named_shards
from tokcore_schemas.stage_manifests import ImportedConfig
from tokcore_schemas.stage_table import STAGES, WHOLE


def require_whole(stored: Stored) -> None:
    """Raise FormatError if there are too few or too many manifests beside the build's."""
    build = stored.get(WHOLE)
    expected = {name for name, stage in STAGES.items() if stage.is_in(build.config)}
    if set(build.inputs) != expected or not expected <= set(stored.stages):
        raise FormatError(f"{MANIFEST}: names the stages {sorted(build.inputs)}, expected {sorted(expected)}")


def recount_as_said(stored: Stored, is_quick: bool) -> Iterator[str]:
    """Where manifests are not what their stages make of the files that they name, and of each other.

    What is in shards and tables is taken from them; small files are read, but of tokenizers only if it is not quick.
    """
    try:
        yield from _recount_chain(stored)
    except VersionError as error:  # this release does not know what the rest should be
        yield str(error)
        return
    for name, made in stored.stages.items():
        if WORK[name].is_quick or not is_quick:
            yield from recount(stored, made)


def recount(stored: Stored, made: AnyManifest, records: Any = None) -> Iterator[str]:
    """Where the manifest of a stage is not what its own sum makes of records. records: None for those it speaks of."""
    work = WORK[made.stage]
    try:
        if isinstance(work, DerivedWork):
            work.count(stored)
            held = _recount_named(stored, made)
        else:
            assert work.recount is not None
            held = work.recount(stored, work.as_said(made) if records is None and work.as_said else records)
    except LedgerError as error:
        yield f"{get_path_below(made.stage, MANIFEST)}: {error}"
    except TokError as error:
        yield str(error) if str(error).startswith(f"{made.stage}/") else f"{made.stage}/{error}"
    else:
        yield from _compare_made(made, held)


def _compare_made(made: AnyManifest, held: Made[Any, Any, Any]) -> Iterator[str]:
    """As compare_manifests, entry by entry: only those that differ are held."""
    whole = dataclasses.replace(made, totals=held.totals, languages=held.languages)
    entries = (FileEntry.of(file, about) for file, about in held.files)
    said, its, is_in_order = _find_differing(made.files, entries)
    yield from compare_manifests(dataclasses.replace(made, files=said), dataclasses.replace(whole, files=its))
    if not is_in_order and not said and not its:
        yield f"{get_path_below(made.stage, MANIFEST)}: files: not in their order"


def _find_differing(
    said: Iterable[FileEntry[Any]], held: Iterable[FileEntry[Any]]
) -> tuple[tuple[FileEntry[Any], ...], tuple[FileEntry[Any], ...], bool]:
    """The entries that only one of the two has, and whether those of both stand in one order."""
    mine, its = dict[str, FileEntry[Any]](), dict[str, FileEntry[Any]]()  # by path, until the other has it, too
    is_in_order = True
    for pair in itertools.zip_longest(said, held):
        if pair[0] == pair[1]:
            continue
        is_in_order = False
        for one, own, other in zip(pair, (mine, its), (its, mine), strict=True):
            if one is not None and other.get(one.path) == one:
                del other[one.path]
            elif one is not None:
                own[one.path] = one
    return (*mine.values(),), (*its.values(),), is_in_order


def fill(made: AnyManifest, held: Made[Any, Any, Any]) -> AnyManifest:
    """The manifest with the files, totals and languages that a stage made of records."""
    files = tuple(FileEntry.of(file, about) for file, about in held.files)
    return dataclasses.replace(made, files=files, totals=held.totals, languages=held.languages)


def _recount_named(stored: Stored, made: AnyManifest) -> Made[Any, Any, Any]:
    """Of a stage that is made out of shards: what follows from the shards that it names."""
    key = make_table_key(made.identity)
    shards = Afresh(lambda: name_shards(made, iterate_named_shards(made), lambda facts: key))
    sums = SumOfShards.of(shards)
    fingerprint, vocab_size = stored.tokenizer
    tokens = sums.tokens - getattr(made.totals, "padding", 0)
    held: dict[str, Any] = {"shards": sums.shards, STAGES[made.stage].nouns: sums.documents, "tokens": tokens}
    held["fingerprint"] = fingerprint
    totals = dataclasses.replace(made.totals, **held)
    entry = made.file(GAPS) if getattr(made.config, "in_place_of", "") else None
    gaps = [StoredFile(entry.path, "", entry.size_bytes, entry.sha256, entry.content_sha256)] if entry else []
    return Made(recount_shard_files(made, shards, sums, vocab_size, gaps), totals, made.languages)


def _recount_chain(stored: Stored) -> Iterator[str]:
    """Where identities, inputs and the build's manifest are not those that follow from the manifests of stages.

    Raises VersionError if they are of a release that laid out its files in another way.
    """
    build, stages = stored.find(WHOLE), stored.stages
    if build is None:  # a folder that WriteShards made
        for made in stages.values():
            key = {"tokenizer": made.totals.fingerprint, "documents": made.totals.documents_digest}
            of_releases = [compute_identity(made.stage, key, {}, semantics, made.format_version) for semantics in KNOWN]
            identity = made.identity if made.identity in of_releases else of_releases[0]
            yield from compare_manifests(made, dataclasses.replace(made, identity=identity, root=""))
        return
    as_inputs = {name: made.as_input() for name, made in stages.items()}
    semantics = find_semantics([*stages.values(), build])
    for name, made in stages.items():
        is_imported = isinstance(made.config, ImportedConfig)  # made from nothing, even if there are counts beside it
        inputs = {one: as_inputs[one] for one in STAGES[name].find_inputs(stages) if not is_imported}
        identity = compute_identity_under(semantics, made)
        yield from compare_manifests(made, dataclasses.replace(made, inputs=inputs, identity=identity, root=""))
    config, held = recount_build(stored)
    whole = dataclasses.replace(fill(build, held), config=config, inputs=as_inputs, root="")
    whole = dataclasses.replace(whole, identity=compute_identity_under(semantics, whole))
    yield from compare_manifests(build, dataclasses.replace(whole, root=whole.content_id()))


def compare_manifests(said: AnyManifest, held: AnyManifest) -> Iterator[str]:
    """A line for each place where a manifest does not say what it has to."""
    if said == held:
        return
    where, differs = get_path_below(said.stage, MANIFEST), False
    for path, mine, its in _walk("", _by_path(said), _by_path(held)):
        differs = True
        yield f"{where}: {path} = {mine!r:.80}, its files give {its!r:.80}"
    if not differs and said.files != held.files:
        yield f"{where}: files: not in their order"


def _by_path(made: AnyManifest) -> dict[str, Any]:
    value: dict[str, Any] = to_jsonable(made)
    return {**value, "files": {f"[{entry['path']}]": entry for entry in value["files"]}}


def _walk(path: str, said: Mapping[str, Any], held: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for key in sorted(said.keys() | held.keys()):
        mine, its = said.get(key), held.get(key)
        below = key if not path else path + key if key.startswith("[") else f"{path}.{key}"
        if isinstance(mine, dict) and isinstance(its, dict):
            yield from _walk(below, mine, its)
        elif mine != its:
            yield below, mine, its
