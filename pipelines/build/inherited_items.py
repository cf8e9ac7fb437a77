"""Which work items of a part are those of the part whose place it takes.

Results belong to content: an item of the same bytes of the same files, read in the same way, has the same counts and
the same shards, whatever its number and whatever the rest of the plan is. So the part that is made is, byte for byte,
the one that reading all of its files would make; nothing in its manifests says that it was not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tokcore.errors import StageError
from tokcore_pipelines.build.commit import find_manifests, get_folder
from tokcore_pipelines.build.stage import StageKey
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.parallel_requests import run_at_once
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.result_keys import hash_content
from tokcore_schemas.inheritance import Inheritance
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.plan import InputFile, Plan
from tokcore_schemas.stage_table import COUNTS, PLAN, REJECTED, SHARDS, STAGES, Stage

Pins = Mapping[str, tuple[int, str]]  # uri of an input file -> its size in bytes and version


def find_inheritance(
    output: str,
    plan: Plan,
    base: str,
    again: Collection[str] = (),
    listed: Pins | None = None,
    fresh: Collection[str] = (),
) -> Inheritance | None:
    """What the part of a new plan takes over from a finished part of these settings; None if that would save nothing.

    output: URL of the finished part. base: folder against which relative uris of inputs are resolved.
    again: uris of files with documents that were removed. listed: as for find_changed. fresh: uris of files that are
    read in any case, though they are as before.
    """
    if (part := read_standing_part(output)) is None:
        return None
    before = part.plan_as_read
    there = {hash_content(before.assignment(item)): item.number for item in before.items}
    again = frozenset(again)
    lost = {*find_changed((file for file in plan.files if file.uri in again), base, listed)} if again else set[str]()
    kept: dict[int, int] = {}
    thinned: dict[int, int] = {}
    for item in plan.items:
        assignment = plan.assignment(item)
        uris = {one.uri for one in assignment.ranges}
        if (found := there.get(hash_content(assignment))) is not None and not uris & (lost | {*fresh}):
            (thinned if uris & again else kept)[item.number] = found
    left = {*kept.values(), *thinned.values()}
    gone = [item for item in before.items if item.number not in left]
    if not left or sum(item.size_bytes for item in gone) > sum(before.items[number].size_bytes for number in left):
        return None
    files = {r.file: before.files[r.file] for item in gone for r in item.ranges}
    changed = {*find_changed(files.values(), base, listed)}
    # Of an item that was decoded, the source cannot be read as it was, not even if it is back.
    changed |= {file.uri for file in files.values() if before.settings[file.settings].decoded_from}
    found_gone = {item.number: not any(files[r.file].uri in changed for r in item.ranges) for item in gone}
    if not all(found_gone.values()) and not _are_tokens_exact(part):
        return None
    alike = _list_alike(plan, before, files.values()) - again - {*fresh}
    return Inheritance(output, before, kept, found_gone, thinned, again, alike)


def _list_alike(plan: Plan, before: Plan, files: Iterable[InputFile]) -> frozenset[str]:
    """The uris of those of some files of a plan that another plan reads in the same way, tombstones aside.

    And cuts in the same way: ordinals, by which documents are named, follow from it.
    """

    def describe(file: InputFile, of: Plan) -> tuple[Any, ...]:
        settings = dataclasses.replace(of.settings[file.settings], removed=None, as_before=False)
        return file.size_bytes, file.version, file.cuts, settings

    had = {file.uri: describe(file, before) for file in files}
    return frozenset(file.uri for file in plan.files if file.uri in had and had[file.uri] == describe(file, plan))


def require_undamaged(output: str) -> None:
    """Raise StageError if a file of a part's stages has other bytes than were committed. Reads all of them."""

    def check(file: tuple[str, str]) -> None:
        url, sha256 = file
        if storage.compute_sha256(url) != sha256:
            raise StageError(f"{redact(url)}: its bytes are not those that were committed")

    stages = find_manifests(output, (stage for stage in STAGES.values() if stage.is_taken_over)).items()
    files = [
        (urls.join(get_folder(output, name), one.path), one.sha256)
        for name, made in stages
        for one in made.list_files()
    ]
    run_at_once(check, files)


def find_changed(files: Iterable[InputFile], base: str, listed: Pins | None = None) -> list[str]:
    """The uris of input files that are gone, or are not those that were pinned. base: where relative uris start.

    listed: of some files, what a listing has just shown; the store is asked for each of the others.
    """
    files = list(files)

    def is_as_pinned(file: InputFile) -> bool:
        found: tuple[int, str] | None
        if listed is None or (found := listed.get(file.uri)) is None:
            url = urls.resolve_name(base, file.uri)
            if urls.explain_unreadable(url):
                return True  # it was rejected for its name, whatever it holds
            pin = storage.find_pin(url)
            found = None if pin is None else (pin.size_bytes, pin.version)
        return found == (file.size_bytes, file.version)

    return [file.uri for file, as_pinned in zip(files, run_at_once(is_as_pinned, files), strict=True) if not as_pinned]


def list_read_again(plan: Plan, inheritance: Inheritance | None) -> list[str]:
    """The uris of the files of a new part that are read."""
    kept, thinned = (inheritance.kept, inheritance.thinned) if inheritance is not None else ({}, {})
    again = inheritance.again if inheritance is not None else frozenset()
    read = (
        (item.number, plan.files[r.file].uri) for item in plan.items if item.number not in kept for r in item.ranges
    )
    return sorted({uri for number, uri in read if number not in thinned or uri in again})


def choose_files_to_read(plan: Plan, inheritance: Inheritance | None) -> Plan:
    """The plan, with the files alone that are read."""
    if inheritance is None:
        return plan
    read = {*list_read_again(plan, inheritance)}
    return dataclasses.replace(plan, files=tuple(file for file in plan.files if file.uri in read), items=())


def read_standing_part(output: str) -> Stored | None:
    """What a part has left, of the stages that can be taken over; None if there are none.

    Nothing is taken over of another release, whose results may differ.
    """
    found = find_manifests(output, _list_needed())
    if PLAN.name not in found or REJECTED.name not in found:
        return None
    planned = found[PLAN.name].as_input()  # of another one may be what earlier stages left, whose inputs were replaced
    made = {
        name: found[name]
        for name in REJECTED.within  # which read the corpus
        if name in found and found[name].inputs[PLAN.name] == planned
    }
    if (
        not made
        or found[REJECTED.name].inputs[PLAN.name] != planned
        or not all(map(_is_of_this_release, made.values()))
    ):
        return None
    return Stored(output, {PLAN.name: found[PLAN.name], **made})


def _list_needed() -> list[Stage[Any]]:
    """The stages that a part is known by."""
    return [stage for stage in STAGES.values() if stage.expires and not stage.is_derived]


def _is_of_this_release(made: AnyManifest) -> bool:
    return StageKey(made.stage, made.config, made.inputs).identity == made.identity


def _are_tokens_exact(part: Stored) -> bool:
    """Whether the tokens of documents give back all that was read of them, and counted."""
    shards, counts = part.find(SHARDS), part.find(COUNTS)
    if shards is None:
        return False
    is_sampled = counts is not None and counts.config.sample != "1"
    is_own = part.spec.fingerprint == shards.totals.fingerprint
    return is_own and part.spec.keeps_text and not is_sampled
