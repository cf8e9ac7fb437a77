"""Committing a stage: files move to their final names, then one manifest, created only if absent, names them."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import os
import platform
import sys
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any, TypeVar

from tokcore.errors import ConfigError, FormatError, StageError
from tokcore.files.canonical_json import write_canonical_json
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER, Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.manifests import find_manifest_file
from tokcore_pipelines.store.parallel_requests import run_at_once
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.manifest import AnyManifest, LongFiles
from tokcore_schemas.run_json import RunFacts, parse_run_facts
from tokcore_schemas.stage_manifests import ShardsManifest
from tokcore_schemas.stage_table import BUILD, SHARDS, WHOLE, Stage, get_stage

Committed = TypeVar("Committed", bound=AnyManifest)

MANIFEST = "manifest.json"
RUN = "run.json"

# Whose versions can explain a difference between two builds.
_PACKAGES = ("tokcore", "apache-beam", "pyarrow", "fsspec", "regex", "zstandard", "numpy", "orjson")

# Those that decide in which bytes the same content is stored.
_WRITERS = ("pyarrow",)


def find_manifest(output: str, stage: Stage[Committed]) -> Committed | None:
    """The manifest of a finished stage, or of the build, if there is one.

    Raises FormatError if what is there is not one.
    """
    found = find_manifest_file(get_manifest_url(output, stage.name))
    return found.parse(stage) if found is not None else None


def find_manifests(output: str, stages: Iterable[Stage[Any]]) -> dict[str, AnyManifest]:
    """Stage -> its manifest, for those of the stages that are finished, in their order. All are asked for at once."""
    stages = tuple(stages)
    found = run_at_once(lambda stage: find_manifest(output, stage), stages)
    return {stage.name: made for stage, made in zip(stages, found, strict=True) if made is not None}


def find_written(output: str) -> ShardsManifest | None:
    """The manifest of shards that WriteShards made, in a Beam pipeline of the user; None for any other output.

    It is made from nothing: no build, no plan. Raises as find_manifest does.
    """
    if find_manifest(output, WHOLE) is not None:
        return None
    made = find_manifest(output, SHARDS)
    return made if made is not None and not made.inputs else None


def require_manifest(output: str, stage: Stage[Committed], command: str = "") -> Committed:
    """The manifest of a stage that must be finished by now; command: what makes it, if not its own.

    Raises ConfigError if it is not there.
    """
    if (manifest := find_manifest(output, stage)) is None:
        storage.require_bucket(output)
        url, first = redact(get_manifest_url(output, stage.name)), command or stage.command
        raise ConfigError(f"{url}: not there. Run `tokcore {first}` first.")
    return manifest


def require_output(output: str) -> None:
    """Raise ConfigError if nothing is there."""
    if not storage.exists(output):
        storage.require_bucket(output)
        raise ConfigError(f"{redact(output)}: there is no output. Correct the name, or run `tokcore build` first")


def get_folder(output: str, stage: str) -> str:
    """The folder of a stage's finished files; the build's own manifest is in the output itself."""
    return output if stage == BUILD else urls.join(output, stage)


def get_path_below(stage: str, path: str) -> str:
    """The path, relative to the output, of a file that a stage's manifest names.

    >>> get_path_below("shards", "token_counts.parquet"), get_path_below("build", "README.md")
    ('shards/token_counts.parquet', 'README.md')
    """
    return path if stage == BUILD else f"{stage}/{path}"


def name_once(path: str, error: Exception) -> str:
    """What went wrong with a file of an output, under its path below the output alone.

    >>> name_once("shards/a.bin", OSError("/out/shards/a.bin: cannot read")), name_once("a.bin", OSError("no file"))
    ('shards/a.bin: cannot read', 'a.bin: no file')
    """
    where, _, what = str(error).partition(": ")
    return f"{path}: {what if what and where.endswith(f'/{path}') else error}"


def get_manifest_url(output: str, stage: str) -> str:
    """The URL of the manifest of a stage, or of the build."""
    return urls.join(get_folder(output, stage), MANIFEST)


def _get_claim_url(output: str, stage: str) -> str:
    return urls.join(output, FOLDER, name_claim(stage))


def name_claim(stage: str) -> str:
    """The name of a stage's claim, in the folder of unfinished work."""
    return f"{stage}.claim"


