"""What verification asks of an output's log: that it is unbroken, and that its parts are those of this output. No Beam.

What the parts hold is asked of each of them, as of any output.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence

from tokcore.errors import TokError
from tokcore.shards.tombstone_lookup import TombstoneLookup
from tokcore_pipelines.build.commit import MANIFEST, find_manifest, name_once
from tokcore_pipelines.build.dataset_card import CARD, write_commit_card
from tokcore_pipelines.build.identities import is_of_this_release
from tokcore_pipelines.build.read_log import Log, describe_break, list_numbers, locate_part
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.pinned_inputs import FILES, read_pinned_files
from tokcore_schemas.commit_log import (
    OWN,
    Commit,
    CommitTotals,
    Part,
    describe_part,
    name_commit,
    name_part,
    parse_commit,
    sum_up_parts,
)
from tokcore_schemas.stage_manifests import BuildManifest, PlanManifest, StageConfigs
from tokcore_schemas.stage_table import PLAN, WHOLE

_DIGEST_DIGITS = 16
_CARD_GROWTH_BYTES = 1 << 16  # by which that of an earlier commit may be larger


def check_log(output: str, build: BuildManifest, problems: list[str]) -> Log:
    """The log of an output, as far as it is sound; what is wrong with it becomes problems. build: commit 0."""
    log = Log(output, build, ())
    builds: dict[Part, BuildManifest] = {}
    numbers = list_numbers(output)
    oldest = _find_oldest(output, numbers)
    for number in numbers:
        name = name_commit(number)
        try:
            storage.require_inside(output, name)
            commit = parse_commit(storage.read_bytes(urls.join(output, name)), name)
        except TokError as error:
            problems.append(str(error) if str(error).startswith(name) else f"{name}: {error}")
            return log
        if number != log.newest + 1:
            problems.append(f"{name}: there is no {name_commit(log.newest + 1)}: the log has a gap")
            return log
        if problem := describe_break(log, commit):
            problems.append(f"{name}: {problem}")
            return log
        # What only expired commits name is gone: of these, the chain alone is checked.
        if number >= oldest and (wrong := [*_check_parts(log, commit, builds)]):
            problems.extend(f"{name}: {one}" for one in wrong)
            return log
        log = log.add(commit)
    name = name_commit(log.newest + 1)  # a listing names files alone
    if urls.is_local(output) and storage.exists(urls.join(output, name)):
        problems.append(f"{name}: expected a file, found a folder")
    return log


def check_kind(output: str, path: str) -> Iterator[str]:
    """What is wrong with a path of an output if it is no file inside of it that can be read."""
    try:
        storage.require_inside(output, path)
        storage.open_read(urls.join(output, path)).close()
    except TokError as error:
        yield name_once(path, error)


def check_commit_card(log: Log) -> Iterator[str]:
    """What is wrong with README.md of an output with commits: it must be that of the newest one.

    A command that was killed after its commit has left the card of an earlier one, which the next command replaces.
    """
    output = log.output
    try:
        storage.require_inside(output, CARD)
        is_ours = is_of_this_release(log.build)
        newest = write_commit_card(log, log.newest) if is_ours else b""
        if (data := storage.read_if_there(urls.join(output, CARD), len(newest) + _CARD_GROWTH_BYTES)) is None:
            yield f"{CARD}: missing"
            return
        if data == newest or not is_ours:  # another release may have found other words for it
            return
        for number in range(log.newest - 1, log.oldest - 1, -1):
            if data == write_commit_card(log, number):
                yield f"{CARD}: that of commit {number}, not of commit {log.newest}; `tokcore repair` writes it again"
                return
        yield f"{CARD}: not what follows from the manifests of a commit; `tokcore repair` writes it again"
    except TokError as error:
        yield name_once(CARD, error)


def _find_oldest(output: str, numbers: Sequence[int]) -> int:
    """The oldest commit that can be read, as the newest one says; 0 if that cannot be read, which is a problem."""
    if not numbers:
        return 0
    name = name_commit(numbers[-1])
    try:
        storage.require_inside(output, name)
        return parse_commit(storage.read_bytes(urls.join(output, name)), name).oldest
    except TokError:
        return 0


def _check_parts(log: Log, commit: Commit, builds: dict[Part, BuildManifest]) -> Iterator[str]:
    """What is wrong with the parts of the next commit. builds: the manifests of parts that were looked at."""
    output = log.output
    for part in commit.parts:
        if part not in builds:
            try:
                storage.require_inside(output, f"{part.path}/{MANIFEST}")
                found = find_manifest(locate_part(output, part), WHOLE)
            except TokError as error:
                yield f"{part.path}: {error}"
                return
            if found is None:
                yield f"{part.path}/{MANIFEST}: missing"
                return
            if describe_part(part.path, found) != part:
                yield f"{part.path}/{MANIFEST}: not the manifest that the log names"
                return
            if part.path != OWN and (wrong := _find_foreign(log, part, found)):
                yield wrong
                return
            if wrong := _find_unburied(log, part, commit):
                yield wrong
                return
            builds[part] = found
    if commit.totals != (totals := sum_up_parts(builds[part] for part in commit.parts)):
        yield from _compare_totals(commit.totals, totals)
    gone = commit.why.removed - commit.why.came
    if commit.why.removed and gone != (before := log.totals().documents) - totals.documents:
        yield f"says that it removes {gone} documents: there were {before}, and are {totals.documents}"
    held = Counter(uri for part in commit.parts for uri in _list_uris(output, part))
    for uri, num in sorted(held.items()):
        if num > 1:
            yield f"{uri}: is in {num} parts"


def _compare_totals(said: CommitTotals, totals: CommitTotals) -> Iterator[str]:
    """Where the totals of a commit are not those of its parts."""
    for name in (field.name for field in dataclasses.fields(CommitTotals)):
        mine, theirs = getattr(said, name), getattr(totals, name)
        if mine != theirs:
            yield f"its totals: {name} = {_shorten(mine)}, its parts have {_shorten(theirs)}"


def _shorten(total: int | str) -> str:
    """A total for a message; of a digest only its beginning."""
    return f"{total[:_DIGEST_DIGITS]}..." if isinstance(total, str) else str(total)


def _list_uris(output: str, part: Part) -> list[str]:
    """The input files of a part; none if their table is damaged, which is found where the files of parts are hashed."""
    try:
        return [file.uri for file in read_pinned_files(locate_part(output, part))]
    except TokError:
        return []


def _find_foreign(log: Log, part: Part, found: BuildManifest) -> str:
    """Why a part cannot be one of this output; empty if it can."""
    build = log.build
    if found.totals.fingerprint != build.totals.fingerprint:
        return f"{part.path}: a part of another output: its tokenizer is {found.totals.fingerprint}"
    if _strip_settings(found) != _strip_settings(build):
        return f"{part.path}: a part of another output: it was built with other settings"
    planned = _find_planned(log.output, part)
    kept = found.config.mixed.kept if found.config.mixed is not None else None
    in_place_of = found.config.packed.in_place_of if found.config.packed is not None else ""
    if planned is not None and part.path != name_part(planned.identity, kept, in_place_of):
        return f"{part.path}: a part of another output: its name does not follow from its plan"
    return ""


def _strip_settings(build: BuildManifest) -> StageConfigs:
    """The settings that parts share with their output: a build may learn its tokenizer, a change keep weights, rows."""
    mixed, packed = build.config.mixed, build.config.packed
    return dataclasses.replace(
        build.config,
        tokenizer=None,  # type: ignore[arg-type] # it is compared by its fingerprint
        tokenizers=None,
        mixed=dataclasses.replace(mixed, kept=None, segments=None) if mixed is not None else None,
        packed=dataclasses.replace(packed, in_place_of="") if packed is not None else None,
    )


def _find_planned(output: str, part: Part) -> PlanManifest | None:
    """The manifest of a part's plan; None if it is gone or damaged, which is found where manifests are hashed."""
    try:
        storage.require_inside(output, f"{part.path}/plan/{MANIFEST}")
        return find_manifest(locate_part(output, part), PLAN)
    except TokError:
        return None


def _find_unburied(log: Log, part: Part, commit: Commit) -> str:
    """What is wrong with the tombstones that a part was read with; empty if the log has them all."""
    planned = _find_planned(log.output, part)
    buried = log.list_buried() | {*commit.removed}
    files = {*log.list_tombstone_files().values(), *commit.added_files}
    for settings in planned.config.settings if planned is not None else ():
        removed = settings.removed
        if removed is None:
            continue
        if removed.key != log.tombstone_key or not buried >= {*removed.hashes} or not files >= {*removed.files}:
            return f"{part.path}: leaves out documents that no commit says were removed"
    return ""


def find_files_brought_back(url: str, removed: TombstoneLookup) -> Iterator[str]:
    """The input files of a part that tombstones say were removed. url: of the part."""
    for file in read_pinned_files(url):
        if removed.has("source", file.uri):
            yield f"plan/{FILES}: {file.uri}: was removed, and is there"
