"""The stores and engines that `make servers` installs for tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

import pytest

INSTALLED = Path(os.environ.get("TOKCORE_SERVERS", sys.prefix)) / "servers"  # as in the Makefile


def find_server(name: str, title: str) -> Path:
    """A file that `make servers` makes; without it the test is skipped, or fails where servers are required."""
    path = INSTALLED / name
    if not path.exists():
        give_up(f"{title} is not installed")
    return path


def give_up(reason: str, target: str = "servers") -> NoReturn:
    """Skip the test, or fail it where the servers are required. target: of make, which installs what is missing."""
    if os.environ.get("TOKCORE_TEST_SERVERS") == "required":
        pytest.fail(f"{reason}: run make {target}")
    # `make test` needs Python and a compiler, nothing else. `.ci/run` requires the servers, so there this is a failure.
    pytest.skip(f"{reason}: run make {target}")
