"""Shards made again, as `verify --rebuild` and `repair` want them: from inputs, or rows from shards. No Beam."""

from __future__ import annotations

from pipelines.work.derived_shards import read_named_shards
from pipelines.work.encode_item import encode_item
from pipelines.work.encode_job import EncodeJob
from pipelines.work.gather_part import gather_again
from pipelines.work.mix_part import MixJob, mix_part
from pipelines.work.pack_group import PackJob, pack_group
from pipelines.work.result_keys import make_shuffled_key
from schemas.pack_groups import list_groups
from schemas.plan import Plan
from schemas.refs import MixPart, ShardRef
from schemas.shuffle import choose_num_parts
from schemas.stage_manifests import PackedConfig


def make_shards_again(job: EncodeJob, plan: Plan, number: int, num_tokens: int) -> tuple[ShardRef, ...]:
    """The shards of a work item, or of a part of a shuffle, for which all inputs are read.

    num_tokens: of the whole build. Raises StageError naming an input that changed.
    """
    if job.shuffle is None:
        return encode_item(job, plan.assignment(plan.items[number])).shards
    num_parts = choose_num_parts(num_tokens, job.target_tokens)
    return gather_again(job, plan, number, num_parts, make_shuffled_key(job.settings_sha256, plan)).shards


def pack_again(job: PackJob, config: PackedConfig, number: int) -> tuple[ShardRef, ...]:
    """The shards of a group of packed rows."""
    return pack_group(job, list_groups(read_named_shards(job), config)[number]).shards


def mix_again(job: MixJob, number: int) -> tuple[ShardRef, ...]:
    """The shards of a part of a mixture. job: of the second pass."""
    return mix_part(job, MixPart(number)).shards
