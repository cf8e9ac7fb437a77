"""What workers are told, made from a stage's manifest. A build and `verify --rebuild` tell them the same."""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.store.attempts import Attempts
from pipelines.work.count_item import CountJob
from pipelines.work.encode_job import EncodeJob
from pipelines.work.result_keys import hash_shards_settings
from schemas.shard_entries import make_shard_settings
from schemas.stage_manifests import CountsConfig, ShardsConfig
from tokcore.errors import ConfigError
from tokcore.masking import check_mask
from tokcore.tokenizer_spec import TokenizerSpec

# What worker processes import at once, while the driver imports Beam.
WORKER_MODULES = ("pipelines.work.count_item", "pipelines.work.encode_item", "pipelines.work.gather_part")


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
        seed=config.seed or 0,  # without a validation split it chooses nothing
        num_partitions=num_partitions,
        unknown=spec.model.unknown,
        settings_sha256=hash_shards_settings(config, spec.fingerprint),
        shuffle=config.shuffle,
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
