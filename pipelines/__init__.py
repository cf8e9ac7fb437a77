"""Stages: where and when. Beam, storage, command line.

For pipelines of your own, over PCollection[tokcore_schemas.Document]: ReadDocuments, CountPretokens, EncodeDocuments,
WriteShards.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokcore_pipelines.transforms.read_documents import ReadDocuments
    from tokcore_pipelines.transforms.transforms import CountPretokens, EncodeDocuments
    from tokcore_pipelines.transforms.write_shards import WriteShards

__all__ = ["CountPretokens", "EncodeDocuments", "ReadDocuments", "WriteShards"]


def __getattr__(name: str) -> Any:
    # Late, because worker processes import this package and must not load Beam: a second and 100 MB each.
    if name in __all__:
        from tokcore_pipelines.transforms import read_documents, transforms, write_shards

        return next(getattr(room, name) for room in (read_documents, transforms, write_shards) if hasattr(room, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
