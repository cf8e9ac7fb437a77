"""Says which tests are the proof's: `make test` runs the others, `make proof` these.

A plugin of pytest, which tests/conftest.py loads. A test is the proof's if its folder or a fixture says so, or the mark
`proof`. A test outside of it that asks for a server fails, so that `make test` is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.examples import find_profile

# Servers, engines, a browser, sanitizers and other compilers.
FOLDERS = {"browser", "engines", "native", "stores"}
FIXTURES = {"prism", "sanitized"}
# These take as long as one lets them. With the profile `proof`, they are longer than in `make test`.
LONGER = {"chaos"}
_TESTS = Path(__file__).parents[1]
_running: list[pytest.Item] = []


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before pytest deselects what -m leaves out."""
    folders = find_folders()
    for item in items:
        folder = item.path.relative_to(_TESTS).parts[0]
        if folder in folders or FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("proof")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _running[:] = [item]
    try:
        return (yield)
    finally:
        _running.clear()


def find_folders() -> set[str]:
    """The folders whose tests are all the proof's."""
    return FOLDERS | (LONGER if find_profile().scale > 1 else set())


def require_mark() -> None:
    """Fail the test that runs if it is not the proof's."""
    if _running and not _running[0].get_closest_marker("proof"):
        pytest.fail("a test that asks for a server is the proof's: mark it with pytest.mark.proof")
