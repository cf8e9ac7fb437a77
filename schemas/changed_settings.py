"""What differs between two configurations of a stage, in the words of the build file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping

from tokcore.files.jsonable import to_jsonable
from tokcore_schemas.plan import FilterRule, MapRule, ReadSettings
from tokcore_schemas.stage_manifests import (
    PIECE_SETTINGS,
    CountsConfig,
    DedupConfig,
    ImportedConfig,
    LearnedConfig,
    MixtureConfig,
    PackedConfig,
    ParityMix,
    PlanConfig,
    RejectedConfig,
    ShardsConfig,
    SpecialConfig,
    StageConfigs,
)
from tokcore_schemas.stage_table import STAGES
from tokcore_schemas.tombstones import Tombstones
from tokcore_schemas.toml_lines import spell_key

_MAX_SHOWN = 80  # characters of a value

# Field -> table of the build file; the key has the field's name.
_TABLES: Mapping[type, Mapping[str, str]] = {
    PlanConfig: {"range_bytes": "plan"},
    RejectedConfig: {"special_text": "encode"},
    DedupConfig: {
        **dict.fromkeys(("by", "normalize", "prefer"), "dedup"),
        "validation": "shards",
        "seed": "build",
    },
    CountsConfig: {
        **dict.fromkeys(("max_pretoken_bytes", "sample", "mask"), "count"),
        "seed": "build",
        "validation": "shards",
    },
    LearnedConfig: {
        **dict.fromkeys(("model", "vocab_size", "allow_smaller"), "learn"),
        **dict.fromkeys(("min_count", "min_documents", "max_token_bytes", "max_length"), "learn"),
        **dict.fromkeys(("end_of_word", "layout", "character_coverage", "superset", *PIECE_SETTINGS), "learn"),
        "splits": "count",
    },
    ShardsConfig: {
        **dict.fromkeys(("formats", "target_tokens", "by", "validation", "compression", "dtype"), "shards"),
        **dict.fromkeys(("partition_by", "bins"), "shards"),
        **dict.fromkeys(("prepend", "append", "special_text", "dropout", "epoch"), "encode"),
        "seed": "build",
    },
    MixtureConfig: {
        **dict.fromkeys(("strategy", "over", "alpha", "weights", "tokens", "max_epochs", "formats"), "mixture"),
        **dict.fromkeys(("target_tokens", "compression", "dtype"), "shards"),
    },
    PackedConfig: {
        **dict.fromkeys(("length", "strategy", "cut", "last", "formats", "padding"), "pack"),
        **dict.fromkeys(("target_tokens", "compression", "dtype"), "shards"),
    },
}

# Exact decimals are text in a manifest, and numbers in a build file.
_DECIMALS = frozenset(
    {
        *(
            "count.sample",
            "learn.character_coverage",
            "learn.superset",
            "shards.validation",
            "encode.dropout",
            "encode.sampling.theta",
        ),
        *("mix.alpha", "mix.density", "mix.density_cap", "mix.max_epochs", "mix.target_premium"),
        *("mixture.alpha", "mixture.max_epochs"),
    }
)


def describe_changed_settings(was: object, now: object) -> list[str]:
    """What two configurations of one stage set differently: `learn.vocab_size was 400, now 500`, a line for each key.

    How sources are read is left out: see describe_changed_reading.
    """
    # What is empty is not set, as what a configuration does not have.
    before, after = (
        {key: None if value == "" else value for key, value in _iterate_settings(one)} for one in (was, now)
    )
    return [
        _describe_change(key, before.get(key), after.get(key))
        for key in dict.fromkeys((*before, *after))
        if before.get(key) != after.get(key)
    ]


def describe_changed_reading(was: ReadSettings, now: ReadSettings) -> list[tuple[str, str]]:
    """(key of a source, `was "content", now "text"`) for each setting that two ways of reading do not share."""
    return [
        (field.name, _spell_was_now(getattr(was, field.name), getattr(now, field.name)))
        for field in dataclasses.fields(ReadSettings)
        if getattr(was, field.name) != getattr(now, field.name)
    ]


def _describe_change(key: str, was: object, now: object) -> str:
    return f"{key} {_spell_was_now(was, now, key in _DECIMALS)}"


def _spell_was_now(was: object, now: object, is_decimal: bool = False) -> str:
    return f"was {_spell(was, is_decimal)}, now {_spell(now, is_decimal)}"


def _spell(value: object, is_decimal: bool) -> str:
    if value is None or value == "":
        return "not set"
    if isinstance(value, Tombstones):
        return f"{value.num:,} names"
    if isinstance(value, tuple) and value and isinstance(value[0], MapRule):
        return ", ".join(map(_spell_step, value))
    if isinstance(value, tuple) and value and isinstance(value[0], FilterRule):
        return ", ".join(map(_spell_rule, value))
    text = str(value) if is_decimal else json.dumps(to_jsonable(value), ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."


def _spell_step(rule: MapRule) -> str:
    """A step of [[map]] by its code, whose hash is what most likely changed."""
    of = f" of {rule.distribution}" if rule.distribution else ""
    version = f", version {rule.version}" if rule.version else ""
    return f"{rule.run} (sha256 {rule.sha256[:16]}{of}{version})"


def _spell_rule(rule: FilterRule) -> str:
    """A rule of [[filter]] as the build file has it; of the items of a test, the hash of what their files hold."""
    what = f'keep = "{rule.keep}"' if rule.keep else rule.rule
    if rule.overlap is not None:
        held = hashlib.sha256(json.dumps(to_jsonable(rule.overlap.files)).encode()).hexdigest()
        what = f"ngram_overlap n = {rule.overlap.n}, {rule.overlap.field} of items {held[:16]}"
    langs = f" langs {', '.join(rule.langs)}" if rule.langs else ""
    text = f"{what} {rule.parameters}{langs}".replace(" {}", "")
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."


def _iterate_settings(config: object) -> Iterator[tuple[str, object]]:
    """(key of the build file, value) of each setting that a stage's configuration holds."""
    if isinstance(config, StageConfigs):
        derived = (getattr(config, stage.name, None) for stage in STAGES.values() if stage.is_derived)
        for part in (config.counts, config.tokenizer, config.tokenizers, config.shards, *derived):
            yield from _iterate_settings(part)
        if config.tokenizers is not None and isinstance(config.tokenizer, LearnedConfig):
            yield "encode.vocab_size", config.tokenizer.vocab_size
    elif isinstance(config, ImportedConfig):
        parts = {"post_processor": config.post_processor_sha256, "decoder": config.decoder_sha256}
        said = " and".join(f" the {part} {sha256[:16]}" for part, sha256 in parts.items() if sha256)
        yield "tokenizer.from", f"tokenizer {config.fingerprint[:16]}" + (f" with{said}" if said else "")
    elif config is not None:
        for name, table in _TABLES[type(config)].items():
            yield f"{table}.{name}", getattr(config, name)
    for name, version in (getattr(config, "plugins", None) or {}).items():
        yield f"the version of {name}", version
    if isinstance(config, ShardsConfig):
        yield "shuffle.seed", config.shuffle
        for name, kind in config.metadata:
            yield spell_key(("metadata", name, "type")), kind
        yield "encode.sampling.theta", config.sampling
    if isinstance(config, CountsConfig):
        for by in config.apart_by:
            yield f"source.{'validation' if by == 'split' else 'name'}", "kept apart in count tables"
    if isinstance(config, CountsConfig | LearnedConfig):
        yield "normalize.steps", config.normalize
        for name, text in config.pretokenize.items():
            yield f"pretokenize.{'pattern' if name == 'name' else name}", text
    if isinstance(config, LearnedConfig | MixtureConfig) and config.levels is not None:
        table = "mix" if isinstance(config, LearnedConfig) else "mixture"
        for field in dataclasses.fields(config.levels):
            yield f"{table}.{field.name}", getattr(config.levels, field.name)
    if isinstance(config, LearnedConfig):
        yield "learn.extend", f"tokenizer {config.extends[:16]}" if config.extends else ""
        yield "learn.chat_template", f"sha256 {config.chat_template_sha256[:16]}" if config.chat_template_sha256 else ""
        for field in dataclasses.fields(config.mix):
            if field.name != "parallel_sha256":
                yield f"mix.{field.name}", getattr(config.mix, field.name)
        if isinstance(config.mix, ParityMix):
            yield "mix.parallel", f"odd lines {config.mix.parallel_sha256[:16]}"
        for position, token in enumerate(config.special):
            yield from _iterate_special(position, token)


def _iterate_special(position: int, token: SpecialConfig) -> Iterator[tuple[str, object]]:
    key = spell_key(("special", token.text))
    yield key, token.role
    # A token without an id of its own gets one by its place.
    yield f"{key}.id", f"position {position}" if token.id is None else token.id
