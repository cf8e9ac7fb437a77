"""The build that a user names, on a command line or in Python: by its file, or as one written in Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tokcore_pipelines.build.named_paths import expand_path, make_absolute
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.local.worker_modules import WORKER_MODULES
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.options import use_options
from tokcore_schemas.build_in_python import Build as InPython
from tokcore_schemas.config import BuildConfig, load_config, read_named_files


def read_config(named: str | InPython, assigned: Sequence[str] = (), output: str = "") -> BuildConfig:
    """A build file at a path or URL, or one in Python. assigned: KEY=VALUE, each in place of what it sets.

    output: where it goes, if it does not say it. Raises ConfigError as load_config does.
    """
    if not isinstance(named, InPython):
        where = make_absolute(output) if output else ""
        return load_config(expand_path(named), assigned, storage.read_bytes, storage.list_tree, where)
    if output and named.output is None:
        named = dataclasses.replace(named, output=output)
    return read_named_files(named.parse(assigned), storage.read_bytes, storage.list_tree)


def open_build(
    config: BuildConfig,
    options: RunOptions,
    output: str = "",
    progress: StageProgress | None = None,
    *,
    replace: str = "",
    reuse: str = "",
    is_to_work: bool = False,
) -> Any:
    """The build of a config. output: in place of what it says; reuse: another output; both as users name them.

    is_to_work: whether workers are needed unless it is finished: they start at once.
    """
    use_options(dataclasses.asdict(config.storage))
    where, other = (make_absolute(named) if named else "" for named in (output, reuse))
    started = _start_workers_early(config, options, where) if is_to_work else None
    # Half of a second, in which workers start.
    from tokcore_pipelines.build.build import Build

    try:
        build = Build(config, options, where, progress or StageProgress(), replace, other)
    except BaseException:
        if started is not None:
            started.close()
        raise
    if started is not None:
        build.take_workers(started)
    return build


def _start_workers_early(config: BuildConfig, options: RunOptions, output: str) -> Workers | None:
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
