"""Making the plan: files are cut into ranges, and ranges dealt into work items. Follows from names and sizes alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schemas.encodings import UTF16
from schemas.packed_rows import SortedRows
from schemas.plan import InputFile, InputRange, Plan, ReadSettings, WorkItem, flatten_file, pack_files, pack_items

# Formats whose records begin after a line feed, so that a range can find its first record by itself.
# Only these are cut: a file that can be rejected as a whole must be read by one reader.
CUTTABLE = frozenset({("jsonl", "none", ""), ("text", "none", "line")})

# Text bytes that a stored byte is worth, about: what balances work items. Only the sizes of items hang on it.
_EXPANSION = {"none": 1, "gz": 4, "zst": 4, "bz2": 5, "xz": 5}


def make_plan(
    files: Iterable[InputFile],
    settings: Sequence[ReadSettings],
    range_bytes: int,
    duplicates: Iterable[str] = (),
) -> Plan:
    """The plan of these files: sorted by uri, large plain ones cut every range_bytes, small ones dealt in runs.

    A run ends with the file that brings it to about range_bytes / 2 of text, so that a corpus of many small files
    keeps many workers busy and its shards still reach a useful size.
    """
    ordered = pack_files(_sort_files(files))
    items = pack_items()
    run: list[InputRange] = []
    run_text = 0

    def close() -> None:
        nonlocal run_text
        if run:
            items.append(WorkItem(len(items), tuple(run), sum(r.end - r.start for r in run)))
            run.clear()
            run_text = 0

    for index, file in enumerate(ordered):
        text = estimate_text_bytes(file.size_bytes, settings[file.settings])
        if 2 * text >= range_bytes:
            close()
        for start, end in _cut_file(file, settings[file.settings], range_bytes):
            run.append(InputRange(index, start, end))
            run_text += estimate_text_bytes(end - start, settings[file.settings])
            if 2 * run_text >= range_bytes:
                close()
    close()
    return Plan(ordered, tuple(settings), items, tuple(sorted(set(duplicates))))


def _sort_files(files: Iterable[InputFile]) -> Iterable[InputFile]:
    found = SortedRows(flatten_file, InputFile, key=lambda file: file.uri)
    for file in files:
        found.add(file)
    return found


def estimate_text_bytes(stored_bytes: int, settings: ReadSettings) -> int:
    """About how many bytes of text these stored bytes hold."""
    factor = 4 if settings.format == "parquet" else _EXPANSION[settings.compression]
    return stored_bytes * factor


def _cut_file(file: InputFile, settings: ReadSettings, range_bytes: int) -> list[tuple[int, int]]:
    is_cuttable = (settings.format, settings.compression, settings.unit) in CUTTABLE
    # In UTF-16 a byte that looks like a line feed may be half of another character.
    if not is_cuttable or settings.encoding in UTF16 or file.size_bytes <= range_bytes:
        return [(0, file.size_bytes)]
    starts = range(0, file.size_bytes, range_bytes)
    return [(start, min(start + range_bytes, file.size_bytes)) for start in starts]
