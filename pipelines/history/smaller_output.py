"""`tokcore convert OUTPUT --vocab-size N -o NEW`: a build of a smaller vocabulary, out of an output alone.

Its settings are those in the manifests, its plan and its counts are copied, and tokcore_pipelines.build.smaller_size
makes the rest. So the new output is what a build of that size gives.
"""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any

from tokcore.errors import ConfigError
from tokcore.tokenizer.smaller import make_smaller
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import read_run_facts, require_manifest
from tokcore_pipelines.build.learn_settings import read_learn_config
from tokcore_pipelines.build.plan_corpus import make_plan_key
from tokcore_pipelines.build.read_log import has_commits, read_log
from tokcore_pipelines.build.stage import StageKey
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.build.stored_config import describe_derived, describe_encoding, read_stored_config
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.build_tables import (
    BuildConfig,
    BuildTable,
    PlanTable,
    TokenizerTable,
)
from tokcore_schemas.setting import MAX_INTEGER
from tokcore_schemas.stage_manifests import BuildManifest, LearnedConfig, ParityMix, StageConfigs
from tokcore_schemas.stage_table import COUNTS, PLAN, SHARDS, WHOLE

OPTION = "--vocab-size"


def make_smaller_output(
    output: str,
    vocab_size: int,
    target: str,
    options: RunOptions | None = None,
    progress: StageProgress | None = None,
) -> Build:
    """The build, to be run, of a new output with the documents of another one under fewer merges.

    output, target: URLs. Raises ConfigError for an output that is not finished, or was updated since, and where ids
    under fewer merges do not follow from what is in its shards.
    """
    built = require_whole(output)
    if built.config.shards.dropout or built.config.shards.sampling:
        raise ConfigError(
            f"{redact(output)}: its ids were drawn (encode.dropout, encode.sampling), so they are not what all merges "
            f"give, and those under fewer do not follow from them. Build that size from the text."
        )
    if isinstance(built.config.tokenizer, LearnedConfig) and isinstance(built.config.tokenizer.mix, ParityMix):
        raise ConfigError(
            f'{redact(output)}: weights of languages followed the premium (mix.strategy = "parity"), and would be '
            f"others at this size. Build that size from the text."
        )
    stored = Stored(output)
    smaller = make_smaller(stored.spec, vocab_size, field=OPTION)
    config = read_whole_config(output, built.config, vocab_size)
    return build_from(stored, config, target, smaller.spec, options, progress)


def build_from(
    stored: Stored,
    config: BuildConfig,
    target: str,
    spec: TokenizerSpec,
    options: RunOptions | None,
    progress: StageProgress | None,
) -> Build:
    """The build, to be run, of a new output whose shards follow from those of another one.

    spec: its tokenizer, taken if config names one. Raises ConfigError for an output of another release.
    """
    build = Build(
        dataclasses.replace(config, build=dataclasses.replace(config.build, output=target)),
        options or RunOptions(),
        target,
        progress or StageProgress(-1),
        reuse=stored.url,
        chosen=stored.plan,
    )
    if config.tokenizer is not None:
        build.take_tokenizer(spec)
    require_this_release(stored, build)
    return build


def require_whole(output: str) -> BuildManifest:
    """The manifest of a finished build. Raises ConfigError for an output that is not finished, or was updated since."""
    built = require_manifest(output, WHOLE)
    if has_commits(output):
        raise ConfigError(
            f"{redact(output)}: was updated since it was built, and its parts have shards of their own. Write the "
            f"documents of a commit into a new output first: `tokcore encode BUILD.toml --at N -o OUTPUT`"
        )
    return built


def require_this_release(stored: Stored, build: Build) -> None:
    """Raise ConfigError if a stage of an output cannot be taken over: then text would be read again."""
    planned, shards, counts = stored.get(PLAN), stored.get(SHARDS), stored.find(COUNTS)
    keys: list[tuple[Any, StageKey[Any]]] = [
        (planned, make_plan_key(build.config, stored.plan)),
        (shards, StageKey(SHARDS.name, shards.config, shards.inputs)),
    ]
    if counts is not None:
        keys.append((counts, StageKey(COUNTS.name, build.config.count_identity(), counts.inputs)))
    for made, key in keys:
        if made.identity != key.identity:
            raise ConfigError(
                f"{redact(stored.url)}: another release of tokcore made its {made.stage}, and its results may differ. "
                f"Build the new output from the text."
            )


def read_whole_config(output: str, built: StageConfigs, vocab_size: int) -> BuildConfig:
    """The build file that the output of this size follows from, as manifests have it. It has no sources."""
    if isinstance(built.tokenizer, LearnedConfig):
        config = read_learn_config(output, [f"learn.vocab_size={vocab_size}"])
        tokenizer: Any = dataclasses.replace(built.tokenizer, vocab_size=vocab_size)
    else:
        config = read_stored_config(read_log(output))  # mixtures and rows follow below
        imported = TokenizerTable(from_=output)
        config = dataclasses.replace(config, tokenizer=imported, counts_too=built.counts is not None)
        tokenizer = built.tokenizer
    config = dataclasses.replace(
        config,
        base=read_run_facts(output, PLAN.name).base,
        build=BuildTable(
            output=output,
            lang_normalize="none",
            seed=next((of.seed for of in (built.shards, built.counts) if of is not None and of.seed is not None), 0),
            max_rejected=Decimal(1),
            max_languages=MAX_INTEGER,
        ),
        plan=PlanTable(range_bytes=require_manifest(output, PLAN, "build").config.range_bytes),
        **describe_encoding(built.shards),
        **describe_derived(built),
    )
    if config.stage_configs() != dataclasses.replace(built, tokenizer=tokenizer, tokenizers=None):
        raise ConfigError(f"{redact(output)}: has settings that this release cannot take from manifests: upgrade")
    return config
