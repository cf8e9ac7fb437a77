"""What hands the work of a stage to workers: Beam, the slices of a build on several hosts, or this process alone."""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from pipelines.local.pool import OnProgress, Workers
from pipelines.local.run_options import RunOptions
from pipelines.stages.stage import BuildRun
from pipelines.store.attempts import Attempts
from pipelines.work.count_item import CountJob
from pipelines.work.encode_job import EncodeJob
from pipelines.work.mix_part import MixJob
from pipelines.work.pack_group import PackJob
from schemas.input_format import COLUMN_FORMATS
from schemas.plan import Plan, WorkItem
from schemas.refs import MixPart, PackGroup, ShufflePart

# Of each worker, at most this many items begin before Beam asks for them.
MOST_AHEAD = 8
# A larger plan takes so long that a head start hardly matters, and choosing the first items would take seconds.
_MOST_RANKED = 10_000

# Without Beam, for each worker that may be started. To import Beam and to plan a pass takes one to two seconds, a good
# part of so small a pass.
_SMALL_PIECES = MOST_AHEAD
SMALL_BYTES = 64 << 20  # stored; of shards, as uncompressed ids

ID_BYTES = 4  # of a token in a shard, uncompressed

# What is worth starting another worker for: it takes a third of a second, in which a running one reads that much.
_WORTH_BYTES = 2 << 20
_WORTH_FILES = 64
_MOST_SUMMED = 100_000


class Passes(Protocol):
    """The passes of the stages. Those with progress give what was measured; each raises what a worker raises."""

    def count_items(self, plan: Plan, job: CountJob, on_progress: OnProgress, /) -> dict[str, int]:
        """Count all work items, and write the tables of all languages."""

    def encode_items(self, plan: Plan, job: EncodeJob, on_progress: OnProgress, /) -> dict[str, int]:
        """Tokenize all work items into shards."""

    def scatter_items(self, plan: Plan, job: EncodeJob, num_buckets: int, on_progress: OnProgress, /) -> dict[str, int]:
        """The first pass of a shuffle."""

    def gather_parts(self, parts: Sequence[ShufflePart], job: EncodeJob, /) -> None:
        """The second pass of a shuffle."""

    def measure_parts(self, parts: Sequence[MixPart], job: MixJob, /) -> None:
        """The first pass of the mixture stage."""

    def mix_parts(self, parts: Sequence[MixPart], job: MixJob, /) -> None:
        """The second pass of the mixture stage."""

    def pack_groups(self, groups: Sequence[PackGroup], job: PackJob, /) -> None:
        """Pack all groups of documents into rows."""


def count_worthwhile_workers(plan: Plan) -> int:
    """How many workers, at most, save more time than they take to start."""
    by_files = -(-len(plan.files) // _WORTH_FILES)
    if len(plan.files) > _MOST_SUMMED:  # enough for any machine, and adding up sizes would take seconds
        return by_files
    return max(1, by_files, -(-plan.size_bytes // _WORTH_BYTES))


def find_passes(run: BuildRun, attempts: Attempts, num_pieces: int, size_bytes: int) -> Passes:
    """What runs the passes of a stage that has so much work."""
    if run.session is not None and not run.options.here:
        from pipelines.slices.sliced_passes import SlicedPasses

        return SlicedPasses(run.session, run.options, run.workers, lambda: run.is_made(attempts), run.metrics)
    return choose_passes(run.options, run.workers, num_pieces, size_bytes, run.progress.say)


def choose_passes(
    options: RunOptions, workers: Workers, num_pieces: int, size_bytes: int, say: Callable[[str], None]
) -> Passes:
    """What runs passes of so much work, if one process makes all of the build. Beam is imported only if it is used."""
    if options.here:
        from pipelines.stages.local_passes import PassesHere

        return PassesHere()
    if _is_small(options, num_pieces, size_bytes):
        from pipelines.stages.local_passes import PassesByWorkers

        return PassesByWorkers(workers)
    is_first = "apache_beam" not in sys.modules
    from pipelines.graph.beam_passes import BeamPasses

    if is_first:
        gc.freeze()  # so that collections do not visit the objects of Beam's modules
    return BeamPasses(options, workers, say)


def _is_small(options: RunOptions, num_pieces: int, size_bytes: int) -> bool:
    """Whether workers of this machine do so much work without Beam. Any option of Beam's asks for Beam."""
    num = options.num_workers
    return not options.runner and num_pieces <= _SMALL_PIECES * num and size_bytes <= SMALL_BYTES * num


def begin_items(
    run: BuildRun,
    function: Callable[..., Any],
    job: CountJob | EncodeJob,
    plan: Plan,
    size_bytes: int,
    on_progress: OnProgress,
) -> AbstractContextManager[None]:
    """While the block runs, workers of the local runner do the first work items: function(job, assignment).

    Meanwhile Beam is imported and makes its graph, and then asks for their results. Where Beam is not used, and on
    engines, workers begin when they are asked. size_bytes: of the plan.
    """
    pool = run.workers.start()
    if pool is None or run.session is not None or len(plan.items) > _MOST_RANKED:
        return nullcontext()
    if _is_small(run.options, len(plan.items), size_bytes):
        return nullcontext()
    first = [plan.assignment(item) for item in _choose_first(plan, MOST_AHEAD * len(pool.process_ids))]
    return pool.head_start(function, [(job, one) for one in first], on_progress)


def _choose_first(plan: Plan, num: int) -> list[WorkItem]:
    """Items whose files need a reader process, then the largest. A reader takes as long to start as a small item."""
    slow = [one.format in COLUMN_FORMATS for one in plan.settings]
    ranked: Iterable[WorkItem] = plan.list_largest_first()
    if any(slow):
        ranked = sorted(ranked, key=lambda item: not any(slow[plan.files[r.file].settings] for r in item.ranges))
    return [*itertools.islice(ranked, num)]
