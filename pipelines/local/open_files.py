"""How many files a process may have open at a time."""

from __future__ import annotations

import contextlib
import resource

_MOST = 1 << 20


def allow_open_files() -> None:
    """Let this process open as many files as the system lets it allow itself: often 1,024 at first, and many more then.

    Shards of many partitions are open at the same time, in several files each.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # of a system that has a lower limit than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
