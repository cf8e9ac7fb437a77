"""Whether learning has the memory that it needs. Where it has not, the system would kill it, which says nothing."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from tokcore.count.pretoken_tables import BLOCK_ROWS
from tokcore.count.sum_of_runs import MOST_OPEN
from tokcore.errors import StageError
from tokcore.models import MODELS, ModelType
from tokcore_pipelines.local.memory import Available, find_available
from tokcore_pipelines.local.terminal import format_number, format_size
from tokcore_schemas.config import BuildConfig

# For each row that is read at a time while tables are weighed: the first block of each table that is open.
_READ_ROW_BYTES = 80
LEAST_LEFT_BYTES = 8 << 20  # for the next rows, while tables are weighed


NOT_IN_ROUNDS = "only bpe, if it extends nothing, is learned with less, in rounds"


class TooLittleMemoryError(StageError):
    """Learning needs more memory than there is.

    lack: what needs it, and how much there is. available: that. enough: with how much it would be done.
    """

    def __init__(self, lack: str, available: Available, enough: str = "") -> None:
        super().__init__(
            f"learn: {lack}. {enough}The count tables are done and stay. Give it more memory and run the same command "
            f"again; or learn on another machine or engine that reaches the output (tokcore learn); or leave rare "
            f"pre-tokens out with learn.min_documents."
        )
        self.lack = lack
        self.available = available


def find_learn_memory(config: BuildConfig, held_bytes: int = 0) -> Available | None:
    """What learning may still take: the least of what there is and what learn.memory_bytes leaves; None if unknown.

    held_bytes: what it holds already.
    """
    known = [] if (found := find_available()) is None else [found]
    if (limit := config.learn.memory_bytes) is not None:
        known.append(Available(max(0, limit - held_bytes), f"learn.memory_bytes = {limit}"))
    return min(known, default=None)


def find_row_bytes(config: BuildConfig, num_rows: int, pretoken_bytes: int) -> int:
    """The memory in bytes that learning takes for each row of the count tables, the rows themselves included.

    pretoken_bytes: of num_rows pre-tokens together, from which the mean is taken.
    """
    each, of_byte = (ModelType if config.extended else MODELS[config.learn.model]).learn_row_bytes
    return each + -(-of_byte * pretoken_bytes // max(1, num_rows))


def require_memory(num_rows: int, row_bytes: int, held_bytes: int = 0, available: Available | None = None) -> None:
    """Raise StageError if learning from so many distinct pre-tokens needs more memory than there is.

    row_bytes: as find_row_bytes tells. held_bytes: what this process already holds of the need. available: found here
    if None.
    """
    said = f"{format_number(num_rows)} distinct pre-tokens need about {format_size(row_bytes * num_rows)} of memory"
    said += f" ({format_size(held_bytes)} of it is held)" if held_bytes else ""
    _require(row_bytes * num_rows - held_bytes, said, available)


def find_read_bytes(rows_of_tables: Iterable[int]) -> int:
    """How many bytes of memory reading all tables at once takes, from the rows of each."""
    return _READ_ROW_BYTES * sum(heapq.nlargest(MOST_OPEN, (min(rows, BLOCK_ROWS) for rows in rows_of_tables)))


def require_memory_to_read(rows_of_tables: Iterable[int], available: Available | None = None) -> int:
    """How many bytes reading takes, from the rows of each table. Raises StageError if less memory is available."""
    needed = find_read_bytes(rows_of_tables)
    _require(needed, f"reading the count tables needs about {format_size(needed)} of memory", available)
    return needed


def require_memory_to_go_on(
    num_rows: int, most_rows: int, row_bytes: int, held_bytes: int, available: Available | None = None
) -> None:
    """As require_memory, while rows are read, of which there are most_rows at most; also raises if hardly any is left.

    held_bytes: what is held of learning's memory, and what is given up when all rows are read.
    """
    if num_rows == most_rows:
        require_memory(num_rows, row_bytes, held_bytes, available)
        return
    needed = max(row_bytes * num_rows - held_bytes, LEAST_LEFT_BYTES)
    said = (
        f"{format_number(num_rows)} to {format_number(most_rows)} distinct pre-tokens need "
        f"{format_size(row_bytes * num_rows)} to {format_size(row_bytes * most_rows)} of memory "
        f"({format_size(held_bytes)} of it is held)"
    )
    _require(needed, said, available)


def _require(needed: int, said: str, available: Available | None) -> None:
    available = available or find_available()
    if available is None or needed <= available.size_bytes:
        return
    raise TooLittleMemoryError(f"{said}, and {available.limit} leaves {format_size(available.size_bytes)}", available)
