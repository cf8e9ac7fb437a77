"""Reading without the garbage collector, which would look again and again through all that is read."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Collect no garbage until the block ends, or the function that this decorates.

    For what makes a hundred thousand small objects that stay and none that go: half of its time would be the
    collector's. Threads may do so at the same time: who found the collector at work sets it to work again.

    >>> with no_collection():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
