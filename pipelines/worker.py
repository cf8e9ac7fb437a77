"""A worker process of the local runner: `python -m pipelines.worker LIFELINE`. See pipelines.pool.

It ends at once when its parent does, in whatever process group either of them is: the lifeline, a pipe whose only
write end the parent holds, reads end-of-file then. Ctrl-C is the parent's to handle.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
import threading
import traceback
from typing import Any, BinaryIO

from pipelines.pool import receive, send
from tokcore.errors import StageError

_replies: BinaryIO | None = None


def report_progress(num_bytes: int) -> None:
    """Tell the parent that num_bytes more stored bytes were read; does nothing outside a worker process."""
    if _replies is not None:
        send(_replies, ("progress", num_bytes))


def main() -> None:
    """Serve requests until the parent closes the pipe."""
    threading.Thread(target=_end_with_parent, args=(int(sys.argv[1]),), daemon=True).start()
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a stray print must not be taken for a reply
    # __main__ is not this module for the functions that report progress.
    import pipelines.worker

    # Hardly anything here is cyclic, and a tokenizer is half a million objects to look at, again and again.
    gc.set_threshold(1 << 17)
    pipelines.worker._replies = replies
    while True:
        try:
            function, arguments = receive(requests)
        except EOFError:
            return
        try:
            reply = ("result", function(*arguments))
        except Exception as error:  # the parent raises it where the work was asked for
            reply = ("error", _portable(error))
        send(replies, reply)


def _end_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(1)


def _portable(error: Exception) -> Any:
    """The error itself if it survives pickling, else a StageError that quotes it."""
    error.add_note("in a worker process:\n" + "".join(traceback.format_tb(error.__traceback__)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return StageError("".join(traceback.format_exception(error)))
    return error


if __name__ == "__main__":
    main()
