"""Whether an error about memory says something of the machine, or of the bytes of a file."""

from __future__ import annotations

import os
import re

_ASKED = re.compile(r"alloc of size (\d+)")


def raise_shortage(error: BaseException) -> None:
    """Raise an error about memory again: the bytes that were read are not to blame.

    Unless more was asked for than the machine has: so much stands in damaged bytes, and never in ours. Arrow's error
    about memory is an ArrowException, too, so it passes for one about bytes.
    """
    if isinstance(error, MemoryError):
        asked = _ASKED.search(str(error))
        if asked is None or int(asked[1]) <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
            raise error
