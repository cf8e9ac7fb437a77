"""What workers are told, made from a stage's manifest. A build and `verify --rebuild` tell them the same."""

from __future__ import annotations

from collections.abc import Iterable

from tokcore.errors import ConfigError
from tokcore.text.masking import check_mask
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.count_item import CountJob
from tokcore_pipelines.work.derived_shards import ShardSource
from tokcore_pipelines.work.encode_job import EncodeJob
from tokcore_pipelines.work.mix_part import MixJob
from tokcore_pipelines.work.pack_group import PackJob
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.padding import find_padding
from tokcore_schemas.shard_entries import make_shard_settings
from tokcore_schemas.shuffle import choose_num_parts
from tokcore_schemas.stage_manifests import (
    CountsConfig,
    MixtureConfig,
    MixtureManifest,
    PackedConfig,
    ShardsConfig,
    ShardsManifest,
)


def make_count_job(config: CountsConfig, attempts: Attempts, base: str, num_ranges: int, memory_bytes: int) -> CountJob:
    """What the workers of the count stage need. base: folder of the build file. memory_bytes: limit of each worker."""
    return CountJob(attempts, config, base, memory_bytes, num_ranges, check_mask(config.mask))


def make_encode_job(
    config: ShardsConfig,
    attempts: Attempts,
    base: str,
    tokenizer_url: str,
    tokenizer_sha256: str,
    spec: TokenizerSpec,
) -> EncodeJob:
    """What the workers of the encode stage need. tokenizer_url, tokenizer_sha256: of the tokcore.json of spec.

    Raises ConfigError if the tokenizer lacks a special token that documents are to begin or end with.
    """
    return EncodeJob(
        attempts,
        config,
        make_shard_settings(config, spec.fingerprint, spec.vocab_size),
        base,
        tokenizer_url,
        tokenizer_sha256,
        prepend=find_special_ids(spec, "prepend", config.prepend),
        append=find_special_ids(spec, "append", config.append),
        unknown=spec.model.unknown,
    )


def make_mix_job(
    config: MixtureConfig, attempts: Attempts, output: str, shards: ShardsManifest, spec: TokenizerSpec, result_key: str
) -> MixJob:
    """What the workers of the mixture stage need, but what is decided between its passes. output: of the build.

    spec: of its tokenizer.
    """
    return MixJob(
        attempts,
        config,
        make_shard_settings(config, spec.fingerprint, spec.vocab_size),
        ShardSource.of(output, shards),
        shards.inputs["plan"].sha256,
        shards.config.by == "lang",
        shards.config.partitioning,
        by.only(config.partition_keys or by.keys) if (by := shards.config.partitioning) is not None else None,
        choose_num_parts(shards.totals.tokens, shards.config.target_tokens),
        result_key,
    )


def make_pack_job(
    config: PackedConfig,
    attempts: Attempts,
    output: str,
    packed_from: ShardsManifest | MixtureManifest,
    append: tuple[str, ...],
    spec: TokenizerSpec,
    result_key: str,
) -> PackJob:
    """What the workers of the pack stage need. output: of the build. append: encode.append. spec: of its tokenizer.

    Raises ConfigError if the tokenizer has no token that could fill rows.
    """
    settings = make_shard_settings(config, spec.fingerprint, spec.vocab_size)
    padding = find_padding_id(spec, config, append)
    return PackJob(attempts, config, settings, ShardSource.of(output, packed_from), padding, result_key)


def find_padding_id(spec: TokenizerSpec, config: PackedConfig, append: tuple[str, ...]) -> int:
    """The id that fills rows. Raises ConfigError if the tokenizer has no token for that."""
    ids = {token.text: token.id for token in spec.special}
    try:
        id = ids[find_padding({token.text: token.role for token in spec.special}, config.padding, append)]
    except ConfigError as error:
        raise ConfigError(f"pack.padding {error}") from error
    assert id is not None, "a finished tokenizer has an id for each"
    return id


def make_special_tokens(config: BuildConfig) -> list[SpecialToken]:
    """The special tokens that the build file declares, pinned ones with their ids; of an extended tokenizer its own."""
    if config.extended is not None:
        return list(config.extended.special)
    return [SpecialToken(token.text, token.id, token.role) for token in config.special]


def find_special_ids(spec: TokenizerSpec, setting: str, texts: Iterable[str]) -> tuple[int, ...]:
    """The ids of the special tokens of a setting of [encode]. Raises ConfigError for one that the tokenizer lacks."""
    ids = {token.text: token.id for token in spec.special}
    found = []
    for text in texts:
        if (id := ids.get(text)) is None:
            raise ConfigError(
                f"encode.{setting}: {text!r} is not a special token of the tokenizer; "
                f"it has {', '.join(map(repr, ids)) or 'none'}. Write {setting} = [...] in [encode] with tokens that "
                f"it has, or {setting} = []"
            )
        found.append(id)
    return tuple(found)
