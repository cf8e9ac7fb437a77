"""The stores as fixtures: each server starts once for the tests of a file that ask for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from stores.servers import STARTS, Store


@pytest.fixture(scope="session")
def _s3() -> Iterator[Store]:
    with STARTS["s3"]() as store:
        yield store


@pytest.fixture(scope="session")
def _gcs() -> Iterator[Store]:
    with STARTS["gcs"]() as store:
        yield store


@pytest.fixture(scope="session")
def _azure() -> Iterator[Store]:
    with STARTS["azure"]() as store:
        yield store


@pytest.fixture
def s3(_s3: Store) -> Iterator[Store]:
    """moto's S3 server behind a proxy without faults and requests."""
    _s3.proxy.reset()
    yield _s3
    _s3.proxy.reset()


@pytest.fixture
def gcs(_gcs: Store) -> Iterator[Store]:
    _gcs.proxy.reset()
    yield _gcs
    _gcs.proxy.reset()


@pytest.fixture
def azure(_azure: Store) -> Iterator[Store]:
    _azure.proxy.reset()
    yield _azure
    _azure.proxy.reset()


@pytest.fixture(params=["s3", "gcs", "azure"])
def store(request: pytest.FixtureRequest) -> Store:
    """Each of the three, one after the other."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Store)
    return found
