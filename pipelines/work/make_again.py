"""Shards made again from the inputs alone, as `verify --rebuild` and `repair` want them. No Beam."""

from __future__ import annotations

from pipelines.work.encode_item import encode_item
from pipelines.work.encode_job import EncodeJob
from pipelines.work.gather_part import gather_again
from pipelines.work.result_keys import make_shuffled_key
from schemas.plan import Plan
from schemas.refs import ShardRef
from schemas.shuffle import choose_num_parts


def make_shards_again(job: EncodeJob, plan: Plan, number: int, num_tokens: int) -> tuple[ShardRef, ...]:
    """The shards of a work item, or of a part of a shuffle, for which all inputs are read.

    num_tokens: of the whole build. Raises StageError naming an input that changed.
    """
    if job.shuffle is None:
        return encode_item(job, plan.assignment(plan.items[number])).shards
    num_parts = choose_num_parts(num_tokens, job.target_tokens)
    return gather_again(job, plan, number, num_parts, make_shuffled_key(job.settings_sha256, plan)).shards
