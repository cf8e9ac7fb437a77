"""The end of a build: one manifest that names those of its stages, and the root."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from tokcore.files.canonical_json import hash_sha256
from tokcore_pipelines.build.commit import find_manifests, name_claim, require_manifest
from tokcore_pipelines.build.dataset_card import CARD, make_room_for_card, write_dataset_card
from tokcore_pipelines.build.identities import is_of_this_release
from tokcore_pipelines.build.replace_stages import REPLACED, is_sign_of_work
from tokcore_pipelines.build.stage import BuildRun, Made, StageKey, list_plain_files, run_stage, write_file
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.run.slices.presence import SIGNS
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER, Attempts, name_folder
from tokcore_pipelines.store.crashpoints import reach
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.refs import StoredFile
from tokcore_schemas.stage_manifests import (
    BuildManifest,
    BuildTotals,
    BuiltLanguage,
    CountsManifest,
    EncodedLanguage,
    ImportedConfig,
    MixedLanguage,
    Nothing,
    ShardsManifest,
    ShardsTotals,
    StageConfigs,
    TokenizerManifest,
)
from tokcore_schemas.stage_table import BUILD, COUNTS, SHARDS, STAGES, TOKENIZER, WHOLE


def commit_build(run: BuildRun) -> BuildManifest:
    """Commit the build. Raises ConfigError if a stage is not there yet."""
    stages = find_manifests(run.output, STAGES.values())
    configs = run.config.stage_configs()
    for stage in reversed(STAGES.values()):  # the last that is missing makes the others
        if stage.is_in(configs) and stage.name not in stages:
            require_manifest(run.output, stage)
    shards = cast(ShardsManifest, stages[SHARDS.name])
    tokenizer = cast(TokenizerManifest, stages[TOKENIZER.name])
    counts = cast("CountsManifest | None", stages.get(COUNTS.name))
    key = StageKey(BUILD, configs, {name: made.as_input() for name, made in stages.items()})

    def make(attempts: Attempts) -> Made[BuildTotals, BuiltLanguage, Nothing]:
        run.take_turn(attempts)
        card = write_dataset_card(shards, tokenizer)
        make_room_for_card(run.output, card)
        files = [(write_file(attempts, CARD, card), Nothing())]
        return Made(files, sum_up_build(shards, tokenizer), sum_up_languages(shards, tokenizer, counts))

    manifest = run_stage(run, key, make)
    reach("build.committed")
    with run.progress.stage("clean", minor=True):
        _remove_working_folders(run.output, {**stages, BUILD: manifest})
    return manifest


def recount_build(stored: Stored) -> tuple[StageConfigs, Made[BuildTotals, BuiltLanguage, Nothing]]:
    """What the manifest of a build has to say, as that follows from those of its stages."""
    build, shards, tokenizer = stored.get(WHOLE), stored.get(SHARDS), stored.get(TOKENIZER)
    configs: dict[str, Any] = {
        field.name: stored.stages[field.name].config if field.name in stored.stages else None
        for field in dataclasses.fields(StageConfigs)
    }
    if isinstance(tokenizer.config, ImportedConfig):
        configs[TOKENIZER.name] = ImportedConfig()
    card = write_dataset_card(shards, tokenizer)
    file = StoredFile(CARD, "", len(card), hash_sha256(card), hash_sha256(card))
    if not is_of_this_release(build) and [entry.path for entry in build.files] == [CARD]:
        ((file, _),) = list_plain_files(build)  # another release may have found other words for it
    languages = sum_up_languages(shards, tokenizer, stored.find(COUNTS))
    return StageConfigs(**configs), Made([(file, Nothing())], sum_up_build(shards, tokenizer), languages)


def sum_up_build(shards: ShardsManifest, tokenizer: TokenizerManifest) -> BuildTotals:
    """The build's totals as they follow from those of its stages."""
    return BuildTotals(**_pick_fields(shards.totals), vocab_size=tokenizer.totals.vocab_size)


def sum_up_languages(
    shards: ShardsManifest, tokenizer: TokenizerManifest, counts: CountsManifest | None
) -> dict[str, BuiltLanguage]:
    """What the build says of each language, as it follows from what its stages say."""
    languages = {}
    for lang, encoded in shards.languages.items():
        mixed = tokenizer.languages.get(lang)
        counted = counts.languages.get(lang) if counts is not None else None
        languages[lang] = BuiltLanguage(
            **_pick_fields(encoded),
            **(_pick_fields(mixed) if mixed is not None else {}),
            masked=counted.masked if counted is not None else None,
            masked_bytes=counted.masked_bytes if counted is not None else None,
        )
    return languages


def _pick_fields(of: ShardsTotals | EncodedLanguage | MixedLanguage) -> dict[str, Any]:
    return {field.name: getattr(of, field.name) for field in dataclasses.fields(of)}


def _remove_working_folders(output: str, stages: Mapping[str, AnyManifest]) -> None:
    """Remove the working files of this build, by one listing, and the signs of all builds that were at work."""
    folder = urls.join(output, FOLDER)
    there = storage.list_tree(folder)
    own = tuple(f"{name_folder(name, made.identity)}/" for name, made in stages.items())
    claims = {name_claim(name) for name in stages}
    storage.remove_files(folder, [path for path in there if path.startswith(own)])
    reach("build.cleaning")
    storage.remove_files(folder, [path for path in there if path in claims])
    others = (f"{SIGNS}/", f"{REPLACED}/")
    storage.remove_files(folder, [path for path in there if is_sign_of_work(path) or path.startswith(others)])
    storage.remove_empty_folders(folder)
