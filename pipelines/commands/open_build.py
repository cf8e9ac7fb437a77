"""The build that a command line names."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from tokcore.errors import ConfigError
from tokcore_pipelines.commands.command_inputs import expand_path, make_absolute
from tokcore_pipelines.commands.command_options import RunChoices
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.run_options import RunOptions, parse_slice
from tokcore_pipelines.local.worker_modules import WORKER_MODULES
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.options import use_options
from tokcore_schemas.config import load_config


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
    from_other = make_absolute(reuse) if reuse else ""
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
    if is_learned and _is_output(expand_path(build_file)):
        config = _read_learn_config(build_file, chosen.output, assigned)
    else:
        config = load_config(expand_path(build_file), assigned, storage.read_bytes)
    use_options(dataclasses.asdict(config.storage))
    where = make_absolute(chosen.output) if chosen.output else ""
    options = RunOptions(chosen.workers, runner_options, chosen.detach, share=share)
    started = _start_workers_early(config, options, where) if is_to_work else None
    # Half of a second, in which workers start.
    from tokcore_pipelines.build.build import Build

    build = Build(config, options, where, replace=replace or "", reuse=from_other)
    build.progress.level = -1 if chosen.quiet else int(chosen.verbose)
    if started is not None:
        build.take_workers(started)
    return build


def _start_workers_early(config: Any, options: Any, output: str) -> Any:
    """Workers that import while this process does; None if they may not be needed.

    An engine has workers of its own, and a finished build needs none. No store is asked whether a build is finished.
    """
    output = output or urls.resolve(config.base, config.build.output)
    if config.engine.name != "local" or not options.is_local or not urls.is_local(output):
        return None
    if (urls.get_local_path(output) / "manifest.json").exists():
        return None
    workers = Workers(options, WORKER_MODULES)
    workers.start_first()
    return workers


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
