"""Where the steps of a stage run that an engine does: on the runner that the options name, or on Beam's own.

We never use Beam's default runner: it may download another engine. Beam's own is FnApiRunner in memory, which opens no
port: its threads do the work in this process. Runners that open ports get them on the loopback interface only
(tokcore_pipelines.run.engines.bind).
"""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.runner import PipelineRunner, create_runner

from tokcore.errors import ConfigError, StageError, TokError, list_causes
from tokcore_pipelines.local.dataflow import NAME as DATAFLOW
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.run.engines.across import find_error
from tokcore_pipelines.run.engines.beam_warnings import tell_warnings
from tokcore_pipelines.run.engines.bind import bind_to_loopback
from tokcore_pipelines.run.engines.engine_jobs import find_endpoint, run_job
from tokcore_pipelines.run.engines.measure import collect_metrics
from tokcore_pipelines.run.engines.recorded import Recorded, telling
from tokcore_pipelines.run.engines.stage_on_beam import StageOnBeam
from tokcore_pipelines.store.redaction import make_cause, redact

# "direct" is what Beam calls a choice of its own, which may fall on an engine that it downloads.
_OWN = {"direct", "switchingdirect", "fnapi"}

_WHILE_RUNNING = re.compile(r" \[while running '[^']*'\]$")


@contextmanager
def open_pipeline(run: StageOnBeam) -> Iterator[beam.Pipeline]:
    """A pipeline that runs when the block ends.

    If an engine already has a job for this stage of this output, waits for that one instead.
    Raises a TokError that a worker raised as it is; for any other failure a StageError that names the stage.
    """
    try:
        with bind_to_loopback(), tell_warnings(run.say):
            yield from _run_on_engine(run, _KeepViews(complete_options(run.options)))
    except TokError as error:
        # Beam adds the name of its transform, which means nothing to a user.
        error.args = (_WHILE_RUNNING.sub("", str(error)), *error.args[1:])
        raise
    except Exception as error:
        failure = error
    else:
        return
    # Runners wrap a worker's exception; our own errors already say all that a user needs.
    for cause in list_causes(failure):
        if isinstance(cause, TokError):
            raise cause
        if (told := find_error(str(cause))) is not None:
            raise told
    reason = redact(f"{type(failure).__name__}: {failure}")
    raise StageError(f"stage {run.stage}: {reason}") from make_cause(failure)


def _run_on_engine(run: StageOnBeam, options: PipelineOptions) -> Iterator[beam.Pipeline]:
    if run.options.engine == DATAFLOW:
        # Its packages come with an extra.
        from tokcore_pipelines.run.engines.dataflow_engine import run_dataflow_job

        with run_dataflow_job(run, options) as pipeline:
            yield pipeline
        return
    if (endpoint := find_endpoint(options)) is None:
        with telling(Recorded(run.attempts, run.pieces), run.on_progress), beam.Pipeline(options=options) as pipeline:
            yield pipeline
        run.metrics |= collect_metrics(pipeline.result.metrics)
        return
    with run_job(run, endpoint, options) as pipeline:
        yield pipeline


def complete_options(options: RunOptions) -> list[str]:
    """Beam's options as a pipeline gets them: unless they name another runner, of Beam's own, with its threads.

    >>> complete_options(RunOptions(3, ("--runner=DirectRunner",)))[1:]
    ['--direct_num_workers=3', '--runner=DirectRunner', '--runner=FnApiRunner']
    """
    known, _ = _Parser().parse_known_args(list(options.runner))
    if (known.runner or "direct").lower().removesuffix("runner") not in _OWN:
        return list(options.runner)
    # Of an option that is there twice, the last one counts.
    own = ("--direct_running_mode=in_memory", f"--direct_num_workers={options.num_workers}")
    return [*own, *options.runner, "--runner=FnApiRunner"]


class _KeepViews(PipelineOptions):
    """Beam's options that make each view once: Beam asks for some at every transform, and each parses all arguments."""

    def view_as(self, cls: type[Any]) -> Any:
        views = self.__dict__.setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        return views[cls]


# ------------------------------------------------------------------------------------------------------ runner options


class _Parser(argparse.ArgumentParser):
    """Beam's own options. A wrong value is a ConfigError, not half a page of usage."""

    def __init__(self) -> None:
        super().__init__(allow_abbrev=False, add_help=False)
        for options in {str(cls): cls for cls in PipelineOptions.__subclasses__()}.values():
            options._add_argparse_args(self)

    def add_value_provider_argument(self, *names: str, **settings: Any) -> None:
        self.add_argument(*names, **settings)

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"runner options: {message}")


# Every user of a machine can read command lines, and Beam's workers log their options.
_SECRET_OPTION = re.compile(r"secret|token|passw|connection_string|access_key")


def check_runner_options(options: Sequence[str]) -> None:
    """Raise ConfigError for a runner or an option that does not exist; Beam would ignore the option without a word.

    A job server has options of its own, which it tells only when a pipeline runs: with such a runner, unknown options
    are accepted.
    """
    if not options:
        return
    for name in (option.split("=")[0] for option in options):
        if name.startswith("-") and _SECRET_OPTION.search(name):
            raise ConfigError(
                f"{name}: no secrets on a command line: every user of the machine can read it. "
                f"Use the store's own environment variables or configuration."
            )
    parser = _Parser()
    known, unknown = parser.parse_known_args(list(options))
    if known.direct_running_mode == "multi_processing":
        raise ConfigError(
            "--direct_running_mode=multi_processing: Beam's worker processes are told nothing of this pipeline's "
            "element types. Leave it out, or use the local engine, which has processes of its own (--workers N)."
        )
    runner = known.runner and _find_runner(known.runner)
    if not unknown or isinstance(runner, PortableRunner):
        return
    name = unknown[0].split("=")[0]
    near = difflib.get_close_matches(name, parser._option_string_actions, 1)
    hint = f" Did you mean {near[0]}?" if near else ""
    of = known.runner or "Beam's own runner"
    raise ConfigError(f"{name}: {of} has no such option.{hint}")


def _find_runner(name: str) -> Any:
    try:
        runner = create_runner(name)
    except Exception as error:  # a name with a point imports a module, which may raise anything
        known = ", ".join(StandardOptions.KNOWN_RUNNER_NAMES)
        why = f" ({type(error).__name__}: {error})" if "." in name or isinstance(error, ImportError) else ""
        raise ConfigError(
            f"--runner={name}: no such runner{why}. Expected one of {known}, or the full name of a PipelineRunner."
        ) from error
    if not isinstance(runner, PipelineRunner):
        raise ConfigError(f"--runner={name}: not a PipelineRunner.")
    return runner
