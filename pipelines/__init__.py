"""Stages: where and when. Beam, storage, command line.

For pipelines of your own: CountPretokens and EncodeDocuments, over PCollection[schemas.Document].
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.graph.transforms import CountPretokens, EncodeDocuments

__all__ = ["CountPretokens", "EncodeDocuments"]


def __getattr__(name: str) -> Any:
    # Late, because worker processes import this package and must not load Beam: a second and 100 MB each.
    if name in __all__:
        from pipelines.graph import transforms

        return getattr(transforms, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
