"""The Beam side of a build: its steps, on the runner that the options name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import apache_beam as beam

from pipelines.graph.count_graph import CountItems
from pipelines.graph.encode_graph import AddUpTokenCounts, EncodeItems, GatherParts, ScatterItems
from pipelines.graph.learn_graph import LearnTokenizers
from pipelines.graph.local_pool import SharedPool
from pipelines.graph.mix_graph import MeasureParts, MixParts
from pipelines.graph.pack_graph import PackGroups
from pipelines.graph.recorded import Pieces
from pipelines.graph.runner import open_pipeline
from pipelines.graph.spread_items import SpreadItems, SpreadPieces
from pipelines.graph.stage_on_beam import StageOnBeam
from pipelines.local.pool import OnProgress, Workers
from pipelines.local.run_options import RunOptions
from pipelines.store.attempts import Attempts
from pipelines.work.count_item import CountJob, make_item_key
from pipelines.work.encode_job import EncodeJob
from pipelines.work.gather_part import make_part_key
from pipelines.work.learn_on_worker import LEARNED_KEY, LearnJob
from pipelines.work.mix_part import MixJob, make_measured_key, make_mixed_key
from pipelines.work.pack_group import PackJob, make_group_key
from pipelines.work.plan_parts import write_pieces, write_plan_parts
from pipelines.work.scatter_item import make_scatter_key
from pipelines.work.token_count_runs import count_groups
from schemas.plan import Plan
from schemas.refs import MixPart, PackGroup, ShufflePart

Say = Callable[[str], None]


def _say_nothing(_text: str) -> None:
    pass


def count_items(
    options: RunOptions, plan: Plan, job: CountJob, workers: Workers, on_progress: OnProgress, say: Say = _say_nothing
) -> dict[str, int]:
    """Run the count stage; give what Beam measured. say: is told of jobs of an engine, and of warnings.

    Raises a TokError of a worker as it is, StageError for any other failure.
    """
    parts = write_plan_parts(job.attempts, plan)
    pieces = _name_pieces(plan, make_item_key)
    run = StageOnBeam("count", job.attempts, pieces, options, workers, on_progress, say)
    with open_pipeline(run) as (pipeline, pool):
        add_count_graph(pipeline, parts, job, pool)
    return run.metrics


def encode_items(
    options: RunOptions, plan: Plan, job: EncodeJob, workers: Workers, on_progress: OnProgress, say: Say = _say_nothing
) -> dict[str, int]:
    """Run the encode stage; as count_items."""
    parts = write_plan_parts(job.attempts, plan)
    pieces = _name_pieces(plan, make_item_key)
    run = StageOnBeam("encode", job.attempts, pieces, options, workers, on_progress, say)
    with open_pipeline(run) as (pipeline, pool):
        add_encode_graph(pipeline, parts, len(plan.items), job, pool)
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
    pieces = _name_pieces(plan, make_scatter_key)
    run = StageOnBeam("scatter", job.attempts, pieces, options, workers, on_progress, say)
    with open_pipeline(run) as (pipeline, pool):
        items = pipeline | "SpreadItems" >> SpreadItems(job.attempts, parts)
        _ = items | "ScatterItems" >> ScatterItems(job, num_buckets, pool)
    return run.metrics


def gather_parts(
    options: RunOptions, parts: Sequence[ShufflePart], job: EncodeJob, workers: Workers, say: Say = _say_nothing
) -> None:
    """Run the second pass of a shuffle. Raises as count_items does."""
    with _open_for(parts, make_part_key, "gather", job.attempts, options, workers, say) as (pipeline, names, pool):
        add_gather_graph(pipeline, names, len(parts), job, pool)


def pack_groups(
    options: RunOptions, groups: Sequence[PackGroup], job: PackJob, workers: Workers, say: Say = _say_nothing
) -> None:
    """Run the pack stage. Raises as count_items does."""
    with _open_for(groups, make_group_key, "pack", job.attempts, options, workers, say) as (pipeline, names, pool):
        add_pack_graph(pipeline, names, job, pool)


def learn_on_engine(options: RunOptions, job: LearnJob, workers: Workers, say: Say = _say_nothing) -> None:
    """Have one worker of an engine learn. Raises as count_items does, LearnError if the tables give no vocabulary."""
    run = StageOnBeam("learn", job.attempts, Pieces(1, lambda: {LEARNED_KEY: 0}), options, workers, None, say)
    with open_pipeline(run) as (pipeline, _):
        _ = pipeline | "LearnTokenizers" >> LearnTokenizers(job)


def measure_parts(
    options: RunOptions, parts: Sequence[MixPart], job: MixJob, workers: Workers, say: Say = _say_nothing
) -> None:
    """Run the first pass of the mixture stage. Raises as count_items does."""
    with _open_for(parts, make_measured_key, "measure", job.attempts, options, workers, say) as (pipeline, names, pool):
        spread = pipeline | "SpreadParts" >> SpreadPieces(job.attempts, names, MixPart)
        _ = spread | "MeasureParts" >> MeasureParts(job, pool)


def mix_parts(
    options: RunOptions, parts: Sequence[MixPart], job: MixJob, workers: Workers, say: Say = _say_nothing
) -> None:
    """Run the second pass of the mixture stage. Raises as count_items does."""
    with _open_for(parts, make_mixed_key, "mix", job.attempts, options, workers, say) as (pipeline, names, pool):
        spread = pipeline | "SpreadParts" >> SpreadPieces(job.attempts, names, MixPart)
        _ = spread | "MixParts" >> MixParts(job, pool)


@contextlib.contextmanager
def _open_for(
    members: Sequence[ShufflePart] | Sequence[PackGroup] | Sequence[MixPart],
    make_key: Callable[[int], str],
    step: str,
    attempts: Attempts,
    options: RunOptions,
    workers: Workers,
    say: Say,
) -> Iterator[tuple[beam.Pipeline, list[str], SharedPool | None]]:
    """A pipeline for pieces of work other than work items, and the names of the files that they lie in.

    make_key: the number of a piece -> the key of its record. step: as engines and records call the pass.
    """
    names = write_pieces(attempts, members)
    pieces = Pieces(len(members), lambda: {make_key(member.number): 0 for member in members})
    run = StageOnBeam(step, attempts, pieces, options, workers, None, say)
    with open_pipeline(run) as (pipeline, pool):
        yield pipeline, names, pool


def _name_pieces(plan: Plan, make_key: Callable[[int], str]) -> Pieces:
    return Pieces(len(plan.items), lambda: {make_key(item.number): item.size_bytes for item in plan.items})


def add_count_graph(pipeline: beam.Pipeline, parts: list[str], job: CountJob, pool: SharedPool | None) -> None:
    """Add the count stage over the work items of these parts of a plan."""
    items = pipeline | "SpreadItems" >> SpreadItems(job.attempts, parts)
    _ = items | "CountItems" >> CountItems(job, pool)


def add_encode_graph(
    pipeline: beam.Pipeline, parts: list[str], num_items: int, job: EncodeJob, pool: SharedPool | None
) -> None:
    """Add the encode stage over the work items of these parts of a plan."""
    items = pipeline | "SpreadItems" >> SpreadItems(job.attempts, parts)
    encoded = items | "EncodeItems" >> EncodeItems(job, pool)
    _ = encoded | "AddUpTokenCounts" >> AddUpTokenCounts(job.attempts, pool, count_groups(num_items))


def add_gather_graph(
    pipeline: beam.Pipeline, names: list[str], num_parts: int, job: EncodeJob, pool: SharedPool | None
) -> None:
    """Add the second pass of a shuffle, over the parts that lie in these files."""
    parts = pipeline | "SpreadParts" >> SpreadPieces(job.attempts, names, ShufflePart)
    gathered = parts | "GatherParts" >> GatherParts(job, pool)
    _ = gathered | "AddUpTokenCounts" >> AddUpTokenCounts(job.attempts, pool, count_groups(num_parts))


def add_pack_graph(pipeline: beam.Pipeline, names: list[str], job: PackJob, pool: SharedPool | None) -> None:
    """Add the pack stage, over the groups that lie in these files."""
    groups = pipeline | "SpreadGroups" >> SpreadPieces(job.attempts, names, PackGroup)
    _ = groups | "PackGroups" >> PackGroups(job, pool)
