"""The entry of a worker process: `python -m pipelines.local.lifeline LIFELINE`. See pipelines.local.pool.

It ends at once when its parent does, in whatever process group either of them is: the lifeline, a pipe whose only
write end the parent holds, reads end-of-file then. That is watched before anything is imported that takes time.
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
    from pipelines.local.worker import main

    main()
