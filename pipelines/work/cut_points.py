"""Where a long file that can be rejected whole is cut: between row groups, or blocks.

Asked once, when a new build is planned, of files of more than two ranges of text. What is found stands in the plan.
"""

from __future__ import annotations

from collections.abc import Sequence

from tokcore_pipelines.reading.records import FileRejected
from tokcore_pipelines.reading.seekable import SeekableText
from tokcore_pipelines.store.storage import FileId, open_pinned
from tokcore_pipelines.store.urls import explain_unreadable
from tokcore_pipelines.work.work_items import estimate_text_bytes
from tokcore_schemas.encodings import UTF16
from tokcore_schemas.plan import ReadSettings

_LEAST_RANGES = 2
# Compressions of which there are files that can be read from several places.
_SEEKABLE = frozenset({"gz", "zst", "xz"})


def may_have_cuts(size_bytes: int, settings: ReadSettings, range_bytes: int) -> bool:
    """Whether it is worth a look where a file can be cut. size_bytes: as stored."""
    if estimate_text_bytes(size_bytes, settings) < _LEAST_RANGES * range_bytes:
        return False
    if settings.attributes is not None and settings.attributes.join == "ordinal":
        return False  # its rows are named by ordinals, which would be others
    if settings.format == "parquet":
        return True
    has_lines = settings.format == "jsonl" or (settings.format == "text" and settings.unit == "line")
    return has_lines and settings.compression in _SEEKABLE and settings.encoding not in UTF16


def find_cuts(file: FileId, settings: ReadSettings, range_bytes: int) -> tuple[int, ...]:
    """As InputFile.cuts. Empty if the file cannot be cut, or is damaged.

    Reads what the file says of its row groups or blocks. Raises StageError if it cannot be read or has changed.
    """
    if explain_unreadable(file.url):
        return ()
    try:
        with open_pinned(file) as opened:
            if settings.format != "parquet":
                cuts = SeekableText(opened, file.size_bytes, settings.compression).list_cuts(range_bytes)
                return cuts if len(cuts) >= _LEAST_RANGES else ()
            # They load pyarrow.
            from tokcore_pipelines.reading.parquet_layout import read_row_groups
            from tokcore_pipelines.reading.row_file import RowFile

            groups = read_row_groups(RowFile(opened, reads_at_once=False))
            return cut_groups([(group.num_rows, group.unfolded_bytes) for group in groups], range_bytes)
    except (FileRejected, ValueError, KeyError, IndexError, TypeError, OverflowError):
        return ()  # the file is read whole, and its reader says what is wrong


def cut_groups(groups: Sequence[tuple[int, int]], range_bytes: int) -> tuple[int, ...]:
    """The ends of ranges of rows, each of whole groups with range_bytes or more, if there are two or more.

    groups: (rows, bytes that they unfold to) of each.

    >>> cut_groups([(10, 70), (10, 70), (5, 30), (7, 5)], 100)
    (20, 32)
    """
    cuts: list[int] = []
    rows = size_bytes = 0
    for num_rows, unfolded_bytes in groups:
        rows += num_rows
        size_bytes += unfolded_bytes
        if size_bytes >= range_bytes and rows > (cuts[-1] if cuts else 0):
            cuts.append(rows)
            size_bytes = 0
    if rows > (cuts[-1] if cuts else 0):
        cuts.append(rows)
    return tuple(cuts) if len(cuts) >= _LEAST_RANGES else ()
