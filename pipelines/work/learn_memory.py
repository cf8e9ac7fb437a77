"""Whether learning has the memory that it needs. Where it has not, the system would kill it, which says nothing."""

from __future__ import annotations

from tokcore.errors import StageError
from tokcore_pipelines.local.memory import Available, find_available
from tokcore_pipelines.local.terminal import format_number, format_size

# Of memory, for each row of the count tables; tests/benchmarks/README.md has what was measured.
ROW_BYTES = 190


def require_memory(num_rows: int, held_bytes: int = 0, available: Available | None = None) -> None:
    """Raise StageError if learning from so many distinct pre-tokens needs more memory than there is.

    held_bytes: what this process already holds of it. available: found here if None.
    """
    available = available or find_available()
    needed = ROW_BYTES * num_rows - held_bytes
    if available is None or needed <= available.size_bytes:
        return
    raise StageError(
        f"learn: {format_number(num_rows)} distinct pre-tokens need about {format_size(needed)} of memory, and "
        f"{available.limit} leaves {format_size(available.size_bytes)}. The count tables are done and stay. Give it "
        f"more memory and run the same command again; or learn on another machine or engine that reaches the output "
        f"(tokcore learn); or leave rare pre-tokens out with learn.min_documents."
    )
