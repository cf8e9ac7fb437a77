"""The stores as fixtures: each server starts once for the tests of a file that ask for it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import fsspec
import pytest
from stores.servers import GCSFS_SWITCH, STARTS, Store

# Read once, when gcsfs is imported: without it, gcsfs would ask Google by gRPC for the kind of bucket, for minutes.
os.environ.setdefault(GCSFS_SWITCH, "false")


@pytest.fixture(autouse=True)
def _forget_opened_stores() -> None:
    """Let no test get a file system that an earlier one opened with another environment: fsspec keeps them."""
    for scheme in ("s3", "gs", "abfs"):
        fsspec.get_filesystem_class(scheme).clear_instance_cache()


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
def s3_here(s3: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """S3, for this process, too."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return s3


@pytest.fixture
def gcs(_gcs: Store) -> Iterator[Store]:
    _gcs.proxy.reset()
    yield _gcs
    _gcs.proxy.reset()


@pytest.fixture
def gcs_here(gcs: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Google's, for this process, too."""
    for name, value in gcs.environment.items():
        monkeypatch.setenv(name, value)
    return gcs


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
