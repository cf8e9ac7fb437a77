"""Fixtures for all tests. That this file is here also puts tests/, with its helper modules, on the import path."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import builds
from support.command_server import find_changes, serving_workers, take_environment
from support.examples import load_profile
from support.sanitized import NotPossibleError, Programs

pytest_plugins = ["support.costs", "support.proof"]

load_profile()

# How the names of the files begin whose tests share a cluster.
FLINK = "tests/engines/test_flink"

# A shell starts what runs in the background with SIGINT ignored, and children inherit that. Tests interrupt theirs.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With --dist loadfile, the files that share a Flink cluster go to one process, which starts one."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByCluster(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = str(super()._split_scope(nodeid))
            return FLINK if file.startswith(FLINK) else file

    return ByCluster(config, log)


def pytest_collection_finish() -> None:
    """Libraries set variables when test files import them."""
    take_environment()
    # What was imported stays. Collections of garbage, for which watchers ask in each round, need not look at it again.
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def kept_environment() -> Iterator[None]:
    """Fails a file that leaves a variable changed. Commands of later tests could not run in children of the server."""
    yield
    assert not find_changes(os.environ)


@pytest.fixture(scope="module", autouse=True)
def served_workers() -> Iterator[None]:
    """Workers are forked from the server, which has imported all that they need. Tests of the pool replace this."""
    with serving_workers():
        yield


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For what is made once in a run. Processes of pytest-xdist have folders of their own below a common one."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session", autouse=True)
def kept_builds(shared_folder: Path) -> None:
    """Equal builds are made once: support.builds.run_once()."""
    builds.kept = shared_folder / "builds"


@pytest.fixture(scope="session")
def sanitized(shared_folder: Path) -> Programs:
    """Programs of tests/native and tests/fuzz under the address and undefined-behaviour sanitizers."""
    try:
        return Programs(shared_folder / "sanitized")
    except NotPossibleError as error:
        pytest.skip(str(error))  # who installed a wheel may have no compiler that has the sanitizers
