"""The build that an argument of a function means, and the URL of an output."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tokcore_pipelines.build import build
from tokcore_pipelines.local.extras import describe_missing
from tokcore_pipelines.local.progress import Progress, StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.storage import read_bytes
from tokcore_schemas.build_in_python import Build, spell_settings
from tokcore_schemas.config import BuildConfig, load_config, read_named_files
from tokcore_schemas.paths import expand

Named = str | os.PathLike[str]
Told = Callable[[Progress], None] | bool | None  # who hears of progress

_turn = threading.RLock()
_WARNING = "warning: "


@contextlib.contextmanager
def taking_turns() -> Iterator[None]:
    """One call at a time in a process: where stores are found is a setting of the process.

    Raises ImportError, which says what to install, if the packages of the extra `build` are missing.
    """
    if missing := describe_missing():
        raise ImportError(missing)
    with _turn:
        yield


def open_build(
    config: Build | Named, output: Named, settings: Mapping[str, Any], options: RunOptions, told: Told, **how: Any
) -> build.Build:
    """The build of a build file, in Python or by its path or URL. settings: in place of what it sets."""
    read = _read_config(config, output, spell_settings(settings))
    where = locate(output) if output else ""
    return build.Build(read, options, where, make_progress(told), **how)


def _read_config(config: Build | Named, output: Named, assigned: tuple[str, ...]) -> BuildConfig:
    if not isinstance(config, Build):
        return load_config(expand(os.fspath(config)), assigned, read_bytes)
    if output and config.output is None:
        config = dataclasses.replace(config, output=os.fspath(output))
    return read_named_files(config.parse(assigned), read_bytes)


def locate(output: Named) -> str:
    """The URL of an output; a relative path starts at the current folder."""
    return urls.resolve(str(Path.cwd()), expand(os.fspath(output)))


def make_progress(told: Told) -> StageProgress:
    """told: a function that hears of it; True: shown on stderr, as by a command; else, only warnings are given."""
    if told is True:
        return StageProgress()
    return StageProgress(tell=told if callable(told) else _warn)


def _warn(progress: Progress) -> None:
    if progress.text.startswith(_WARNING):
        warnings.warn(progress.text.removeprefix(_WARNING), stacklevel=2)
