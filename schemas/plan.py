"""The plan: which bytes of which files are read, cut into ranges and dealt into work items before anything runs.

Every boundary and every name of a build follows from it, so nothing depends on workers or bundles.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# Formats whose records begin after a line feed, so that a range can find its first record by itself.
# Only these are cut: a file that can be rejected as a whole must be read by one reader.
CUTTABLE = frozenset({("jsonl", "none", ""), ("text", "none", "line")})

# Text bytes that a stored byte is worth, about: what balances work items. Only the sizes of items hang on it.
_EXPANSION = {"none": 1, "gz": 4, "zst": 4}

# One partition of the count tables per this many planned bytes, so that one merge stays within a worker's memory.
BYTES_PER_PARTITION = 1 << 30
MAX_PARTITIONS = 256


@dataclasses.dataclass(frozen=True, slots=True)
class InputFile:
    """One file of the corpus as it was when the build was planned."""

    uri: str  # as named by the build file: relative to it, or absolute
    size_bytes: int  # as stored
    version: str  # etag, generation or modification time: what changes when the file does
    settings: int  # index into the plan's read settings


@dataclasses.dataclass(frozen=True, slots=True)
class InputRange:
    """Bytes [start, end) of one file; it owns the records that start in it."""

    file: int  # index into the plan's files
    start: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class WorkItem:
    """What one worker does without a pause: one range of a large file, or a run of small files."""

    number: int
    ranges: tuple[InputRange, ...]
    size_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class AssignedRange:
    """An input range with all that a worker needs to read it."""

    file: int  # index into the plan's files
    uri: str
    size_bytes: int  # of the whole file
    version: str
    start: int
    end: int
    settings: dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Assignment:
    """A work item as it is handed to a worker."""

    number: int
    ranges: tuple[AssignedRange, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """Files sorted by uri, the settings they are read with, and the work items in order."""

    files: tuple[InputFile, ...]
    settings: tuple[dict[str, Any], ...]
    items: tuple[WorkItem, ...]
    duplicates: tuple[str, ...]  # uris that were matched more than once, each read once

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def assignment(self, item: WorkItem) -> Assignment:
        """The work item with its files' pins and settings beside it."""
        ranges = []
        for r in item.ranges:
            file = self.files[r.file]
            ranges.append(
                AssignedRange(
                    r.file, file.uri, file.size_bytes, file.version, r.start, r.end, self.settings[file.settings]
                )
            )
        return Assignment(item.number, tuple(ranges))

    @property
    def num_partitions(self) -> int:
        """Hash partitions of the count tables: a power of two that follows from the planned bytes alone."""
        wanted = -(-self.size_bytes // BYTES_PER_PARTITION)
        return min(MAX_PARTITIONS, 1 << (max(1, wanted) - 1).bit_length())


def make_plan(
    files: Iterable[InputFile],
    settings: Sequence[Mapping[str, Any]],
    range_bytes: int,
    duplicates: Iterable[str] = (),
) -> Plan:
    """The plan of these files: sorted by uri, large plain ones cut every range_bytes, small ones dealt in runs.

    A run ends with the file that brings it to about range_bytes / 2 of text, so that a corpus of many small files
    keeps many workers busy and its shards still reach a useful size.
    """
    ordered = tuple(sorted(files, key=lambda file: file.uri))
    items: list[WorkItem] = []
    run: list[InputRange] = []
    run_text = 0

    def close() -> None:
        nonlocal run_text
        if run:
            items.append(WorkItem(len(items), tuple(run), sum(r.end - r.start for r in run)))
            run.clear()
            run_text = 0

    for index, file in enumerate(ordered):
        text = expected_text(file.size_bytes, settings[file.settings])
        if 2 * text >= range_bytes:
            close()
        for start, end in _cuts(file, settings[file.settings], range_bytes):
            run.append(InputRange(index, start, end))
            run_text += expected_text(end - start, settings[file.settings])
            if 2 * run_text >= range_bytes:
                close()
    close()
    return Plan(ordered, tuple(dict(s) for s in settings), tuple(items), tuple(sorted(set(duplicates))))


def expected_text(stored_bytes: int, settings: Mapping[str, Any]) -> int:
    """About how many bytes of text these stored bytes hold."""
    factor = 4 if settings["format"] == "parquet" else _EXPANSION[settings["compression"]]
    return stored_bytes * factor


def _cuts(file: InputFile, settings: Mapping[str, Any], range_bytes: int) -> list[tuple[int, int]]:
    unit = settings["unit"] if settings["format"] == "text" else ""
    if (settings["format"], settings["compression"], unit) not in CUTTABLE or file.size_bytes <= range_bytes:
        return [(0, file.size_bytes)]
    starts = range(0, file.size_bytes, range_bytes)
    return [(start, min(start + range_bytes, file.size_bytes)) for start in starts]
