"""The stores and engines that `make servers` installs for tests."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from support.proof import require_mark

INSTALLED = Path(os.environ.get("TOKCORE_SERVERS", sys.prefix)) / "servers"  # as in the Makefile
VARIABLE = "TOKCORE_TEST_SERVERS"


def find_server(name: str, title: str, needs: str = "") -> Path:
    """A file that `make servers` makes; without it the test is skipped, or fails where servers are required.

    needs: a command without which `make servers` cannot make it, or it cannot run.
    """
    require_mark()
    path = INSTALLED / name
    if are_hidden() or not path.exists() or (needs and shutil.which(needs) is None):
        give_up(f"{title} is not installed" if not needs or shutil.which(needs) else f"{needs} is missing")
    return path


def give_up(reason: str, target: str = "servers") -> NoReturn:
    """Skip the test, or fail it where the servers are required. target: of make, which installs what is missing."""
    require_mark()
    if os.environ.get(VARIABLE) == "required":
        pytest.fail(f"{reason}: run make {target}")
    # `make test` needs Python and a compiler, nothing else. `.ci/run` requires the servers, so there this is a failure.
    pytest.skip(f"{reason}: run make {target}")


def are_hidden() -> bool:
    """Whether all look-ups find nothing, as on a machine that has no server, whatever is installed here."""
    return os.environ.get(VARIABLE) == "none"
