"""An engine does the tasks: each step is a job of one shape (tokcore_pipelines.run.engines.task_graph), on any of
Beam's runners.

The graph of a job holds names of files, in which the pieces lie; so it stays small, however many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tokcore_pipelines.local.pool import OnProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.run.engines.recorded import Pieces
from tokcore_pipelines.run.engines.runner import open_pipeline
from tokcore_pipelines.run.engines.stage_on_beam import StageOnBeam
from tokcore_pipelines.run.engines.task_graph import RunTasks
from tokcore_pipelines.run.task import Items, Step
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.combining import Combining
from tokcore_pipelines.work.plan_parts import write_pieces, write_plan_parts
from tokcore_schemas.plan import Assignment


class OnBeam:
    """An Executor by the runner that the options name."""

    def __init__(self, options: RunOptions, say: Callable[[str], None]) -> None:
        """say: is told of jobs, and of warnings."""
        self._options = options
        self._say = say

    def do(self, step: Step, attempts: Attempts, on_progress: OnProgress | None, measured: Counter[str]) -> bool:
        """As Executor.do, in one job, which goes on as step.combining says."""
        pieces = Pieces(len(step.pieces), step.list_sizes)
        run = StageOnBeam(step.name, attempts, pieces, self._options, on_progress, self._say)
        if isinstance(step.pieces, Items):
            names = write_plan_parts(attempts, step.pieces.plan)
        else:
            names = write_pieces(attempts, step.pieces, len(step.pieces))
        with open_pipeline(run) as pipeline:
            _ = pipeline | "RunTasks" >> make_graph(step, attempts, names)
        measured.update(run.metrics)
        return step.combining is not None


def make_graph(step: Step, attempts: Attempts, names: list[str]) -> RunTasks:
    """The graph that does a step whose pieces lie in the files of these names."""
    kind = Assignment if isinstance(step.pieces, Items) else type(next(iter(step.pieces)))
    combining = step.combining or Combining()
    return RunTasks(step.name, attempts, step.function, step.shared, names, kind, step.measure, combining)
