"""The jobs of stages that make shards out of shards, as their manifests have them. No Beam."""

from __future__ import annotations

from typing import Any

from pipelines.stages.mix_corpus import read_decision, tell_decision
from pipelines.store.attempts import Attempts
from pipelines.work.make_again import mix_again, pack_again
from pipelines.work.make_jobs import make_mix_job, make_pack_job
from pipelines.work.mix_part import MixJob
from pipelines.work.pack_group import PackJob
from pipelines.work.result_keys import make_table_key
from schemas.refs import ShardRef
from schemas.stage_manifests import MixtureManifest, PackedManifest, ShardsManifest
from tokcore.tokenizer_spec import TokenizerSpec

DERIVED = ("mixed", "packed")  # stages that make shards out of shards


def make_mix_job_again(
    output: str, shards: ShardsManifest, made: MixtureManifest, spec: TokenizerSpec, attempts: Attempts
) -> MixJob:
    """The job that made a mixture; of the second pass, as its manifest says what was decided."""
    job = make_mix_job(made.config, attempts, output, shards, spec, make_table_key(made.identity))
    return tell_decision(job, read_decision(made))


def make_pack_job_again(
    output: str,
    shards: ShardsManifest,
    mixed: MixtureManifest | None,
    made: PackedManifest,
    spec: TokenizerSpec,
    attempts: Attempts,
) -> PackJob:
    """The job that made packed rows. mixed: of the build, if it has a mixture."""
    append, key = shards.config.append, make_table_key(made.identity)
    return make_pack_job(made.config, attempts, output, mixed or shards, append, spec, key)


def derive_again(
    output: str,
    shards: ShardsManifest,
    mixed: MixtureManifest | None,
    made: Any,
    spec: TokenizerSpec,
    attempts: Attempts,
    number: int,
) -> tuple[ShardRef, ...]:
    """The shards of a part of a mixture, or of a group of packed rows. made: the manifest of these shards."""
    if made.stage == "mixed":
        return mix_again(make_mix_job_again(output, shards, made, spec, attempts), number)
    job = make_pack_job_again(output, shards, mixed, made, spec, attempts)
    return pack_again(job, made.config, number)
