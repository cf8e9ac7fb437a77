"""The Flink cluster of tests/engines: one for each file of tests, whole again after each test."""

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
    """The cluster of the file, all of whose parts run."""
    yield shared_cluster
    shared_cluster.recover()
