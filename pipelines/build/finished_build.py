"""A finished build is recognised by the hashes of its manifests. They are not parsed: they may be large.

The build's own manifest names those of all stages by their sha256, and its identity covers them and all settings. So
if these agree, everything still agrees that was compared when the build was committed.

Local inputs are listed, and compared with the plan. Listing costs requests in stores, and seconds if there are very
many files. In both cases inputs are not listed again: run.json must have the hash of the same settings, patterns
included. `tokcore check` lists what the patterns match now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tokcore.errors import FormatError
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec
from tokcore_pipelines.build.commit import find_manifest, get_manifest_url, read_run_facts
from tokcore_pipelines.build.missing_files import require_files, require_sizes
from tokcore_pipelines.build.plan_corpus import make_plan_key
from tokcore_pipelines.build.stage import StageKey
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER
from tokcore_pipelines.store.manifests import ManifestFile, find_manifest_file
from tokcore_pipelines.store.parallel_requests import run_at_once
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.cut_manifest import read_files
from tokcore_schemas.plan import Plan
from tokcore_schemas.stage_manifests import BuildManifest, ImportedConfig
from tokcore_schemas.stage_table import BUILD, PLAN, TOKENIZER, WHOLE

# If a stage's manifest is larger (170,000 files), its files are not looked for here: verify --quick does that.
MOST_BYTES = 64 << 20
MOST_LISTED = 10_000  # local input files: listing and comparing that many takes about half a second


def needs_no_listing(config: BuildConfig, build: BuildManifest) -> bool:
    """Whether a finished build is recognised without listing its inputs: none is local, or there are very many."""
    if build.totals.files.planned > MOST_LISTED:
        return True
    patterns = [urls.resolve(config.base, pattern) for source in config.sources for pattern in source.files]
    return not any(urls.is_local(pattern) for pattern in patterns)


def find_finished(
    output: str, config: BuildConfig, imported: TokenizerSpec | None, plan: Plan | None = None
) -> BuildManifest | None:
    """The manifest of the finished build of this build file; None if its stages must be checked one by one.

    plan: of the inputs as they are now; None if they are not listed. Raises StageError if a file of the build is gone.
    """
    found = _recognize(output, config, imported, plan)
    if found is None:
        return None
    require_files(output, found.build)
    for stage, made in found.stages.items():
        if made.size_bytes <= MOST_BYTES:
            require_sizes(output, stage, _list_sizes(read_files(made.read())))
    return found.build


def _list_sizes(entries: Iterable[dict[str, Any]]) -> Iterator[tuple[str, int]]:
    """(path, bytes) of each file, as FileEntry.list_files has them."""
    for one in entries:
        if "parts" not in one:
            yield one["path"], one["size_bytes"]
        yield from ((f"{one['path']}/{part['path']}", part["size_bytes"]) for part in one.get("parts", ()))


def is_finished(output: str, config: BuildConfig, imported: TokenizerSpec | None, plan: Plan) -> bool:
    """Whether the output surely holds the finished build of this build file. Does not look for its files."""
    return _recognize(output, config, imported, plan) is not None


class _Recognized(NamedTuple):
    build: BuildManifest
    stages: Mapping[str, ManifestFile]


def _recognize(
    output: str, config: BuildConfig, imported: TokenizerSpec | None, plan: Plan | None
) -> _Recognized | None:
    try:
        build = find_manifest(output, WHOLE)
        if build is None or (plan is None and not needs_no_listing(config, build)):
            return None
        if plan is None and read_run_facts(output, BUILD).settings != config.hash_settings():
            return None
        if storage.list_tree(urls.join(output, FOLDER)):
            return None  # it was killed before it had removed its working files, or another build is at work
        if StageKey(BUILD, config.stage_configs(), build.inputs).identity != build.identity:
            return None
        stages = _read_stages(output, build)
        if not (stages and _is_of_plan(output, config, plan) and _is_of_tokenizer(output, imported)):
            return None
    except FormatError:
        return None
    return _Recognized(build, stages)


def _read_stages(output: str, build: BuildManifest) -> dict[str, ManifestFile]:
    """Stage -> its manifest as it is stored; empty unless all of them are those that the build names."""
    stages = [*build.inputs]
    found = run_at_once(lambda stage: find_manifest_file(get_manifest_url(output, stage)), stages)
    read = {stage: file for stage, file in zip(stages, found, strict=True) if file is not None}
    as_named = [stage in read and read[stage].sha256 == build.inputs[stage].sha256 for stage in stages]
    return read if all(as_named) else {}


def _is_of_plan(output: str, config: BuildConfig, plan: Plan | None) -> bool:
    if plan is None:
        return True
    planned = find_manifest(output, PLAN)
    return planned is not None and planned.identity == make_plan_key(config, plan).identity


def _is_of_tokenizer(output: str, imported: TokenizerSpec | None) -> bool:
    """Whether an imported tokenizer is the one that was imported then."""
    if imported is None:
        return True
    made = find_manifest(output, TOKENIZER)
    return made is not None and made.config == ImportedConfig.of(imported)
