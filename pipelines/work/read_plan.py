"""The plan of an output, or of a part of one, read back."""

from __future__ import annotations

import dataclasses

from tokcore.errors import FormatError
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.pinned_inputs import FILES, read_pinned_files
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.work_items import make_plan
from tokcore_schemas.plan import DropList, Plan
from tokcore_schemas.prefer import PIECES
from tokcore_schemas.stage_manifests import DedupManifest, PlanManifest
from tokcore_schemas.stage_table import DEDUP


def read_plan(output: str, manifest: PlanManifest) -> Plan:
    """The plan of an output, from its committed manifest and table of files. Raises FormatError if it cannot be one."""
    url = urls.join(output, "plan", FILES)
    files = read_pinned_files(output)
    config = manifest.config
    if config.range_bytes < 1:
        raise FormatError(f"{redact(output)}: plan/manifest.json: config.range_bytes: {config.range_bytes}")
    for number, file in enumerate(files):
        if not 0 <= file.settings < len(config.settings):
            raise FormatError(f"{url}:{number + 1}: settings: the plan has no settings of number {file.settings}")
    return make_plan(files, config.settings, config.range_bytes, manifest.totals.duplicates, config.runs)


def with_drops(plan: Plan, output: str, made: DedupManifest) -> Plan:
    """The plan whose work items know the files that name their duplicates."""
    urls_of = [urls.join(output, DEDUP.name, entry.path) for entry in made.files]
    by = made.config.by if made.config.by in PIECES else ""
    drops = tuple(DropList(url, entry.sha256, by) for url, entry in zip(urls_of, made.files, strict=True))
    return dataclasses.replace(plan, drops=drops)
