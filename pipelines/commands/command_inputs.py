"""What the arguments of a command line name; how a command fails, and how it prints JSON."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn

import click

from tokcore.errors import ConfigError, TokError
from tokcore_pipelines.local.say import say_json, say_message

# The exit codes that commands choose; pipelines/cli.py has those of signals.
EXIT_PROBLEM, EXIT_USAGE, EXIT_STAGE, EXIT_WAITS = 1, 2, 3, 4


def fail(error: Exception | str, code: int) -> NoReturn:
    """Print the error, without secrets, and end the process with this exit code."""
    from tokcore_pipelines.store.redaction import redact

    say_message(f"error: {redact(str(error))}")
    sys.exit(code)


def print_json(value: Any) -> None:
    say_json(value)


def show_progress(name: str) -> AbstractContextManager[object]:
    """Show progress on stderr while the block runs."""
    from tokcore_pipelines.local.progress import StageProgress

    return StageProgress().stage(name, minor=True)


def is_updated(url: str) -> bool:
    """Whether an output has changed since its build; not if that cannot be known: the command says what is wrong."""
    from tokcore_pipelines.build.read_log import has_commits

    with contextlib.suppress(TokError):
        return has_commits(url)
    return False


def make_absolute(output: str) -> str:
    """The URL of an output as the command line names it: a relative path starts at the current folder.

    Raises ConfigError for a build file, with what to write in its place.
    """
    from tokcore_pipelines.store import urls

    url = urls.resolve(os.getcwd(), expand_path(output))  # noqa: PTH109 - resolve wants a str
    if url.endswith(".toml") and urls.is_local(url) and Path(url).is_file():
        raise ConfigError(f"{output}: is a build file; name its output instead: {_find_output(url)}")
    return url


def _find_output(build_file: str) -> str:
    from tokcore_pipelines.store import urls
    from tokcore_schemas.config import load_config

    try:
        config = load_config(build_file)
        return urls.resolve(config.base, config.build.output)
    except ConfigError:
        return "the folder that its build.output names"


def expand_path(path: str) -> str:
    from tokcore_schemas.paths import expand

    try:
        return expand(path)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def read_lines(path: str) -> list[str]:
    """The lines of a text file on this machine, empty ones left out. Raises ConfigError if it is not in UTF-8."""
    try:
        return [line for line in Path(expand_path(path)).read_text("utf-8-sig").split("\n") if line]
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: expected UTF-8, and byte {error.start} is not") from error


def expand_local_path(path: str) -> Path:
    """The path of a file to write on this machine. Raises ConfigError for a URL."""
    from tokcore_pipelines.store import urls

    if not urls.is_local(expanded := expand_path(path)):
        raise ConfigError(f"-o {path}: is written on this machine only: name a path, then copy the file there")
    return Path(expanded) if urls.find_scheme(expanded) is None else urls.get_local_path(expanded)


def open_build(
    build_file: str,
    output: str,
    assigned: tuple[str, ...],
    workers: int | None,
    runner_options: tuple[str, ...],
    detach: bool = False,
    share: Any = None,
    *,
    is_learned: bool = False,
    is_to_work: bool = False,
    **how: Any,
) -> Any:
    """The build of a build file; is_learned: or of an output that is named in its place, to learn from it.

    is_to_work: whether the command needs workers unless the build is finished.
    """
    from tokcore_pipelines.local.run_options import RunOptions
    from tokcore_pipelines.store.options import use_options
    from tokcore_pipelines.store.storage import read_bytes
    from tokcore_schemas.config import load_config

    if runner_options and not runner_options[0].startswith("-"):
        raise click.UsageError(f"unexpected argument {runner_options[0]!r} (runner options begin with --)")
    if any(part.upper() == "LOOPBACK" for option in runner_options for part in option.split("=")):
        raise ConfigError(
            "--environment_type=LOOPBACK: threads of this process would do the work. "
            "Leave it out, or name PROCESS or EXTERNAL"
        )
    if is_learned and _is_output(expand_path(build_file)):
        config = _read_learn_config(build_file, output, assigned)
    else:
        config = load_config(expand_path(build_file), assigned, read_bytes)
    use_options(dataclasses.asdict(config.storage))
    where = make_absolute(output) if output else ""
    options = RunOptions(workers, runner_options, detach, share=share)
    started = _start_workers_early(config, options, where) if is_to_work else None
    from tokcore_pipelines.build.build import Build

    build = Build(config, options, where, **how)
    if started is not None:
        build.take_workers(started)
    return build


def _start_workers_early(config: Any, options: Any, output: str) -> Any:
    """Workers that import while this process does; None if they may not be needed.

    An engine has workers of its own, and a finished build needs none. No store is asked whether a build is finished.
    """
    from tokcore_pipelines.local.pool import Workers
    from tokcore_pipelines.local.worker_modules import WORKER_MODULES
    from tokcore_pipelines.store import urls

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
    from tokcore_pipelines.store import storage, urls

    if urls.is_local(path):
        return (Path(path) if urls.find_scheme(path) is None else urls.get_local_path(path)).is_dir()
    return not path.endswith(".toml") and storage.exists(urls.join(path, "manifest.json"))


def _read_learn_config(named: str, output: str, assigned: tuple[str, ...]) -> Any:
    from tokcore_pipelines.build.learn_settings import read_learn_config

    if output:
        raise ConfigError(f"--output: {named} is the output that is learned from. Leave it out.")
    return read_learn_config(make_absolute(named), assigned)
