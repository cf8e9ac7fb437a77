"""Weights of a mixture that follow from sizes: what a change of the documents moves then, and how that is kept away.

Each language, source or partition gets a share of the tokens, so where one grows or shrinks, documents of all others
come more or less often. With kept weights each document comes as often as before, and only those that came or went make
a difference.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from tokcore.errors import ConfigError
from tokcore_pipelines.build.commit import find_manifest, require_manifest
from tokcore_pipelines.build.mix_corpus import list_mixed, spell_copies
from tokcore_pipelines.build.read_log import Log, locate_part
from tokcore_pipelines.local.terminal import format_count, format_size
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.gaps import KeptRows
from tokcore_schemas.plan import Plan
from tokcore_schemas.stage_manifests import MixtureConfig
from tokcore_schemas.stage_table import MIXED, PACKED, SHARDS

Weights = Literal["ask", "all", "keep"]  # what an update does where they follow from sizes: fail, move, keep them


def follows_sizes(mixed: MixtureConfig) -> bool:
    """Whether documents come more or less often if sizes change."""
    return (mixed.strategy != "weights" or mixed.levels is not None) and mixed.kept is None


def keeps_weights(log: Log) -> bool:
    """Whether the mixture of the newest commit has weights of an earlier one, where they follow from sizes."""
    if log.build.config.mixed is None or not follows_sizes(log.build.config.mixed):
        return False
    return require_manifest(locate_part(log.output, log.parts()[-1]), MIXED).config.kept is not None


def settle_weights(log: Log, config: BuildConfig, weights: Weights, plan: Plan) -> BuildConfig:
    """The build file of the part that is to be made: with the weights of the newest commit, if these are kept.

    plan: of the files that are read for it. Raises ConfigError if weights follow from sizes and nothing was chosen,
    saying what would be made again; or if there are none to keep.
    """
    mixed = log.build.config.mixed
    if weights == "keep":
        return dataclasses.replace(config, kept_weights=read_weights(log))
    if weights == "ask" and mixed is not None and follows_sizes(mixed):
        why = f"mixture.strategy is {mixed.strategy!r}" if mixed.levels is None else "mixture.over has levels"
        raise ConfigError(
            f"{redact(log.output)}: {why}, so its weights follow from sizes, and any "
            f"change moves documents of all {mixed.over}. {_describe_size(log, plan)} Pass --all to have that made "
            f"again, as a new build has it; or --keep-weights, and documents come as often as in commit {log.newest}. "
            f"Nothing was changed."
        )
    return dataclasses.replace(config, kept_weights=None)


def read_weights(log: Log) -> Mapping[str, str]:
    """How often documents come in the mixture of the newest commit, as MixtureConfig.kept has it.

    Raises ConfigError if there is no mixture.
    """
    if log.build.config.mixed is None:
        raise ConfigError(f"--keep-weights: {redact(log.output)} has no [mixture], and no weights. Leave it out.")
    made = require_manifest(locate_part(log.output, log.parts()[-1]), MIXED)
    return {name: spell_copies(share) for name, share in list_mixed(made).items()}


def keep_rows(log: Log, config: BuildConfig) -> BuildConfig:
    """The build file of a part whose documents stay where they are in the rows of the newest commit.

    Raises ConfigError if there are no rows.
    """
    if log.build.config.packed is None:
        raise ConfigError(
            f"--in-place-rows: {redact(log.output)} has no [pack], and no rows that could stay. Leave it out: a run "
            f'under way goes on with Loader(at={log.newest}, removed="mask"), until that commit is expired.'
        )
    url = locate_part(log.output, log.parts()[-1])
    mixed = find_manifest(url, MIXED)
    rows = require_manifest(url, PACKED).as_input()
    kept = KeptRows(url, rows.sha256, rows.content_sha256, mixed.totals.segments if mixed else None)
    weights = read_weights(log) if mixed is not None else None
    return dataclasses.replace(config, kept_weights=weights, kept_rows=kept)


def _describe_size(log: Log, plan: Plan) -> str:
    """What is there that would be made again, in a sentence."""
    url = locate_part(log.output, log.parts()[-1])
    mixed, packed = require_manifest(url, MIXED).totals, find_manifest(url, PACKED)
    told = [
        format_count(require_manifest(url, SHARDS).totals.shards, "shard"),
        f"a mixture of {format_count(mixed.documents, 'document')} and {format_count(mixed.tokens, 'token')}",
        *([f"{format_count(packed.totals.rows, 'row')} of {packed.config.length:,} ids"] if packed is not None else []),
    ]
    return (
        f"{format_count(len(plan.files), 'input file')} of {format_size(plan.size_bytes)} would be read, and "
        f"{' and '.join([', '.join(told[:-1]), told[-1]])} be written."
    )
