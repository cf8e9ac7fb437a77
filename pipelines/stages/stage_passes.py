"""What hands the work of a stage to workers: Beam, or where several hosts make slices of a build, these hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pipelines.local.pool import OnProgress, Workers
from pipelines.local.run_options import RunOptions
from pipelines.stages.stage import BuildRun
from pipelines.store.attempts import Attempts
from pipelines.work.count_item import CountJob
from pipelines.work.encode_job import EncodeJob
from pipelines.work.mix_part import MixJob
from pipelines.work.pack_group import PackJob
from schemas.plan import Plan
from schemas.refs import MixPart, PackGroup, ShufflePart


class Say(Protocol):
    """Says a line to the user."""

    def __call__(self, text: str, /) -> None: ...


class Passes(Protocol):
    """The passes of the stages. Each gives what was measured, and raises what a worker raises."""

    def count_items(
        self, options: RunOptions, plan: Plan, job: CountJob, workers: Workers, on_progress: OnProgress, say: Say, /
    ) -> dict[str, int]:
        """Count all work items, and write the tables of all languages."""

    def encode_items(
        self, options: RunOptions, plan: Plan, job: EncodeJob, workers: Workers, on_progress: OnProgress, say: Say, /
    ) -> dict[str, int]:
        """Tokenize all work items into shards."""

    def scatter_items(
        self,
        options: RunOptions,
        plan: Plan,
        job: EncodeJob,
        num_buckets: int,
        workers: Workers,
        on_progress: OnProgress,
        say: Say,
        /,
    ) -> dict[str, int]:
        """The first pass of a shuffle."""

    def gather_parts(
        self, options: RunOptions, parts: Sequence[ShufflePart], job: EncodeJob, workers: Workers, say: Say, /
    ) -> None:
        """The second pass of a shuffle."""

    def measure_parts(
        self, options: RunOptions, parts: Sequence[MixPart], job: MixJob, workers: Workers, say: Say, /
    ) -> None:
        """The first pass of the mixture stage."""

    def mix_parts(
        self, options: RunOptions, parts: Sequence[MixPart], job: MixJob, workers: Workers, say: Say, /
    ) -> None:
        """The second pass of the mixture stage."""

    def pack_groups(
        self, options: RunOptions, groups: Sequence[PackGroup], job: PackJob, workers: Workers, say: Say, /
    ) -> None:
        """Pack all groups of documents into rows."""


def find_passes(run: BuildRun, attempts: Attempts) -> Passes:
    """What runs the passes of that stage. Imported only now: Beam takes most of a second, and few stages have work."""
    if run.session is not None:
        from pipelines.slices.sliced_passes import SlicedPasses

        return SlicedPasses(run.session, lambda: run.is_made(attempts), run.metrics)
    from pipelines.graph import launch

    return launch
