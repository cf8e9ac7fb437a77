"""What the arguments of a command line name."""

from __future__ import annotations

import os
from pathlib import Path

from tokcore.errors import ConfigError
from tokcore_pipelines.store import urls
from tokcore_schemas.paths import expand


def make_absolute(output: str) -> str:
    """The URL of an output as the command line names it: a relative path starts at the current folder.

    Raises ConfigError for a build file, with what to write in its place.
    """
    url = urls.resolve(os.getcwd(), expand_path(output))  # noqa: PTH109 - resolve wants a str
    if url.endswith(".toml") and urls.is_local(url) and Path(url).is_file():
        raise ConfigError(f"{output}: is a build file; name its output instead: {_find_output(url)}")
    return url


def _find_output(build_file: str) -> str:
    # Reading build files loads all models and formats, and most commands do not.
    from tokcore_schemas.config import load_config

    try:
        config = load_config(build_file)
        return urls.resolve(config.base, config.build.output)
    except ConfigError:
        return "the folder that its build.output names"


def expand_path(path: str) -> str:
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
    if not urls.is_local(expanded := expand_path(path)):
        raise ConfigError(f"-o {path}: is written on this machine only: name a path, then copy the file there")
    return Path(expanded) if urls.find_scheme(expanded) is None else urls.get_local_path(expanded)
