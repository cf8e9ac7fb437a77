"""mix.parallel: the parallel text that weights of languages follow, read and pinned by its bytes."""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Callable, Sequence
from pathlib import Path

from tokcore.errors import ConfigError, StageError
from tokcore.learn.parallel_text import parse_parallel_text, take_odd_lines
from tokcore_schemas.build_tables import BuildConfig


def read_parallel(
    config: BuildConfig, read: Callable[[str], bytes], list_url: Callable[[str], Sequence[str]] | None
) -> BuildConfig:
    """The config with the odd lines of the text in the folder mix.parallel; unchanged if it names none.

    read: gives the bytes of a path or URL. list_url: gives the names below a URL. Raises ConfigError naming the key.
    """
    named = config.mix.parallel
    if named is None:
        return config
    folder = named if "://" in named else posixpath.join(config.base, named)
    place = f"{config.at('mix', 'parallel')} = {folder}"
    try:
        if "://" in folder and list_url is not None:
            names = [*list_url(folder)]
        else:
            names = [path.name for path in Path(folder).iterdir() if path.is_file()]
        text = parse_parallel_text(names, lambda name: read(posixpath.join(folder, name)), place)
    except OSError as error:
        raise ConfigError(f"{place}: cannot be read: {error.strerror}") from error
    except StageError as error:
        raise ConfigError(f"{place}: {error}") from error
    odd = take_odd_lines(text)
    lines = {config.spell_lang(lang): of for lang, of in odd.lines.items()}
    return dataclasses.replace(config, parallel=dataclasses.replace(odd, lines=lines), parallel_sha256=odd.sha256)
