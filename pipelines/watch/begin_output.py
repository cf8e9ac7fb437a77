"""How a watched output begins: with a build that is there, or with one of no files, which holds the tokenizer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tokcore.errors import ConfigError
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.work_items import make_plan
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.stage_table import WHOLE


def begin_output(
    config: BuildConfig, options: RunOptions, output: str, progress: StageProgress, say: Callable[[str], None]
) -> BuildConfig:
    """Commit the build of no files, if there is no build; the build file, as it is to be followed.

    progress: of that build. Raises ConfigError if there is neither a build nor a tokenizer to begin with.
    """
    if (build := find_manifest(output, WHOLE)) is not None:
        if config.tokenizer is None:
            return config
        if config.counts_too and build.config.counts is None:
            raise ConfigError(f"--count: {redact(output)} was begun without it. Name another output.")
        return dataclasses.replace(config, counts_too=build.config.counts is not None)
    if config.tokenizer is None:
        raise ConfigError(
            f"{redact(output)}: holds no finished build, so there is no tokenizer to go on with. Build it "
            f"first: tokcore build {config.as_argument}; or begin with a tokenizer that is there: --tokenizer"
        )
    empty = make_plan([], [], config.plan.range_bytes, [])
    Build(config, options, output, progress, chosen=empty).run()
    say(f"commit 0 of {redact(output)}: no documents yet, and the tokenizer")
    return config
