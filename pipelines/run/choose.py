"""Which executor does the steps of a stage."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.run.here import Here
from tokcore_pipelines.run.shares import BySlices
from tokcore_pipelines.run.slices.session import Session
from tokcore_pipelines.run.task import Executor
from tokcore_pipelines.run.workers import ByWorkers


def choose_executor(
    options: RunOptions,
    workers: Workers,
    say: Callable[[str], None],
    session: Session | None = None,
    is_made: Callable[[], bool] = lambda: False,
) -> Executor:
    """What does the steps of a stage.

    say: is told of jobs of an engine, and of warnings. session: of slices. is_made: whether the stage was committed.
    """
    if options.here:
        return Here()
    if session is not None:
        return BySlices(session, options, workers, is_made)
    if options.is_local:
        return ByWorkers(workers)
    is_first = "apache_beam" not in sys.modules
    from tokcore_pipelines.run.beam import OnBeam  # loads Beam

    if is_first:
        gc.freeze()  # so that collections do not visit the objects of Beam's modules
    return OnBeam(options, say)
