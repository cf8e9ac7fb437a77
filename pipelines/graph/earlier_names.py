"""The names by which our packages were imported until they got names that nobody else has: graphs of jobs hold them.

A driver of an earlier release that is as good as this one may have submitted the graph, and engines keep it: Flink in a
savepoint, Dataflow in a job that it starts again.
"""

from __future__ import annotations

from tokcore.earlier_names import find_renamed_package

_EARLIER = {"pipelines": "tokcore_pipelines", "schemas": "tokcore_schemas"}


def read_earlier_names() -> None:
    """Let this process, a worker, find what such a graph names."""
    for earlier, name in _EARLIER.items():
        find_renamed_package(earlier, name)
