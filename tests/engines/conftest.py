"""The Flink cluster of tests/engines: one for each file of tests, as it was at first for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.flink import FlinkCluster


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    """The cluster of a file of tests, whatever they did to it."""
    with FlinkCluster(tmp_path_factory.mktemp("flink") / "cluster") as started:
        yield started


@pytest.fixture
def cluster(shared_cluster: FlinkCluster) -> Iterator[FlinkCluster]:
    """The cluster, of which no other test uses anything, or has broken anything."""
    yield shared_cluster
    shared_cluster.recover()
