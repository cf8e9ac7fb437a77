"""The loop of a worker process; tokcore_pipelines.local.lifeline starts it, and tokcore_pipelines.local.pool talks to
it.

Only the parent handles Ctrl-C and SIGTERM.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import threading
import traceback
from collections.abc import Sequence
from typing import Any, BinaryIO

from tokcore.errors import StageError
from tokcore_pipelines.local.free_memory import share_arena
from tokcore_pipelines.local.pool import Report, receive, send
from tokcore_pipelines.local.spare_pandas import spare_pandas
from tokcore_pipelines.store import retries

_replies: BinaryIO | None = None
_one_at_a_time = threading.Lock()  # the libraries of stores have threads of their own


def report_progress(what: Report, num_bytes: int) -> None:
    """Tell the parent how many more bytes were worked on. Does nothing outside a worker process."""
    _tell("progress", (what, num_bytes))


def _tell(kind: str, value: Any) -> None:
    if _replies is not None:
        with _one_at_a_time:
            send(_replies, (kind, value))


def main(modules: Sequence[str]) -> None:
    """Import these modules, then serve requests until the parent closes the pipe."""
    global _replies
    share_arena()  # a watcher's workers live for months, and threads of stores come and go
    requests = os.fdopen(os.dup(0), "rb")
    _replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a stray print must not be taken for a reply
    retries.watch(lambda why: _tell("retry", why))
    # Collect rarely: hardly anything is cyclic, and each collection would visit half a million objects of a tokenizer.
    gc.set_threshold(1 << 17)
    for module in modules:
        importlib.import_module(module)
    spare_pandas()
    gc.freeze()  # modules stay, so collections need not visit their objects
    while True:
        try:
            function, arguments = receive(requests)
        except EOFError:
            return
        try:
            reply = ("result", function(*arguments))
        except Exception as error:  # the parent raises it in Pool.run
            reply = ("error", _make_picklable(error))
        _tell(*reply)


def _make_picklable(error: Exception) -> Any:
    """The error itself if it survives pickling, else a StageError that quotes it."""
    error.add_note("in a worker process:\n" + "".join(traceback.format_tb(error.__traceback__)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return StageError("".join(traceback.format_exception(error)))
    return error
