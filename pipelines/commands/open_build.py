"""The build that a command line names: its options, as tokcore_pipelines.build.open_build takes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tokcore.errors import ConfigError
from tokcore_pipelines.build import open_build as build_opening
from tokcore_pipelines.build.named_paths import expand_path, make_absolute
from tokcore_pipelines.commands.command_options import RunChoices
from tokcore_pipelines.local.engines import (
    do_without_kernel,
    find_web,
    make_engine_options,
    refuse_unseen,
    require_job_server,
)
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions, parse_slice
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.options import use_options
from tokcore_schemas.build_tables import VERSION
from tokcore_schemas.config import parse_config


def open_build(
    build_file: str,
    chosen: RunChoices,
    replace: str | None = None,
    reuse: str | None = None,
    *,
    is_learned: bool = False,
    is_to_work: bool = False,
) -> Any:
    """The build of a build file, with the stage to make again and the output to take stages from.

    is_learned: or of an output that is named in the file's place, to learn from it. is_to_work: whether the command
    needs workers unless the build is finished.
    """
    if chosen.quiet and chosen.verbose:
        raise click.UsageError("--quiet and --verbose exclude each other: leave one of them out")
    assigned, options = read_choices(chosen)
    if is_learned and _is_output(expand_path(build_file)):
        config = _read_learn_config(build_file, chosen.output, assigned)
    else:
        config = build_opening.read_config(build_file, assigned, chosen.output)
    progress = StageProgress(-1 if chosen.quiet else int(chosen.verbose))
    return build_opening.open_build(
        config, options, chosen.output, progress, replace=replace or "", reuse=reuse or "", is_to_work=is_to_work
    )


def read_choices(chosen: RunChoices) -> tuple[tuple[str, ...], RunOptions]:
    """(what a command line sets of a build file, how it says to run). Raises for what does not fit together."""
    assigned = chosen.assigned
    if chosen.engine is not None:
        assigned += (f"engine.name={chosen.engine}",)
    if chosen.shared_filesystem:
        assigned += ("engine.shared_filesystem=true",)
    if chosen.share is None and not chosen.waits:
        raise ConfigError("--no-wait: is for --slice I/N. Leave it out.")
    share = parse_slice(chosen.share, chosen.lease, chosen.waits) if chosen.share is not None else None
    runner_options = chosen.runner_options
    if runner_options and not runner_options[0].startswith("-"):
        raise click.UsageError(f"unexpected argument {runner_options[0]!r} (runner options begin with --)")
    if any(part.upper() == "LOOPBACK" for option in runner_options for part in option.split("=")):
        raise ConfigError(
            "--environment_type=LOOPBACK: threads of this process would do the work. "
            "Leave it out, or name PROCESS or EXTERNAL"
        )
    return assigned, RunOptions(chosen.workers, runner_options, chosen.detach, share=share)


def choose_hosts(chosen: RunChoices, named: Sequence[tuple[str, str]]) -> RunOptions:
    """How a command runs that works on an output, and has no build file.

    named: (how it was named, URL) of what all hosts of an engine have to see. Raises ConfigError for what does not fit,
    and if the engine does not answer.
    """
    assigned, options = read_choices(chosen)
    for one in assigned:
        if not one.startswith(("engine.", "storage.")):
            raise ConfigError(f"--set {one}: here only what engine and storage say can be set. Leave it out")
    tables = {"version": VERSION, "build": {"output": chosen.output}, "source": [{"files": "*", "lang": "en"}]}
    config = parse_config(tables, "build.toml", assigned)
    use_options(dataclasses.asdict(config.storage))
    engine = config.engine
    options = options.with_engine(engine.name, find_web(engine), make_engine_options(engine))
    if not options.is_local:
        # Imports Beam, which takes most of a second.
        from tokcore_pipelines.run.engines.runner import check_runner_options

        do_without_kernel()
        refuse_unseen(engine, named)
        check_runner_options(options.runner)
        require_job_server(engine)
    return options


def _is_output(path: str) -> bool:
    """Whether a path or URL is that of an output, and not of a build file."""
    if urls.is_local(path):
        return (Path(path) if urls.find_scheme(path) is None else urls.get_local_path(path)).is_dir()
    return not path.endswith(".toml") and storage.exists(urls.join(path, "manifest.json"))


def _read_learn_config(named: str, output: str, assigned: tuple[str, ...]) -> Any:
    # Workers of other commands start before this is imported.
    from tokcore_pipelines.build.learn_settings import read_learn_config

    if output:
        raise ConfigError(f"--output: {named} is the output that is learned from. Leave it out.")
    return read_learn_config(make_absolute(named), assigned)
