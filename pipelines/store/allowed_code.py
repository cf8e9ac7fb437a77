"""Whether the functions that a build file names may run. The command line, or the call, allows it; no file can."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tokcore.errors import ConfigError

ALLOW_CODE = "--allow-code"
# Holds the answer for this process and those that it starts.
_VARIABLE = "TOKCORE_ALLOW_CODE"


def allow_code(is_allowed: bool) -> None:
    """From now on, [[map]] may run its functions, or may not, here and in processes that are started later."""
    if is_allowed:
        os.environ[_VARIABLE] = "1"
    else:
        os.environ.pop(_VARIABLE, None)


@contextmanager
def allowing_code(is_allowed: bool) -> Iterator[None]:
    """As allow_code, until the end of a block."""
    was = is_code_allowed()
    allow_code(is_allowed)
    try:
        yield
    finally:
        allow_code(was)


def is_code_allowed() -> bool:
    """What was said last, by this process or the one that started it."""
    return os.environ.get(_VARIABLE) == "1"


def require_code_allowed(run: str) -> None:
    """Raise ConfigError unless code may run. run: what would."""
    if not is_code_allowed():
        raise ConfigError(
            f"[[map]] would run {run}, which is code, with your rights. If you trust it, say {ALLOW_CODE}, or in "
            f"Python allow_code=True"
        )