def claim(attempts: Attempts) -> None:
    """Say that this stage is about to get its files, so that those of two builds never mix; equal builds share a claim.

    It lasts until the build is done: what a killed one has published is its own, too. Raises ConfigError if a build of
    another identity was first.
    """
    url = _get_claim_url(attempts.output, attempts.stage)
    data = write_canonical_json({"identity": attempts.identity})
    if not storage.create_exclusive(url, data, attempts.scratch) and storage.read_bytes(url) != data:
        raise ConfigError(
            f"{redact(attempts.output)}: another build is committing its {attempts.stage} here, or was killed "
            f"while it was. Choose another build.output; if nothing runs there any more, `tokcore gc` makes room."
        )


def commit(output: str, manifest: Committed, run: RunFacts, scratch: str) -> Committed:
    """Create the stage's manifest, and beside it run.json; return the manifest. scratch: see storage.create_exclusive.

    run: how the stage ran; what follows from this machine and moment is added.

    Raises ConfigError if another build of a different identity committed first.
    """
    url = get_manifest_url(output, manifest.stage)
    reach("stage.published")
    if not _create_manifest(url, manifest.write, scratch):
        # Another build was first, or the answer to an earlier request was lost: the manifest that is there decides.
        standing = find_manifest_file(url, isinstance(manifest.files, LongFiles))
        if standing is None:
            raise StageError(f"{redact(url)}: another process removed it. Run the command again.")
        other = standing.parse(get_stage(manifest.stage))
        if other.identity != manifest.identity:
            raise ConfigError(f"{url}: another build has committed here in the meantime. Choose another build.output.")
        if standing.sha256 != manifest.hash_file():
            raise StageError(
                f"{url}: the same configuration and inputs gave other bytes before; "
                f"compare the package versions in the two run.json and report this"
            )
    else:
        reach("stage.committed")
        _write_run_facts(get_folder(output, manifest.stage), run)
    return manifest


def commit_to(folder: str, data: bytes, run: RunFacts, scratch: str) -> bool:
    """Create the manifest of a folder that is no stage's, and beside it run.json; whether this process did.

    If another one did, its manifest stays. run, scratch: as of commit.
    """
    if _create_manifest(urls.join(folder, MANIFEST), lambda: [data], scratch):
        _write_run_facts(folder, run)
        return True
    return False


def _write_run_facts(folder: str, run: RunFacts) -> None:
    with storage.write_attempt(urls.join(folder, RUN)) as file:
        file.write(_add_machine(run).to_bytes())


def _create_manifest(url: str, write: Callable[[], Iterable[bytes]], scratch: str) -> bool:
    """Whether the manifest is ours; it is not if another is there, whose build may have removed our scratch folder."""
    try:
        return storage.create_exclusive(url, write, scratch)
    except StageError:
        if not storage.exists(url):
            raise
        return False


def describe_commit_date(output: str, stage: str) -> str:
    """When a stage, or the build, was committed, by its run.json: ` on 2026-01-31 23:59 UTC`; empty if that is gone."""
    try:
        then = datetime.datetime.fromisoformat(read_run_facts(output, stage).finished)
    except ValueError:
        return ""
    return f" on {_spell_time(then)}"


def describe_change(url: str) -> str:
    """When a file was written, as it is listed: `2026-01-31 23:59 UTC`; empty if it is gone."""
    found = storage.read_footprint(url)
    return _spell_time(datetime.datetime.fromtimestamp(found.changed, datetime.UTC)) if found is not None else ""


def _spell_time(then: datetime.datetime) -> str:
    return f"{then.astimezone(datetime.UTC):%Y-%m-%d %H:%M} UTC"


def _add_machine(run: RunFacts) -> RunFacts:
    return dataclasses.replace(
        run,
        finished=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        host=platform.node(),
        machine=platform.machine(),
        process=os.getpid(),
        python=sys.version.split()[0],
        packages=find_package_versions(_PACKAGES),
    )


def read_run_facts(output: str, stage: str) -> RunFacts:
    """What run.json says of how a stage ran; nothing if it is gone or damaged, for nothing vouches for it."""
    url = urls.join(get_folder(output, stage), RUN)
    try:
        data = storage.read_if_there(url)
        return parse_run_facts(data, url) if data is not None else RunFacts()
    except FormatError:
        return RunFacts()


def find_package_versions(packages: Iterable[str] = _WRITERS) -> dict[str, str | None]:
    """Package -> its version here, None where it is not installed; by default of those that write stored bytes."""
    return {name: _find_version(name) for name in packages}


@functools.cache
def _find_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # run from a source tree
        return None
