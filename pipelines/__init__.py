"""Stages: where and when. Beam, storage, command line.

Builds from Python: build, update, check, remove, verify, report; what they take and give: Build, Source, Learn,
Progress, Output (api/README.md).

For pipelines of your own, over PCollection[tokcore_schemas.Document]: ReadDocuments, CountPretokens, EncodeDocuments,
ChunkDocuments, WriteShards.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tokcore_pipelines.api.callable_rooms import ROOMS, Package

if TYPE_CHECKING:
    from tokcore_pipelines.api.calls import build, check, remove, report, update, verify
    from tokcore_pipelines.api.outputs import Output
    from tokcore_pipelines.local.progress import Progress
    from tokcore_pipelines.transforms.chunk_documents import ChunkDocuments
    from tokcore_pipelines.transforms.read_documents import ReadDocuments
    from tokcore_pipelines.transforms.transforms import CountPretokens, EncodeDocuments
    from tokcore_pipelines.transforms.write_shards import WriteShards
    from tokcore_schemas.build_classes import Learn, Source
    from tokcore_schemas.build_in_python import Build

__all__ = [
    "Build",
    "ChunkDocuments",
    "CountPretokens",
    "EncodeDocuments",
    "Learn",
    "Output",
    "Progress",
    "ReadDocuments",
    "Source",
    "WriteShards",
    "build",
    "check",
    "remove",
    "report",
    "update",
    "verify",
]

_MODULES = {
    "Build": "tokcore_schemas.build_in_python",
    "ChunkDocuments": "tokcore_pipelines.transforms.chunk_documents",
    "CountPretokens": "tokcore_pipelines.transforms.transforms",
    "EncodeDocuments": "tokcore_pipelines.transforms.transforms",
    "Learn": "tokcore_schemas.build_classes",
    "Output": "tokcore_pipelines.api.outputs",
    "Progress": "tokcore_pipelines.local.progress",
    "ReadDocuments": "tokcore_pipelines.transforms.read_documents",
    "Source": "tokcore_schemas.build_classes",
    "WriteShards": "tokcore_pipelines.transforms.write_shards",
    **dict.fromkeys(("remove", "report", "update", "verify"), "tokcore_pipelines.api.calls"),
}

sys.modules[__name__].__class__ = Package


def __getattr__(name: str) -> Any:
    # Late, because worker processes import this package and must not load Beam: a second and 100 MB each.
    if name in ROOMS:
        return import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
