"""Files of this machine that the arguments of a command line name."""

from __future__ import annotations

from pathlib import Path

from tokcore.errors import ConfigError
from tokcore_pipelines.build.named_paths import expand_path
from tokcore_pipelines.store import urls


def expand_local_path(path: str) -> Path:
    """The path of a file to write on this machine. Raises ConfigError for a URL."""
    if not urls.is_local(expanded := expand_path(path)):
        raise ConfigError(f"-o {path}: is written on this machine only: name a path, then copy the file there")
    return Path(expanded) if urls.find_scheme(expanded) is None else urls.get_local_path(expanded)
