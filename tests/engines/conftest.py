"""The Flink cluster of tests/engines: one for all files, whole again after each test.

tests/conftest.py gives these files to one process of pytest-xdist.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.flink import FlinkCluster


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    """The cluster, whatever tests did to it."""
    with FlinkCluster(tmp_path_factory.mktemp("flink") / "cluster") as started:
        yield started


@pytest.fixture
def cluster(shared_cluster: FlinkCluster) -> Iterator[FlinkCluster]:
    """The cluster, all of whose parts run."""
    yield shared_cluster
    shared_cluster.recover()
