"""The build file of a finished output, as far as its manifests have it: enough to make further parts of it.

Sources, and how a tokenizer is learned, are not in it. Settings that change no byte have their defaults, but for the
limits at which a build fails: what was built once is not refused later.
"""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any

from tokcore.errors import ConfigError
from tokcore_pipelines.build.commit import read_run_facts, require_manifest
from tokcore_pipelines.build.read_log import Log, locate_part
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.build_tables import (
    BuildTable,
    CountTable,
    DedupTable,
    EncodeTable,
    MetadataTable,
    MixtureTable,
    NormalizeTable,
    PackTable,
    PlanTable,
    PretokenizeTable,
    ShardsTable,
    ShuffleTable,
    TokenizerTable,
)
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.levels import read_levels_config
from tokcore_schemas.setting import MAX_INTEGER
from tokcore_schemas.stage_manifests import (
    CountsConfig,
    DedupConfig,
    MixtureConfig,
    ShardsConfig,
    StageConfigs,
    list_partition_keys,
)
from tokcore_schemas.stage_table import MIXED, PLAN


def read_stored_config(log: Log, base: str = "") -> BuildConfig:
    """The build file of an output, as far as parts follow from it. Weights that the newest commit has kept stay.

    base: folder against which relative uris of inputs are resolved; empty: where the build file was.
    Raises ConfigError if the manifests say what this release cannot set.
    """
    output, counts, shards = log.output, log.build.config.counts, log.build.config.shards
    config = BuildConfig(
        path=f"{output}/manifest.json",
        base=base or read_run_facts(output, "plan").base,
        build=BuildTable(
            output=output,
            seed=next((of.seed for of in (shards, counts) if of is not None and of.seed is not None), 0),
            max_rejected=Decimal(1),
            max_languages=MAX_INTEGER,
        ),
        sources=(),
        plan=PlanTable(range_bytes=require_manifest(output, PLAN, "build").config.range_bytes),
        **describe_encoding(shards),
        **describe_derived(log.build.config),
        # A part takes over the tokenizer, and counts if the build did.
        tokenizer=TokenizerTable(from_=output) if counts is None else None,
    )
    if counts is not None:
        config = _with_counting(config, counts)
    if log.build.config.mixed is not None:
        mixed = require_manifest(locate_part(output, log.parts()[-1]), MIXED)
        config = dataclasses.replace(config, kept_weights=mixed.config.kept)
    made = dataclasses.replace(config.stage_configs(), tokenizer=log.build.config.tokenizer, tokenizers=None)
    if log.build.config.mixed is not None and made.mixed is not None:
        made = dataclasses.replace(made, mixed=dataclasses.replace(made.mixed, kept=None))
    if dataclasses.replace(made, counts=made.counts if counts is not None else None) != dataclasses.replace(
        log.build.config, tokenizers=None
    ):
        raise ConfigError(f"{redact(output)}: has settings that this release cannot take from manifests: upgrade")
    return config


def describe_derived(built: StageConfigs) -> dict[str, Any]:
    """The tables of deduplication, a mixture and rows."""
    tables: dict[str, Any] = {"dedup": _describe_dedup(built.dedup)}
    if (mixed := built.mixed) is not None:
        tables["mixture"] = MixtureTable(
            strategy=mixed.strategy,
            **_describe_over(mixed),
            alpha=Decimal(mixed.alpha) if mixed.alpha else MixtureTable().alpha,
            weights={name: Decimal(weight) for name, weight in (mixed.weights or {}).items()},
            tokens=mixed.tokens,
            max_epochs=Decimal(mixed.max_epochs) if mixed.max_epochs else None,
            formats=mixed.formats,
        )
    if (packed := built.packed) is not None:
        tables["pack"] = PackTable(
            length=packed.length,
            strategy=packed.strategy,
            cut=packed.cut,
            last=packed.last,
            padding=packed.padding or None,
            formats=packed.formats,
        )
    return tables


def _describe_over(mixed: MixtureConfig) -> dict[str, Any]:
    if mixed.levels is not None:
        return read_levels_config(mixed.levels)
    return {"over": (mixed.over,), "flat_keys": list_partition_keys(mixed.over)}


def _describe_dedup(dedup: DedupConfig | None) -> DedupTable:
    """The table that says which documents are duplicates."""
    if dedup is None:
        return DedupTable()
    return DedupTable(by=dedup.by, normalize=dedup.normalize, prefer=dedup.prefer)


def describe_encoding(shards: ShardsConfig) -> dict[str, Any]:
    """The tables that say how documents were encoded, shuffled, and written.

    Of metadata the columns: defaults, and what is required, are in the plan.
    """
    return {
        "metadata": tuple(MetadataTable(name=name, type=kind) for name, kind in shards.metadata),
        "encode": EncodeTable(
            prepend=shards.prepend,
            append=shards.append,
            special_text=shards.special_text,
            dropout=Decimal(shards.dropout or 0),
            sampling={"theta": Decimal(shards.sampling)} if shards.sampling else {},
            epoch=shards.epoch or 0,
        ),
        "shuffle": ShuffleTable(seed=shards.shuffle),
        "shards": ShardsTable(
            formats=shards.formats,
            target_tokens=shards.target_tokens,
            by=shards.by,
            partition_by=shards.partition_by,
            bins={name: tuple(map(Decimal, bounds)) for name, bounds in (shards.bins or {}).items()},
            max_partitions=MAX_INTEGER,
            validation=Decimal(shards.validation),
            compression=shards.compression,  # type: ignore[arg-type] # callers compare the identity
            dtype=shards.dtype or "int32",  # type: ignore[arg-type]
        ),
    }


def _with_counting(config: BuildConfig, counts: CountsConfig) -> BuildConfig:
    """The build file with the tables that say how pre-tokens are counted."""
    spec = counts.pretokenize
    named = "name" in spec
    return dataclasses.replace(
        config,
        # What marks spaces is among these steps, and no setting adds it then.
        normalize=NormalizeTable(steps=counts.normalize),
        pretokenize=PretokenizeTable(pattern=spec["name"]) if named else PretokenizeTable(**spec),
        count=CountTable(max_pretoken_bytes=counts.max_pretoken_bytes, sample=Decimal(counts.sample), mask=counts.mask),
        counted_by=counts.apart_by,
    )
