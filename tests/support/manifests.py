"""A manifest of each stage, with every field that it can have; their values are made up."""

from __future__ import annotations

import dataclasses

from tokcore.formats.shard_facts import ShardFacts
from tokcore_schemas import stage_manifests as stages
from tokcore_schemas.manifest import AnyManifest, FileEntry, Input, Manifest
from tokcore_schemas.plan import ReadSettings

SETTINGS = ReadSettings("jsonl", "zst", "text", "id", "", "language", "reject", 1000, "", "", ("<|endoftext|>",))
TOTALS = stages.LedgerTotals(
    stages.RecordTotals(5, 4, {"bad_json": 1}), stages.FileTotals(2, {"truncated": 1}, 90, 40), 700
)
SHARDS_TOTALS = stages.ShardsTotals(
    *(TOTALS.records, TOTALS.files, TOTALS.text_bytes), 1, 100, "d" * 64, "f" * 64, {"<|endoftext|>": 3}
)
COUNTS_CONFIG = stages.CountsConfig(1024, "0.5", ("nfc",), {"name": "cl100k"}, 7, ("email",))
SHARDS_CONFIG = stages.ShardsConfig(
    ("arrow", "megatron"), 2000, "lang", "0.1", "zstd", ("<|endoftext|>",), "ordinary", 7
)
LEARNED_CONFIG = stages.LearnedConfig(
    "bpe",
    400,
    ("nfc",),
    {"name": "cl100k"},
    (stages.SpecialConfig("<|endoftext|>", "document_end", None), stages.SpecialConfig("<|pad|>", "padding", 500)),
    stages.UnimaxMix("unimax", "bytes", "4", None),
    allow_smaller=True,
    min_count=2,
    min_documents=2,
    max_token_bytes=16,
)
MIX: dict[str, str | int | dict[str, int]] = {"strategy": "natural", "scale_bits": 3, "weights": {"en": 8}}
SHARE = ("0.25", "0.5")
MIXTURE_SHARE = stages.MixtureShare(4, 50, 6, 70, 1, 3, "1.000000", "1.4000", "1.000000", 71, 1, "4000000000000000")


def entry(path: str, about: object) -> FileEntry[object]:
    """A file's entry, with hashes of its name."""
    return FileEntry(path, 10, f"{len(path):x}" * 32, "5" * 64, about)


def manifest(
    stage: str, config: object, totals: object, languages: dict[str, object], *files: FileEntry[object]
) -> AnyManifest:
    """A manifest of a made-up identity, made from a made-up plan."""
    return Manifest(stage, "1" * 64, config, {"plan": Input("2" * 64, "3" * 64)}, files, totals, languages)


MANIFESTS: dict[str, AnyManifest] = {
    "plan": manifest(
        "plan",
        stages.PlanConfig(4000, (SETTINGS,), "hash"),
        stages.PlanTotals(2, 90, 1, 1, ("b.jsonl",)),
        {},
        entry("files.jsonl", stages.Nothing()),
    ),
    "dedup": manifest(
        "dedup",
        stages.DedupConfig("text", ("nfc",), ("split:validation",), "0.1", 7),
        stages.DedupTotals(6, 2),
        {},
        entry("item-00000-0a1b2c3d4e5f.jsonl", stages.DropsAbout(0, 2, "0a1b2c3d4e5f")),
    ),
    "rejected": manifest("rejected", stages.RejectedConfig("reject"), TOTALS, {}),
    "counts": manifest(
        "counts",
        COUNTS_CONFIG,
        TOTALS,
        {"en": stages.CountedLanguage(4, 700, 2, 350, 60, 30, 5, {"email": 1})},
        entry("en.parquet", stages.TableAbout("en", 30, 60, 200)),
    ),
    "tokenizers": manifest(
        "tokenizers",
        dataclasses.replace(LEARNED_CONFIG, vocab_size=(400, 501)),
        stages.TokenizersTotals({"501": stages.TokenizerTotals("f" * 64, 501, MIX, merges=143)}),
        {"en": stages.MixedLanguage(8, SHARE, SHARE, SHARE)},
        entry(f"{'f' * 64}/tokcore.json", stages.TokenizerFile()),
    ),
    "tokenizer": manifest(
        "tokenizer",
        LEARNED_CONFIG,
        stages.TokenizerTotals("f" * 64, 501, MIX, merges=143),
        {"en": stages.MixedLanguage(8, SHARE, SHARE, SHARE)},
        entry("tokcore.json", stages.TokenizerFile()),
    ),
    "imported tokenizer": manifest(
        "tokenizer",
        stages.ImportedConfig(fingerprint="f" * 64),
        stages.TokenizerTotals("f" * 64, 501, {}, lossless=False),
        {},
    ),
    "shards": manifest(
        "shards",
        SHARDS_CONFIG,
        SHARDS_TOTALS,
        {"en": stages.EncodedLanguage(4, 700, 60, 100, "7.0000")},
        entry("arrow/en/train-00000-00000.arrow", ShardFacts("train-00000-00000", 0, "en", "train", 4, 100, 399)),
        entry("token_counts.parquet", stages.CorpusAbout(4, 100)),
    ),
    "mixed": manifest(
        "mixed",
        stages.MixtureConfig(
            "weights", "sources", ("mds",), 2000, "zstd", "0.5", {"web": "0.25"}, 900, "2.5", "uint16"
        ),
        stages.MixtureTotals(1, 6, 8, 1, 3, 90, 2, 20, 4, 16, "f" * 64, {"web": MIXTURE_SHARE}),
        {"en": stages.MixtureShare(4, 50, 6, 70, 1, 3, "1.000000", "1.4000")},
        entry("mds/train/train-00000-00000.mds", ShardFacts("train-00000-00000", 0, "", "train", 6, 70, 99)),
    ),
    "packed": manifest(
        "packed",
        stages.PackedConfig(64, "best-fit", "never", "keep", ("mds",), 2000, "zstd", "<|pad|>", "uint16"),
        stages.PackedTotals(1, 2, 4, 5, 1, 100, 28, "f" * 64),
        {},
        entry("mds/train/train-00000-00000.mds", ShardFacts("train-00000-00000", 0, "", "train", 2, 128, 99)),
    ),
    "build": manifest(
        "build",
        stages.StageConfigs(LEARNED_CONFIG, SHARDS_CONFIG, COUNTS_CONFIG),
        stages.BuildTotals(
            *(TOTALS.records, TOTALS.files, TOTALS.text_bytes), 1, 100, "d" * 64, "f" * 64, {"<|endoftext|>": 3}, 501
        ),
        {"en": stages.BuiltLanguage(4, 700, 60, 100, "7.0000", 2, 8, SHARE, SHARE, SHARE, 5, {"email": 1})},
    ),
}
