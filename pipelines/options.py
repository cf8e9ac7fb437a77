"""Where a build's Beam stages run: the local runner with worker processes of our own, or whatever the user names.

The default runner of Beam is never relied on: it may download another engine. The local one is FnApiRunner in
memory, which opens no port; its threads hand each work item to a process of pipelines.pool.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from pipelines.pool import open_pool
from tokcore.errors import ConfigError, StageError, TokError

# Beam deals elements to its threads before anything runs and never moves one; with several threads a process,
# and processes that take work as they become free, one slow item does not leave a core idle.
THREADS_PER_WORKER = 4

_WHILE_RUNNING = re.compile(r" \[while running '[^']*'\]$")


@dataclasses.dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run, never what comes out."""

    workers: int | None = None  # processes of the local runner; None: one per core this process may use
    runner: tuple[str, ...] = ()  # Beam pipeline options; empty: the local runner

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ConfigError(f"--workers {self.workers}: must be at least 1")

    @property
    def num_workers(self) -> int:
        if self.workers is None:
            return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return self.workers

    @property
    def is_local(self) -> bool:
        return not any(option.startswith("--runner") for option in self.runner)


@contextmanager
def open_pipeline(
    options: RunOptions, stage: str, on_progress: Callable[[int], None] | None = None
) -> Iterator[tuple[beam.Pipeline, str | None]]:
    """A pipeline that runs when the block ends, and the key of the worker pool its heavy calls go to.

    Raises what a worker raised if it is ours, else StageError naming the stage.
    """
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)  # what fails is raised, once
    try:
        if options.is_local:
            with open_pool(options.num_workers, on_progress) as pool, _local_pipeline(options) as pipeline:
                yield pipeline, pool.key
        else:
            with beam.Pipeline(options=PipelineOptions(list(options.runner))) as pipeline:
                yield pipeline, None
    except TokError as error:
        # Beam adds the name of its transform, which says nothing to whoever wrote the build file.
        error.args = (_WHILE_RUNNING.sub("", str(error)), *error.args[1:])
        raise
    except Exception as error:
        # Runners wrap what a worker raised; our own errors already say all a user needs.
        for cause in _causes(error):
            if isinstance(cause, TokError):
                raise cause from error
        raise StageError(f"stage {stage}: {type(error).__name__}: {error}") from error


def _local_pipeline(options: RunOptions) -> beam.Pipeline:
    arguments: Sequence[str] = (
        "--runner=FnApiRunner",
        "--direct_running_mode=in_memory",
        f"--direct_num_workers={THREADS_PER_WORKER * options.num_workers}",
        *options.runner,
    )
    return beam.Pipeline(options=PipelineOptions(list(arguments)))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
