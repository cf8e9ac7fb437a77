"""What vouches for the files of an output: the manifest of its build, those of its stages, and its log. No Beam.

Verification and repair both begin here. A manifest counts only if the build's names its hash, and the build's only if
its root is its own, and the log follows from it. Each problem that is said begins with the path of a file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from tokcore.errors import ConfigError, TokError
from tokcore_pipelines.build.commit import MANIFEST, find_manifest, get_path_below, name_once
from tokcore_pipelines.build.read_log import Log, list_numbers
from tokcore_pipelines.check.verify_log import check_log
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.manifests import find_manifest_file
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.stage_manifests import BuildManifest
from tokcore_schemas.stage_table import BUILD, SHARDS, STAGES, WHOLE

MANY_SHARDS = 10_000  # whose manifests are long
_NOT_FINISHED = f"{MANIFEST}: missing; the build did not finish, or it was removed"


@dataclasses.dataclass(frozen=True, slots=True)
class Manifests:
    """The manifests of one build that can be trusted, and what is wrong with the others."""

    found: Mapping[str, AnyManifest]  # stage -> its manifest, "build" included
    problems: Mapping[str, str]  # stage -> what is wrong with its manifest

    @property
    def build(self) -> BuildManifest | None:
        """That of the build, if it can be read."""
        return self.found.get(BUILD)

    @property
    def head(self) -> AnyManifest | None:
        """That of the build, or of the shards of a folder that WriteShards made: what vouches for all others."""
        shards = self.found.get(SHARDS.name)
        return self.build or (shards if shards is not None and not shards.inputs else None)

    @property
    def is_unfinished(self) -> bool:
        """Whether the build has left no manifest."""
        return self.problems.get(BUILD) == _NOT_FINISHED


@dataclasses.dataclass(frozen=True, slots=True)
class Chain:
    """What vouches for an output."""

    own: Manifests  # of the build that made the output
    log: Log | None  # as far as it is unbroken; None without a manifest of the build
    breaks: tuple[str, ...]  # what is wrong with the log

    @property
    def is_broken(self) -> bool:
        """Whether the manifest of the build, or the log, is damaged: then nothing else can be told."""
        return bool(self.breaks) or (BUILD in self.own.problems and not self.own.is_unfinished)


def read_chain(output: str, first: tuple[BuildManifest | None, str] | None = None) -> Chain:
    """The manifests and the log of an output. An unfinished one has those that its stages have left.

    first: what read_build gave, if that was asked before.
    """
    build, problem = first or read_build(output)
    own = read_stages(output, build, problem)
    if build is not None:
        breaks: list[str] = []
        return Chain(own, check_log(output, build, breaks), tuple(breaks))
    if numbers := _list_numbers(output):
        return Chain(own, None, (f"log/{numbers[0]}.json: follows from {MANIFEST}, which is missing or damaged",))
    return Chain(own, None, ())


def read_manifests(output: str) -> Manifests:
    """The manifests of a build, finished or not."""
    return read_stages(output, *read_build(output))


def read_build(output: str) -> tuple[BuildManifest | None, str]:
    """The manifest of the build, None if it cannot be read; and what is wrong with it, empty if nothing is."""
    try:
        storage.require_inside(output, MANIFEST)
        build = find_manifest(output, WHOLE)
    except TokError as error:
        return None, name_once(MANIFEST, error)
    if build is None:
        return None, _NOT_FINISHED
    root = build.content_id()
    return build, "" if build.root == root else f"{MANIFEST}: its root is {build.root!r}, expected {root!r}"


def read_stages(output: str, build: BuildManifest | None, problem: str) -> Manifests:
    """The manifests of a build. build, problem: as of read_build."""
    if build is None:
        of_stages, problems = _read_unfinished(output)
        return Manifests(of_stages, {**problems, BUILD: problem})
    found: dict[str, AnyManifest] = {BUILD: build}
    wrong = {BUILD: problem} if problem else {}
    for stage, made_from in build.inputs.items():
        path = get_path_below(stage, MANIFEST)
        if stage not in STAGES:
            wrong[stage] = f"{MANIFEST}: inputs: there is no stage {stage!r:.80}"
            continue
        try:
            storage.require_inside(output, path)
            url = urls.join(output, path)
            file = find_manifest_file(url, is_long=build.totals.shards >= MANY_SHARDS)
            if file is None:
                wrong[stage] = f"{path}: missing"
            elif file.sha256 != made_from.sha256:
                wrong[stage] = f"{path}: not the manifest that the build committed"
            else:
                found[stage] = file.parse(STAGES[stage])
        except TokError as error:
            wrong[stage] = name_once(path, error)
    return Manifests(found, wrong)


def _read_unfinished(output: str) -> tuple[dict[str, AnyManifest], dict[str, str]]:
    """The manifests of stages that no build vouches for, but those that were made from them."""
    found: dict[str, AnyManifest] = {}
    wrong: dict[str, str] = {}
    for stage in STAGES:
        path = get_path_below(stage, MANIFEST)
        try:
            storage.require_inside(output, path)
            if (made := find_manifest(output, STAGES[stage])) is not None:
                found[stage] = made
        except TokError as error:
            wrong[stage] = name_once(path, error)
    for stage in {one for made in found.values() for one in made.inputs}:
        if stage not in found and stage not in wrong:
            wrong[stage] = f"{get_path_below(stage, MANIFEST)}: missing"
    wrong.update(_find_strangers(found))
    return {stage: made for stage, made in found.items() if stage not in wrong}, wrong


def _find_strangers(found: Mapping[str, AnyManifest]) -> Iterator[tuple[str, str]]:
    """Stages that were made from another manifest than the one that is there, and what is wrong with them."""
    hashes = {stage: made.hash_file() for stage, made in found.items()}
    for stage, made in found.items():
        for name, made_from in made.inputs.items():
            if name in hashes and hashes[name] != made_from.sha256:
                where = get_path_below(name, MANIFEST)
                yield stage, f"{get_path_below(stage, MANIFEST)}: was made from another {where}: one of the two changed"


def _list_numbers(output: str) -> list[int]:
    try:
        return list_numbers(output)
    except TokError:
        return []


def require_commit(log: Log, at: int | None) -> None:
    """Raise ConfigError if there is no such commit, or if it is expired. at: None is the newest."""
    if at is not None and not 0 <= at <= log.newest:
        raise ConfigError(f"--at {at}: the output has the commits 0 to {log.newest}")
    if at is not None and at < log.oldest:
        raise ConfigError(f"--at {at}: that commit is expired; the oldest is {log.oldest}")
