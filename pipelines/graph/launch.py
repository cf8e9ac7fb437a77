"""The Beam side of a build: count or encode the work items of a plan, on the runner that the options name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import apache_beam as beam

from pipelines.graph.count_graph import CountItems
from pipelines.graph.encode_graph import EncodeItems, GatherParts, MergeDigestsAndCounts, ScatterItems
from pipelines.graph.pack_graph import PackGroups
from pipelines.graph.runner import StageOnBeam, open_pipeline
from pipelines.graph.spread_items import Spread, SpreadItems
from pipelines.local.pool import OnProgress, Workers
from pipelines.local.run_options import RunOptions
from pipelines.work.count_item import CountJob
from pipelines.work.encode_job import EncodeJob
from pipelines.work.pack_group import PackJob
from pipelines.work.plan_parts import write_plan_parts
from pipelines.work.token_count_runs import count_groups
from schemas.plan import Plan
from schemas.refs import PackGroup, ShufflePart

Say = Callable[[str], None]


def _say_nothing(_text: str) -> None:
    pass


def count_items(
    options: RunOptions, plan: Plan, job: CountJob, workers: Workers, on_progress: OnProgress, say: Say = _say_nothing
) -> dict[str, int]:
    """Run the count stage; give what Beam measured. say: is told of jobs of an engine.

    Raises a TokError of a worker as it is, StageError for any other failure.
    """
    parts = write_plan_parts(job.attempts, plan)
    run = StageOnBeam("count", job.attempts, len(plan.items), options, workers, on_progress, say)
    with open_pipeline(run) as (pipeline, pool_key):
        add_count_graph(pipeline, parts, job, pool_key)
    return run.metrics


def encode_items(
    options: RunOptions, plan: Plan, job: EncodeJob, workers: Workers, on_progress: OnProgress, say: Say = _say_nothing
) -> dict[str, int]:
    """Run the encode stage; as count_items."""
    parts = write_plan_parts(job.attempts, plan)
    run = StageOnBeam("encode", job.attempts, len(plan.items), options, workers, on_progress, say)
    with open_pipeline(run) as (pipeline, pool_key):
        add_encode_graph(pipeline, parts, len(plan.items), job, pool_key)
    return run.metrics


def scatter_items(
    options: RunOptions,
    plan: Plan,
    job: EncodeJob,
    num_buckets: int,
    workers: Workers,
    on_progress: OnProgress,
    say: Say = _say_nothing,
) -> dict[str, int]:
    """Run the first pass of a shuffle; as count_items."""
    parts = write_plan_parts(job.attempts, plan)
    run = StageOnBeam("scatter", job.attempts, len(plan.items), options, workers, on_progress, say)
    with open_pipeline(run) as (pipeline, pool_key):
        items = pipeline | "SpreadItems" >> SpreadItems(job.attempts, parts)
        _ = items | "ScatterItems" >> ScatterItems(job, num_buckets, pool_key)
    return run.metrics


def gather_parts(
    options: RunOptions, parts: Sequence[ShufflePart], job: EncodeJob, workers: Workers, say: Say = _say_nothing
) -> None:
    """Run the second pass of a shuffle. Raises as count_items does."""
    run = StageOnBeam("gather", job.attempts, len(parts), options, workers, None, say)
    with open_pipeline(run) as (pipeline, pool_key):
        numbered = beam.Create([(part.number, part) for part in parts], reshuffle=False)
        _ = (
            pipeline
            | "Parts" >> numbered.with_output_types(tuple[int, ShufflePart])
            | "SpreadParts" >> Spread(ShufflePart)
            | "GatherParts" >> GatherParts(job, pool_key)
            | "MergeDigestsAndCounts" >> MergeDigestsAndCounts(job.attempts, pool_key, count_groups(len(parts)))
        )


def pack_groups(
    options: RunOptions, groups: Sequence[PackGroup], job: PackJob, workers: Workers, say: Say = _say_nothing
) -> None:
    """Run the pack stage. Raises as count_items does."""
    run = StageOnBeam("pack", job.attempts, len(groups), options, workers, None, say)
    with open_pipeline(run) as (pipeline, pool_key):
        numbered = beam.Create([(group.number, group) for group in groups], reshuffle=False)
        _ = (
            pipeline
            | "Groups" >> numbered.with_output_types(tuple[int, PackGroup])
            | "SpreadGroups" >> Spread(PackGroup)
            | "PackGroups" >> PackGroups(job, pool_key)
        )


def add_count_graph(pipeline: beam.Pipeline, parts: list[str], job: CountJob, pool_key: str | None) -> None:
    """Add the count stage over the work items of these parts of a plan."""
    items = pipeline | "SpreadItems" >> SpreadItems(job.attempts, parts)
    _ = items | "CountItems" >> CountItems(job, pool_key)


def add_encode_graph(
    pipeline: beam.Pipeline, parts: list[str], num_items: int, job: EncodeJob, pool_key: str | None
) -> None:
    """Add the encode stage over the work items of these parts of a plan."""
    items = pipeline | "SpreadItems" >> SpreadItems(job.attempts, parts)
    encoded = items | "EncodeItems" >> EncodeItems(job, pool_key)
    _ = encoded | "MergeDigestsAndCounts" >> MergeDigestsAndCounts(job.attempts, pool_key, count_groups(num_items))
