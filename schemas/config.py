"""The one door to build files: their text goes in, a checked BuildConfig comes out, or a ConfigError that says why not.

build_tables says what there is to set; input_format what files' names tell.
"""

from __future__ import annotations

import dataclasses
import functools
import posixpath
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tokcore.errors import ConfigError, StageError
from tokcore_schemas.build_tables import VERSION, BuildConfig, Source, make_pretokenizer, spell_plain
from tokcore_schemas.config_checks import (
    check,
    check_draws_of,
    check_dtype_of,
    check_padding_of,
    complete,
    take_over_roles,
)
from tokcore_schemas.config_reader import BuildFile, read_tables
from tokcore_schemas.extended import read_extended
from tokcore_schemas.input_format import find_format
from tokcore_schemas.mixture_weights import read_mixture_weights
from tokcore_schemas.parallel import read_parallel

__all__ = [
    "VERSION",
    "BuildConfig",
    "Source",
    "check_draws_of",
    "check_dtype_of",
    "check_padding_of",
    "find_format",
    "load_config",
    "make_pretokenizer",
    "parse_config",
    "read_named_files",
    "spell_plain",
    "take_over_roles",
]


def load_config(
    path: str,
    assigned: Sequence[str] = (),
    read_url: Callable[[str], bytes] | None = None,
    list_url: Callable[[str], Sequence[str]] | None = None,
    output: str = "",
) -> BuildConfig:
    """The build file at a path. Raises ConfigError naming file, line, key, what was expected and found.

    assigned: KEY=VALUE, each in place of what the file sets. read_url: reads a URL, list_url: names what is below it;
    without them, paths must be local. output: build.output, where the file does not set it.
    """
    read = functools.partial(_read_file, read_url)
    try:
        text = read(path).decode("utf-8-sig")  # editors may begin a file with a byte order mark
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the build file: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: a build file is UTF-8, and byte {error.start} is not: save it as UTF-8") from error
    return read_named_files(parse_config(text, path, assigned, output), read_url, list_url)


def read_named_files(
    config: BuildConfig,
    read_url: Callable[[str], bytes] | None = None,
    list_url: Callable[[str], Sequence[str]] | None = None,
) -> BuildConfig:
    """The config with what is in the files that learn.extend, learn.chat_template, mix.parallel and weights_file name.

    Raises as load_config.
    """
    read = functools.partial(_read_file, read_url)
    config = read_parallel(read_mixture_weights(read_extended(config, read), read), read, list_url)
    return dataclasses.replace(config, chat_template=_read_chat_template(config, read))


def _read_file(read_url: Callable[[str], bytes] | None, path: str) -> bytes:
    if read_url is None or "://" not in path:
        return Path(path).read_bytes()
    try:
        return read_url(path)
    except StageError as error:
        raise ConfigError(str(error)) from error


def _read_chat_template(config: BuildConfig, read: Callable[[str], bytes]) -> str:
    """What is in the file that learn.chat_template names; if there is none, that of the extended tokenizer."""
    if config.learn.chat_template is None:
        return config.extended.chat_template if config.extended is not None else ""
    named = config.learn.chat_template
    file = named if "://" in named else posixpath.join(config.base, named)
    key = config.at("learn", "chat_template")
    try:
        template = read(file).decode()
    except OSError as error:
        raise ConfigError(f"{key} = {file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{key} = {file}: expected UTF-8, and byte {error.start} is not") from error
    if not template:
        raise ConfigError(f"{key} = {file}: the file is empty. Name another, or remove the setting.")
    return template


def parse_config(text: str | dict[str, Any], path: str, assigned: Sequence[str] = (), output: str = "") -> BuildConfig:
    """The build file with this text, or with these tables, in which the keys of assigned are then set.

    path: where it came from, and where relative paths start. output: build.output, where it is not set.
    """
    file = BuildFile(text, path, assigned)
    if output and isinstance(table := file.content.setdefault("build", {}), dict):
        table.setdefault("output", output)
    base = posixpath.dirname(path) if "://" in path else str(Path(path).absolute().parent)
    settings = read_tables(file)
    read = BuildConfig(
        path=path, base=base, text=file.text, assigned=tuple(assigned), assigned_keys=file.assigned, **settings
    )
    config = complete(read, file)
    check(config, file)
    return config
