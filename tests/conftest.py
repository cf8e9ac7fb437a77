"""Shared by all tests. Being here also puts tests/ on the import path, for the helper modules beside it."""

from __future__ import annotations

import pytest
from hypothesis import settings
from support.sanitized import NotPossibleError, Programs

# No deadline: how long an example takes says more about what else the machine does.
settings.register_profile("tokcore", deadline=None)
settings.load_profile("tokcore")


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """Programs of tests/native and tests/fuzz under the address and undefined-behaviour sanitizers."""
    try:
        return Programs(tmp_path_factory.mktemp("sanitized"))
    except NotPossibleError as error:
        pytest.skip(str(error))  # a user may have installed a wheel: the sanitizers need a compiler that has them
