"""Shards made again, as `verify --rebuild` and `repair` want them: from inputs, or rows from shards. No Beam."""

from __future__ import annotations

from pipelines.store.attempts import Attempts
from pipelines.work.encode_item import encode_item
from pipelines.work.encode_job import EncodeJob
from pipelines.work.gather_part import gather_again
from pipelines.work.make_jobs import make_pack_job
from pipelines.work.pack_group import pack_group
from pipelines.work.result_keys import make_shuffled_key, make_table_key
from schemas.pack_groups import list_groups
from schemas.plan import Plan
from schemas.refs import ShardRef
from schemas.shard_entries import list_named_shards
from schemas.shuffle import choose_num_parts
from schemas.stage_manifests import PackedManifest, ShardsManifest
from tokcore.tokenizer_spec import TokenizerSpec


def make_shards_again(job: EncodeJob, plan: Plan, number: int, num_tokens: int) -> tuple[ShardRef, ...]:
    """The shards of a work item, or of a part of a shuffle, for which all inputs are read.

    num_tokens: of the whole build. Raises StageError naming an input that changed.
    """
    if job.shuffle is None:
        return encode_item(job, plan.assignment(plan.items[number])).shards
    num_parts = choose_num_parts(num_tokens, job.target_tokens)
    return gather_again(job, plan, number, num_parts, make_shuffled_key(job.settings_sha256, plan)).shards


def pack_again(
    output: str, shards: ShardsManifest, made: PackedManifest, spec: TokenizerSpec, attempts: Attempts, number: int
) -> tuple[ShardRef, ...]:
    """The shards of a group of packed rows. output: of the build, whose shards are read. made: of the rows."""
    job = make_pack_job(made.config, attempts, output, shards, spec, make_table_key(made.identity))
    return pack_group(job, list_groups(list_named_shards(shards), made.config)[number]).shards
