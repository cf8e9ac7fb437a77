"""What was read of the parts of an output, kept from one commit to the next. Parts never change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from tokcore_pipelines.store.parallel_requests import run_at_once
from tokcore_schemas.commit_log import Part

T = TypeVar("T")


class KeptParts(Generic[T]):
    """Reads each part of an output once."""

    def __init__(self, read: Callable[[str, Part], T]) -> None:
        """read: what is wanted of a part, given the output's URL and the part."""
        self._read = read
        self._kept: dict[tuple[str, Part], T] = {}

    def read_all(self, output: str, parts: Sequence[Part]) -> list[T]:
        """What is wanted of each part. Forgets what was kept of others: a watcher replaces most of its parts."""
        kept = self._kept
        new = [part for part in parts if (output, part) not in kept]
        read = dict(zip(new, run_at_once(lambda part: self._read(output, part), new), strict=True))
        found = [read[part] if part in read else kept[output, part] for part in parts]
        self._kept = {(output, part): one for part, one in zip(parts, found, strict=True)}
        return found
