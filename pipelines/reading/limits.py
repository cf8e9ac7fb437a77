"""How much a file may unfold to, and the rule that a file proves its end before it gives out anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

Block = TypeVar("Block")

# A file that unfolds to no more than this is decompressed once and kept; a larger one is read twice: to check, to use.
KEPT_BYTES = 1 << 27
# A file may unfold to FREE_BYTES plus MAX_RATIO bytes for each stored byte; more is taken for a decompression bomb.
FREE_BYTES = 1 << 32
MAX_RATIO = 256
# A parquet or Arrow file of no more than this is read from the store at once; of a larger one, what is needed.
IN_MEMORY_BYTES = 1 << 26


def read_to_end_first(read: Callable[[], Iterator[Block]], size_of: Callable[[Block], int]) -> Iterator[Block]:
    """The blocks of read(), but none before read() has come to its end once.

    Up to KEPT_BYTES of blocks are kept for that; if there are more, read() is called a second time.
    """
    kept: list[Block] = []
    size_bytes = 0
    for block in read():
        size_bytes += size_of(block)
        if size_bytes <= KEPT_BYTES:
            kept.append(block)
        else:
            kept.clear()
    if size_bytes > KEPT_BYTES:
        yield from read()
    else:
        kept.reverse()
        while kept:
            yield kept.pop()
