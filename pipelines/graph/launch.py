"""The Beam side of a build: count or encode the work items of a plan, on the runner that the options name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import apache_beam as beam

from pipelines.graph.count_graph import CountItems
from pipelines.graph.encode_graph import EncodeItems, GatherParts, ScatterItems
from pipelines.graph.runner import open_pipeline
from pipelines.local.pool import OnProgress, Workers
from pipelines.local.run_options import RunOptions
from pipelines.work.count_item import CountJob
from pipelines.work.encode_job import EncodeJob
from schemas.plan import Assignment, Plan
from schemas.refs import ShufflePart


def count_items(options: RunOptions, plan: Plan, job: CountJob, workers: Workers, on_progress: OnProgress) -> None:
    """Run the count stage. Raises a TokError of a worker as it is, StageError for any other failure."""
    with open_pipeline(options, "count", workers, on_progress) as (pipeline, pool_key):
        _ = _spread_assignments(pipeline, plan) | "CountItems" >> CountItems(job, pool_key)


def encode_items(options: RunOptions, plan: Plan, job: EncodeJob, workers: Workers, on_progress: OnProgress) -> None:
    """Run the encode stage. Raises a TokError of a worker as it is, StageError for any other failure."""
    with open_pipeline(options, "encode", workers, on_progress) as (pipeline, pool_key):
        _ = _spread_assignments(pipeline, plan) | "EncodeItems" >> EncodeItems(job, pool_key)


def scatter_items(
    options: RunOptions, plan: Plan, job: EncodeJob, num_buckets: int, workers: Workers, on_progress: OnProgress
) -> None:
    """Run the first pass of a shuffle. Raises as encode_items does."""
    with open_pipeline(options, "encode", workers, on_progress) as (pipeline, pool_key):
        _ = _spread_assignments(pipeline, plan) | "ScatterItems" >> ScatterItems(job, num_buckets, pool_key)


def gather_parts(options: RunOptions, parts: Sequence[ShufflePart], job: EncodeJob, workers: Workers) -> None:
    """Run the second pass of a shuffle. Raises as encode_items does."""
    with open_pipeline(options, "encode", workers) as (pipeline, pool_key):
        _ = (
            pipeline
            | "Parts"
            >> beam.Create([(part.number, part) for part in parts], reshuffle=False).with_output_types(
                tuple[int, ShufflePart]
            )
            | "SpreadParts" >> beam.GroupByKey()
            | "PartByPart" >> beam.FlatMap(_drop_number).with_output_types(ShufflePart)
            | "GatherParts" >> GatherParts(job, pool_key)
        )


def _spread_assignments(pipeline: beam.Pipeline, plan: Plan) -> Any:
    # Large items first, so that only small ones are left at the end, and no core waits for a straggler.
    items = sorted(plan.items, key=lambda item: -item.size_bytes)
    return (
        pipeline
        | "Plan"
        >> beam.Create([(item.number, plan.assignment(item)) for item in items], reshuffle=False).with_output_types(
            tuple[int, Assignment]
        )
        # Reshuffle would do the same, but Beam does not know the type of its elements and would pickle them.
        | "Spread" >> beam.GroupByKey()
        | "OneByOne" >> beam.FlatMap(_drop_number).with_output_types(Assignment)
    )


def _drop_number(group: tuple[int, Iterable[Any]]) -> Iterable[Any]:
    return group[1]
