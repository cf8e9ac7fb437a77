"""Files beside a shard that no format owns: documents, provenance and pieces files, and where readers look for them."""

from __future__ import annotations

from pathlib import Path

from tokcore.formats.partition_names import find_partition


def find_beside(path: str, ends: tuple[str, ...], folder: str, suffix: str) -> str | None:
    """The path of a shard's file of one kind: beside the shard, or where a build has it; None if there is none.

    path: that the shard goes by. ends: possible ends of path that are not the shard's name. folder, suffix: of the
    kind.
    """
    file = Path(path)
    stem = file.name.removesuffix(next(end for end in (*ends, "") if file.name.endswith(end))) + suffix
    own = file.parent
    # Above the shard may be folders of its language or partition, its split and its format.
    partition = find_partition(own)
    top = own.parents[partition.count("/")] if partition else own
    above = list(top.parents[:3])
    own_names = partition or own.name
    beside = ((up / folder / own_names) for up in (above[:2] if partition else above[1:]))
    for place in (own, *(up / folder for up in above), *beside):
        if (place / stem).is_file():
            return str(place / stem)
    return None
