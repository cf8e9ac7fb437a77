"""The paths and URLs that users name: outputs, build files."""

from __future__ import annotations

import os
from pathlib import Path

from tokcore.errors import ConfigError
from tokcore_pipelines.store import urls
from tokcore_schemas.paths import expand


def make_absolute(output: str) -> str:
    """The URL of an output as its user names it: a relative path starts at the current folder.

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
