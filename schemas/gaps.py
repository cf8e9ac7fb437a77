"""Gaps in packed rows: documents that were taken down in place, so that all other documents stay where they are.

    packed/gaps.jsonl: a line for each stream of documents that has some

Such rows are those of all documents, removed ones included, with padding for the ids of these. The gaps say where these
were, and how long; what they were is nowhere.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from tokcore.files.canonical_json import write_canonical_json
from tokcore.files.jsonable import to_jsonable, written_unless

GAPS = "gaps.jsonl"  # in the folder of the stage

StreamKey = tuple[str, str]  # (folder of a language or partition, or empty where shards hold all; split)


class KeptRows(NamedTuple):
    """Rows that stay where they are in a part that is made in the place of theirs."""

    part: str  # URL of the part that has them
    sha256: str  # of the manifest of the rows
    content_sha256: str  # of what it names, which does not depend on where inputs are
    segments: int | None  # of its mixture, if it has one


@dataclasses.dataclass(frozen=True, slots=True)
class Gaps:
    """The documents of one stream that were removed."""

    split: str
    documents: tuple[int, ...]  # their numbers in the stream, ascending, as if all were there
    lengths: tuple[int, ...]  # the ids of each
    folder: str = written_unless("")

    @property
    def stream(self) -> StreamKey:
        return self.folder, self.split

    def to_line(self) -> bytes:
        """Its line of the file."""
        return write_canonical_json(to_jsonable(self))
