"""Paths as people write them: `~` and environment variables become what they stand for. Opens nothing."""

from __future__ import annotations

import os
import re

from tokcore.errors import ConfigError

_VARIABLE = re.compile(r"\$(?:(\$)|([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\}|(\{))")


def expand(path: str) -> str:
    """The path or URL with `~`, `~user`, `$NAME` and `${NAME}` replaced; `$$` stands for a dollar sign.

    Raises ConfigError for a variable that is not set or empty, which would lead to another place without a word, and
    for a home folder that is not known.
    """

    def value(found: re.Match[str]) -> str:
        if found[1]:
            return "$"
        if found[4]:
            raise ConfigError("expected a name in braces after $, as in ${HOME}; write $$ for a dollar sign")
        name = found[2] or found[3]
        if not os.environ.get(name):
            raise ConfigError(f"the environment variable {name} is not set. Set it, or write $$ for a dollar sign")
        return os.environ[name]

    if path.startswith("~"):
        home, slash, rest = path.partition("/")
        folder = os.path.expanduser(home)  # noqa: PTH111 - Path would change the spelling of what follows
        if folder == home:
            raise ConfigError(f"no home folder is known for {home}. Write ./{home} for a file of that name")
        path = f"{folder.replace('$', '$$')}{slash}{rest}"
    return _VARIABLE.sub(value, path)
