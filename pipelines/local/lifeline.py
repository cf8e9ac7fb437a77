"""The entry of a worker process: `python -m tokcore_pipelines.local.lifeline LIFELINE MODULE...`.

See tokcore_pipelines.local.pool.

The worker ends as soon as its parent ends, even in another process group. The lifeline is a pipe whose only write end
the parent holds, so when the parent ends, the worker reads end-of-file. It watches the pipe before any slow import.
"""

from __future__ import annotations

import os
import sys
import threading


def _end_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, args=(int(sys.argv[1]),), daemon=True).start()
    from tokcore_pipelines.local.worker import main

    main(sys.argv[2:])
