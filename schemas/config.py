"""The one door to build files: their text goes in, a checked BuildConfig comes out, or a ConfigError that says why not.

build_tables says what there is to set; input_format what files' names tell.
"""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Sequence
from pathlib import Path

from schemas.build_tables import VERSION, BuildConfig, Source, make_pretokenizer, spell_plain
from schemas.config_checks import check, check_dtype_of, complete, take_over_roles
from schemas.config_reader import BuildFile, read_tables
from schemas.input_format import find_format
from tokcore.errors import ConfigError

__all__ = [
    "VERSION",
    "BuildConfig",
    "Source",
    "check_dtype_of",
    "find_format",
    "load_config",
    "make_pretokenizer",
    "parse_config",
    "spell_plain",
    "take_over_roles",
]


def load_config(path: str, assigned: Sequence[str] = ()) -> BuildConfig:
    """The build file at a local path. Raises ConfigError naming file, line, key, what was expected and found.

    assigned: KEY=VALUE, each in place of what the file sets.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")  # editors may begin a file with a byte order mark
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the build file: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: a build file is UTF-8, and byte {error.start} is not: save it as UTF-8") from error
    config = parse_config(text, path, assigned)
    return dataclasses.replace(config, chat_template=_read_chat_template(config))


def _read_chat_template(config: BuildConfig) -> str:
    """What is in the file that learn.chat_template names."""
    if config.learn.chat_template is None:
        return ""
    file = Path(config.base, config.learn.chat_template)
    key = config.at("learn", "chat_template")
    try:
        template = file.read_bytes().decode()
    except OSError as error:
        raise ConfigError(f"{key} = {file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{key} = {file}: expected UTF-8, and byte {error.start} is not") from error
    if not template:
        raise ConfigError(f"{key} = {file}: the file is empty. Name another, or remove the setting.")
    return template


def parse_config(text: str, path: str, assigned: Sequence[str] = ()) -> BuildConfig:
    """The build file with this text; path says where it came from and where relative paths start."""
    file = BuildFile(text, path, assigned)
    base = posixpath.dirname(path) if "://" in path else str(Path(path).absolute().parent)
    settings = read_tables(file)
    read = BuildConfig(
        path=path, base=base, text=text, assigned=tuple(assigned), assigned_keys=file.assigned, **settings
    )
    config = complete(read, file)
    check(config, file)
    return config
