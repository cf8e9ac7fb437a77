"""What a store raises: transient errors are tried again, the others become StageErrors that name the URL."""

from __future__ import annotations

import contextlib
import errno
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from tokcore.errors import StageError, TokError, list_causes
from tokcore_pipelines.store.redaction import make_cause, redact
from tokcore_pipelines.store.refusals import NO_BUCKET, explain_refusal, find_code, has_expired, is_bare

Result = TypeVar("Result")

ATTEMPTS = 8
FIRST_PAUSE_SECONDS = 0.1
_PAUSE_GROWTH = 2.0  # pauses of up to 0.1, 0.2, ... and 6.4 seconds
_PATIENCE_SECONDS = 20  # a library may have tried for long before it raises, or waited for an answer
_LEAST_ATTEMPTS = 3  # however long they take
_EXPIRED_ATTEMPTS = 3

# Waiting does not fix these. Callers tell them apart, or they are named where they are caught.
_PERMANENT = (TokError, FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, MemoryError)
_PERMANENT_CODES = (errno.ELOOP, errno.ENAMETOOLONG)  # of disks
_REFUSED = (ValueError, TypeError, NotImplementedError)

_counts: Counter[str] = Counter()
_num_told = 0
_lock = threading.Lock()
_watcher: Callable[[str], None] | None = None


def _know_no_reason(url: str) -> Exception | None:
    return None


_ask_why: Callable[[str], Exception | None] = _know_no_reason


def retry(what: str, url: str, operation: Callable[[], Result], attempts: int = 0) -> Result:
    """The operation's result; transient errors are retried, those of the file system pass through as they are.

    attempts: 0 for the usual number. Raises StageError after the last one, and for what the store or its library
    refuses for good.
    """
    attempts = attempts or ATTEMPTS
    began = time.monotonic()
    failure: Any = None
    for attempt in range(attempts):
        try:
            result = operation()
            failure = None  # see name_errors
            return result
        except _PERMANENT:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in _PERMANENT_CODES:
                raise
            failure = error
        if is_bare(failure):
            failure = _ask_why(url) or failure
        refusal = explain_refusal(failure)
        if isinstance(failure, PermissionError) and not refusal:
            raise failure
        if isinstance(failure, _REFUSED) or (refusal and not (has_expired(failure) and attempt < _EXPIRED_ATTEMPTS)):
            break
        if time.monotonic() - began > _PATIENCE_SECONDS and attempt + 1 >= _LEAST_ATTEMPTS:
            attempts = attempt + 1
            break
        if attempt < attempts - 1:
            count_retry(_name_failure(failure))
            time.sleep(make_pause(attempt))
    reason = redact(" ".join(str(failure).split())).rstrip(".") or type(failure).__name__
    if refusal or isinstance(failure, _REFUSED):
        text = f"{redact(url)}: cannot {what}: {reason}{'. ' * bool(refusal)}{refusal}"
        raise StageError(text) from make_cause(failure)
    raise StageError(
        f"{redact(url)}: cannot {what}{f', tried {attempts} times' if attempts > 1 else ''}: {reason}. "
        f"Finished work is kept: run the same command again when the store answers"
    ) from make_cause(failure)


def make_pause(attempt: int) -> float:
    """Seconds to wait after the attempt of that number, from 0. Drawn, so that workers do not come back together."""
    pause: float = FIRST_PAUSE_SECONDS * _PAUSE_GROWTH**attempt * random.uniform(0.5, 1)
    return pause


def count_retry(why: str) -> None:
    """Note that something is tried again, here or in the process that watch() tells. why: a store's code, or a name."""
    with _lock:
        _counts[why] += 1
    if _watcher is not None:
        _watcher(why)


def take_new_retries() -> int:
    """How many retries there were in this process since the last call; for metrics, which are added up."""
    global _num_told
    with _lock:
        num_new, _num_told = _counts.total() - _num_told, _counts.total()
    return num_new


def list_retries() -> dict[str, int]:
    """Why requests were tried again in this process -> how often."""
    with _lock:
        return dict(sorted(_counts.items()))


def count_retries() -> int:
    """How many requests were tried again in this process."""
    return sum(list_retries().values())


def describe_retries() -> str:
    """A line of the report; "" if nothing was tried again."""
    if not (counts := list_retries()):
        return ""
    reasons = ", ".join(f"{why}: {times:,}" for why, times in counts.items())
    return f"retries    {sum(counts.values()):,} requests to stores were tried again: {reasons}"


def explain_by(ask_why: Callable[[str], Exception | None]) -> None:
    """Call ask_why(url) for the reason of a refusal that came without one."""
    global _ask_why
    _ask_why = ask_why


def watch(watcher: Callable[[str], None] | None) -> None:
    """Call watcher(why) for everything that is tried again from now on, from any thread; None to stop."""
    global _watcher
    _watcher = watcher


def _name_failure(failure: BaseException) -> str:
    for error in list_causes(failure):
        if code := find_code(error) or getattr(error, "status", None) or getattr(error, "code", None):
            return str(code)
    return type(failure).__name__


@contextlib.contextmanager
def name_errors(what: str, url: str) -> Iterator[None]:
    """Turns what a store raises into a StageError that names the URL."""
    try:
        yield
        return
    except OSError as error:
        failure = error
    try:
        raise StageError(_explain_failure(what, url, failure)) from make_cause(failure)
    finally:
        # It holds this frame, which would hold it: a cycle, with all that the callers have in hand.
        del failure


def _explain_failure(what: str, url: str, failure: OSError) -> str:
    reason = redact(failure.strerror or str(failure)) or type(failure).__name__
    refusal = explain_refusal(failure)
    if isinstance(failure, FileNotFoundError) and "://" in url:  # a store's own words may be a long URL
        is_bucket = what in ("write", "create", "list") or refusal == NO_BUCKET  # all else that is missing gets made
        reason = NO_BUCKET if is_bucket else "it is not there: correct the name"
    elif refusal:
        reason += f". {refusal}"
    return f"{redact(url)}: cannot {what}: {reason}"
