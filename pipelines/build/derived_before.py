"""What a part takes over of stages that are made out of shards: mixtures, and rows."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from tokcore_pipelines.build.commit import find_manifest, require_manifest
from tokcore_pipelines.build.stage import BuildRun, StageKey
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.stage_table import SHARDS, STAGES


class DerivedBefore(NamedTuple):
    """A stage of the part before, and the shards that it was made out of."""

    output: str  # URL of that part
    made: Any
    source: Any


def find_derived_before(run: BuildRun, config: Any, stage: str, made_from: AnyManifest) -> DerivedBefore | None:
    """The stage of the part whose place this one takes; None if there is none that was made in this way.

    config: of the stage, in which weights of a mixture that are kept may differ. made_from: what is read for it now.
    """
    if run.inheritance is None:
        return None
    output = run.inheritance.output
    shards, source, made = (find_manifest(output, STAGES[name]) for name in (SHARDS.name, made_from.stage, stage))
    if shards is None or source is None or made is None:
        return None
    now = require_manifest(run.output, SHARDS)
    is_alike = (
        shards.config == now.config
        and shards.totals.fingerprint == now.totals.fingerprint == made.totals.fingerprint
        and _drop_kept(made.config) == _drop_kept(config)
        and made.inputs[source.stage] == source.as_input()
        and StageKey(stage, made.config, made.inputs).identity == made.identity  # of this release
    )
    return DerivedBefore(output, made, source) if is_alike else None


def _drop_kept(config: Any) -> Any:
    return dataclasses.replace(config, kept=None) if hasattr(config, "kept") else config
