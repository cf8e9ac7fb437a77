"""The build that a command line names: its options, as tokcore_pipelines.build.open_build takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tokcore.errors import ConfigError
from tokcore_pipelines.build import open_build as build_opening
from tokcore_pipelines.build.named_paths import expand_path, make_absolute
from tokcore_pipelines.commands.command_options import RunChoices
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions, parse_slice
from tokcore_pipelines.store import storage, urls


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
        config = build_opening.read_config(build_file, assigned)
    options = RunOptions(chosen.workers, runner_options, chosen.detach, share=share)
    progress = StageProgress(-1 if chosen.quiet else int(chosen.verbose))
    return build_opening.open_build(
        config, options, chosen.output, progress, replace=replace or "", reuse=reuse or "", is_to_work=is_to_work
    )


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
