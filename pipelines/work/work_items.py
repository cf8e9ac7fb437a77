"""Making the plan: files are cut into ranges, and ranges dealt into work items. Follows from names and sizes alone."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Sequence

from tokcore_schemas.encodings import UTF16
from tokcore_schemas.packed_rows import PackedRows, SortedRows
from tokcore_schemas.plan import (
    InputFile,
    InputRange,
    Plan,
    ReadSettings,
    Runs,
    WorkItem,
    build_file,
    flatten_file,
    pack_items,
    take_share,
)

# Formats whose records begin after a line feed, so that a range can find its first record by itself.
# Any other file can be rejected as a whole: one reader reads it, or its ranges are proved first (InputFile.cuts).
_CUTTABLE = frozenset({("jsonl", "none", ""), ("text", "none", "line")})

# Text bytes that a stored byte is worth, about: what balances work items. Only the sizes of items hang on it.
_EXPANSION = {"none": 1, "gz": 4, "zst": 4, "bz2": 5, "xz": 5}


# A run of small files has at most so many, however small they are; in plans of earlier releases, ten times as many.
MAX_RUN_FILES = 1_000
_MAX_HASHED_FILES = 10_000


def make_plan(
    files: Iterable[InputFile],
    settings: Sequence[ReadSettings],
    range_bytes: int,
    duplicates: Iterable[str] = (),
    runs: Runs | None = None,
) -> Plan:
    """The plan of these files: sorted by uri, large ones cut, small ones dealt in runs.

    Plain files are cut every range_bytes, others where they say.

    A run has about range_bytes / 2 of text, so that a corpus of many small files keeps many workers busy and its
    shards still reach a useful size. It ends where a hash of a uri says, so a new file changes its own run alone. runs:
    how they end, in a plan that there is; None: as in new plans, which have few files in each.
    """
    ordered = _sort_files(files)
    items = _make_items(ordered, settings, range_bytes, "hash" if runs is None else runs)
    if runs is None and any(len(item.ranges) > MAX_RUN_FILES for item in items):
        runs = "few"
        items = _make_items(ordered, settings, range_bytes, runs)
    named = tuple(sorted(set(duplicates)))
    return Plan(ordered, tuple(settings), items, named, runs="hash" if runs is None else runs)


def _make_items(
    ordered: Iterable[InputFile], settings: Sequence[ReadSettings], range_bytes: int, runs: Runs
) -> PackedRows[WorkItem]:
    """The work items of sorted files."""
    ends_run = _ends_run_by_size if runs == "" else _ends_run_by_hash
    least = -(-range_bytes // MAX_RUN_FILES) if runs == "few" else 0  # that a file counts as
    items = pack_items()
    run: list[InputRange] = []
    run_text = run_bytes = 0

    def close() -> None:
        nonlocal run_text, run_bytes
        if run:
            items.append(WorkItem(len(items), tuple(run), run_bytes))
            run.clear()
            run_text = run_bytes = 0

    for index, file in enumerate(ordered):
        text = estimate_text_bytes(file.size_bytes, settings[file.settings])
        if 2 * text >= range_bytes:
            close()
        text = max(text, least)
        for start, end in _cut_file(file, settings[file.settings], range_bytes):
            run.append(InputRange(index, start, end))
            size_bytes = take_share(file.size_bytes, file.length, start, end)
            run_bytes += size_bytes
            run_text += max(least, estimate_text_bytes(size_bytes, settings[file.settings]))
            if ends_run(file.uri, text, run_text, len(run), range_bytes):
                close()
    close()
    return items


def _sort_files(files: Iterable[InputFile]) -> PackedRows[InputFile]:
    found = SortedRows(flatten_file, build_file, key=lambda file: file.uri)
    for file in files:
        found.add(file)
    return found.pack()


def _ends_run_by_size(uri: str, text: int, run_text: int, num_files: int, range_bytes: int) -> bool:
    """Whether a run ends with a range of this file. text: of the file; run_text, num_files: of the run, with the range.

    A run may begin with the end of a file that is cut.
    """
    return 2 * run_text >= range_bytes


def _ends_run_by_hash(uri: str, text: int, run_text: int, num_files: int, range_bytes: int) -> bool:
    """As _ends_run_by_size. A run has at least 1/8 of range_bytes of text, unless it has many files, and less than 3/2.

    In between a file ends it with the odds of its text in 3/8 of range_bytes, so 1/2 is what runs have on average. A
    range of a file that is not small is alone.
    """
    if 2 * text >= range_bytes or run_text >= range_bytes or num_files >= _MAX_HASHED_FILES:
        return True
    if 8 * run_text < range_bytes:
        return False
    drawn = int.from_bytes(hashlib.sha256(uri.encode("utf-8", "surrogateescape")).digest()[:8], "big")
    return 3 * range_bytes * drawn < (8 * text) << 64


def estimate_text_bytes(stored_bytes: int, settings: ReadSettings) -> int:
    """About how many bytes of text these stored bytes hold."""
    factor = 4 if settings.format == "parquet" else _EXPANSION[settings.compression]
    return stored_bytes * factor


def is_cuttable(settings: ReadSettings) -> bool:
    """Whether several workers may read one file. In UTF-16 what looks like a line feed may be half of a character."""
    return (settings.format, settings.compression, settings.unit) in _CUTTABLE and settings.encoding not in UTF16


def _cut_file(file: InputFile, settings: ReadSettings, range_bytes: int) -> list[tuple[int, int]]:
    if file.cuts:
        return [*itertools.pairwise((0, *file.cuts))]
    if not is_cuttable(settings) or file.size_bytes <= range_bytes:
        return [(0, file.size_bytes)]
    starts = range(0, file.size_bytes, range_bytes)
    return [(start, min(start + range_bytes, file.size_bytes)) for start in starts]
