"""What workers are told, made from a stage's manifest. A build and `verify --rebuild` tell them the same."""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.store.attempts import Attempts
from pipelines.work.count_item import CountJob
from pipelines.work.encode_job import EncodeJob
from pipelines.work.pack_group import PackJob, make_pack_settings
from pipelines.work.result_keys import hash_shards_settings
from schemas.draws import make_randomness
from schemas.shard_entries import make_shard_settings
from schemas.stage_manifests import CountsConfig, PackedConfig, ShardsConfig, ShardsManifest
from tokcore.errors import ConfigError
from tokcore.formats.shard_format import ShardSettings
from tokcore.masking import check_mask
from tokcore.tokenizer_spec import TokenizerSpec

# What worker processes import at once, while the driver imports Beam.
WORKER_MODULES = (
    "pipelines.work.count_item",
    "pipelines.work.encode_item",
    "pipelines.work.gather_part",
    "pipelines.work.pack_group",
)


def make_count_job(
    config: CountsConfig, attempts: Attempts, base: str, num_partitions: int, memory_bytes: int
) -> CountJob:
    """What the workers of the count stage need. base: folder of the build file. memory_bytes: limit of each worker."""
    return CountJob(
        attempts=attempts,
        base=base,
        pattern=config.pretokenize,
        normalize=config.normalize,
        max_pretoken_bytes=config.max_pretoken_bytes,
        memory_bytes=memory_bytes,
        sample=config.sample,
        seed=config.seed or 0,  # where nothing is sampled it chooses nothing
        num_partitions=num_partitions,
        mask=check_mask(config.mask),
    )


def make_encode_job(
    config: ShardsConfig,
    attempts: Attempts,
    base: str,
    num_partitions: int,
    tokenizer_url: str,
    tokenizer_sha256: str,
    spec: TokenizerSpec,
) -> EncodeJob:
    """What the workers of the encode stage need. tokenizer_url, tokenizer_sha256: of the tokcore.json of spec.

    Raises ConfigError if the tokenizer lacks a special token that documents are to begin or end with.
    """
    return EncodeJob(
        attempts=attempts,
        base=base,
        tokenizer=tokenizer_url,
        tokenizer_sha256=tokenizer_sha256,
        settings=make_shard_settings(config, spec.fingerprint, spec.vocab_size),
        prepend=find_special_ids(spec, "prepend", config.prepend),
        append=find_special_ids(spec, "append", config.append),
        special_text=config.special_text,
        formats=config.formats,
        target_tokens=config.target_tokens,
        by_lang=config.by == "lang",
        validation=config.validation,
        seed=config.seed or 0,  # without a validation split, and if nothing is drawn, it chooses nothing
        num_partitions=num_partitions,
        unknown=spec.model.unknown,
        settings_sha256=hash_shards_settings(config, spec.fingerprint),
        shuffle=config.shuffle,
        randomness=make_randomness(config),
        epoch=config.epoch or 0,
    )


def make_pack_job(
    config: PackedConfig, attempts: Attempts, output: str, shards: ShardsManifest, spec: TokenizerSpec, result_key: str
) -> PackJob:
    """What the workers of the pack stage need. output: of the build. spec: of its tokenizer.

    Raises ConfigError if the tokenizer has no token that could fill rows.
    """
    settings = ShardSettings(spec.fingerprint, spec.vocab_size, config.compression, config.dtype or "int32")
    return PackJob(
        attempts=attempts,
        output=output,
        shards_sha256=shards.as_input().sha256,
        settings=settings,
        formats=config.formats,
        target_tokens=config.target_tokens,
        rows=make_pack_settings(config, find_padding_id(spec, config, shards.config.append)),
        result_key=result_key,
    )


def find_padding_id(spec: TokenizerSpec, config: PackedConfig, append: tuple[str, ...]) -> int:
    """The id that fills rows: of pack.padding, else of the token of role padding, else of the last appended one."""
    named = config.padding or next(iter(spec.texts_of("padding")), "") or next(reversed(append), "")
    found = next((token.id for token in spec.special if token.text == named and token.id is not None), None)
    if found is not None:
        return found
    there = ", ".join(repr(token.text) for token in spec.special) or "none"
    if config.padding:
        raise ConfigError(f"pack.padding = {named!r}: is not a special token of the tokenizer; it has {there}")
    raise ConfigError(
        f"pack.padding: is missing: the tokenizer has no special token of role padding, and encode.append is empty. "
        f"Name one of its special tokens: it has {there}"
    )


def find_special_ids(spec: TokenizerSpec, setting: str, texts: Iterable[str]) -> tuple[int, ...]:
    """The ids of the special tokens of a setting of [encode]. Raises ConfigError for one that the tokenizer lacks."""
    ids = {token.text: token.id for token in spec.special}
    found = []
    for text in texts:
        if (id := ids.get(text)) is None:
            raise ConfigError(
                f"encode.{setting}: {text!r} is not a special token of the tokenizer; "
                f"it has {', '.join(map(repr, ids)) or 'none'}"
            )
        found.append(id)
    return tuple(found)
