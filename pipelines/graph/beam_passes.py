"""The passes of a build's stages as Beam pipelines, and what each consists of."""

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


class BeamPasses:
    """The passes of a build's stages, each a pipeline on the runner that the options name.

    pipelines.slices.sliced_passes has the same ones. Each raises a TokError of a worker as it is, StageError for any
    other failure.
    """

    def __init__(self, options: RunOptions, workers: Workers, say: Say = _say_nothing) -> None:
        """say: is told of jobs of an engine, and of warnings."""
        self._options = options
        self._workers = workers
        self._say = say

    def count_items(self, plan: Plan, job: CountJob, on_progress: OnProgress) -> dict[str, int]:
        """Run the count stage; give what Beam measured."""
        parts = write_plan_parts(job.attempts, plan)
        run = self._prepare("count", job.attempts, _name_pieces(plan, make_item_key), on_progress)
        with open_pipeline(run) as (pipeline, pool):
            add_count_graph(pipeline, parts, job, pool)
        return run.metrics

    def encode_items(self, plan: Plan, job: EncodeJob, on_progress: OnProgress) -> dict[str, int]:
        """Run the encode stage; give what Beam measured."""
        parts = write_plan_parts(job.attempts, plan)
        run = self._prepare("encode", job.attempts, _name_pieces(plan, make_item_key), on_progress)
        with open_pipeline(run) as (pipeline, pool):
            add_encode_graph(pipeline, parts, len(plan.items), job, pool)
        return run.metrics

    def scatter_items(self, plan: Plan, job: EncodeJob, num_buckets: int, on_progress: OnProgress) -> dict[str, int]:
        """Run the first pass of a shuffle; give what Beam measured."""
        parts = write_plan_parts(job.attempts, plan)
        run = self._prepare("scatter", job.attempts, _name_pieces(plan, make_scatter_key), on_progress)
        with open_pipeline(run) as (pipeline, pool):
            items = pipeline | "SpreadItems" >> SpreadItems(job.attempts, parts)
            _ = items | "ScatterItems" >> ScatterItems(job, num_buckets, pool)
        return run.metrics

    def gather_parts(self, parts: Sequence[ShufflePart], job: EncodeJob) -> None:
        """Run the second pass of a shuffle."""
        with self._open_for(parts, make_part_key, "gather", job.attempts) as (pipeline, names, pool):
            add_gather_graph(pipeline, names, len(parts), job, pool)

    def pack_groups(self, groups: Sequence[PackGroup], job: PackJob) -> None:
        """Run the pack stage."""
        with self._open_for(groups, make_group_key, "pack", job.attempts) as (pipeline, names, pool):
            add_pack_graph(pipeline, names, job, pool)

    def learn(self, job: LearnJob) -> None:
        """Have one worker of an engine learn. Raises LearnError if the tables give no vocabulary."""
        run = self._prepare("learn", job.attempts, Pieces(1, lambda: {LEARNED_KEY: 0}), None)
        with open_pipeline(run) as (pipeline, _):
            _ = pipeline | "LearnTokenizers" >> LearnTokenizers(job)

    def measure_parts(self, parts: Sequence[MixPart], job: MixJob) -> None:
        """Run the first pass of the mixture stage."""
        with self._open_for(parts, make_measured_key, "measure", job.attempts) as (pipeline, names, pool):
            spread = pipeline | "SpreadParts" >> SpreadPieces(job.attempts, names, MixPart)
            _ = spread | "MeasureParts" >> MeasureParts(job, pool)

    def mix_parts(self, parts: Sequence[MixPart], job: MixJob) -> None:
        """Run the second pass of the mixture stage."""
        with self._open_for(parts, make_mixed_key, "mix", job.attempts) as (pipeline, names, pool):
            spread = pipeline | "SpreadParts" >> SpreadPieces(job.attempts, names, MixPart)
            _ = spread | "MixParts" >> MixParts(job, pool)

    @contextlib.contextmanager
    def _open_for(
        self,
        members: Sequence[ShufflePart] | Sequence[PackGroup] | Sequence[MixPart],
        make_key: Callable[[int], str],
        step: str,
        attempts: Attempts,
    ) -> Iterator[tuple[beam.Pipeline, list[str], SharedPool | None]]:
        """A pipeline for pieces of work other than work items, and the names of the files that they lie in.

        make_key: the number of a piece -> the key of its record. step: as engines and records call the pass.
        """
        names = write_pieces(attempts, members)
        pieces = Pieces(len(members), lambda: {make_key(member.number): 0 for member in members})
        with open_pipeline(self._prepare(step, attempts, pieces, None)) as (pipeline, pool):
            yield pipeline, names, pool

    def _prepare(self, step: str, attempts: Attempts, pieces: Pieces, on_progress: OnProgress | None) -> StageOnBeam:
        return StageOnBeam(step, attempts, pieces, self._options, self._workers, on_progress, self._say)


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
