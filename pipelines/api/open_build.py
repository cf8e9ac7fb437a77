"""What arguments of the functions mean, as tokcore_pipelines.build.open_build takes it."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tokcore_pipelines.build import open_build as build_opening
from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.local.extras import describe_missing
from tokcore_pipelines.local.progress import Progress, StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store.allowed_code import allowing_code
from tokcore_schemas.build_in_python import Build, spell_settings

Named = str | os.PathLike[str]
Told = Callable[[Progress], None] | bool | None  # who hears of progress

_turn = threading.RLock()
_WARNING = "warning: "


@contextlib.contextmanager
def taking_turns(allow_code: bool = False) -> Iterator[None]:
    """One call at a time in a process: where stores are found, and whether code may run, are settings of the process.

    Raises ImportError, which says what to install, if the packages of the extra `build` are missing.
    """
    if missing := describe_missing():
        raise ImportError(missing)
    with _turn, allowing_code(allow_code):
        yield


def open_build(
    config: Build | Named, output: Named, settings: Mapping[str, Any], options: RunOptions, told: Told, **how: Any
) -> Any:
    """The build of a build file, in Python or by its path or URL. settings: in place of what it sets."""
    named = config if isinstance(config, Build) else os.fspath(config)
    read = build_opening.read_config(named, spell_settings(settings), os.fspath(output))
    return build_opening.open_build(read, options, os.fspath(output), make_progress(told), **how)


def locate(output: Named) -> str:
    """The URL of an output; a relative path starts at the current folder. Raises ConfigError for a build file."""
    return make_absolute(os.fspath(output))


def make_progress(told: Told) -> StageProgress:
    """told: a function that hears of it; True: shown on stderr, as by a command; else, only warnings are given."""
    if told is True:
        return StageProgress()
    return StageProgress(tell=told if callable(told) else _warn)


def _warn(progress: Progress) -> None:
    if progress.text.startswith(_WARNING):
        warnings.warn(progress.text.removeprefix(_WARNING), stacklevel=2)
