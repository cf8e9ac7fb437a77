"""Which split a document belongs to: it follows from its key, or its group, or its source. No Beam."""

from __future__ import annotations

from decimal import Decimal
from typing import Protocol

from tokcore_pipelines.reading.records import Batch
from tokcore_schemas.document import compute_group_key, is_selected


class Dealing(Protocol):
    """What deals documents to splits: the share for validation, an exact decimal or empty, and the build's seed."""

    @property
    def validation(self) -> str: ...

    @property
    def seed(self) -> int | None: ...


def choose_splits(dealing: Dealing, batch: Batch, part: slice, is_validation: bool = False) -> list[str]:
    """The split of each document of a part of the batch. is_validation: whether their source is kept for validation."""
    share, seed = Decimal(dealing.validation or 0), dealing.seed or 0
    if is_validation or share == 0:
        return ["validation" if is_validation else "train"] * (part.stop - part.start)
    out = []
    for i in range(part.start, part.stop):
        key = compute_group_key(batch.groups[i]) if batch.groups is not None else batch.compute_key(i)
        out.append("validation" if is_selected(key, seed, "validation", share) else "train")
    return out
