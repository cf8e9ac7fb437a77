"""Whether a failure is the fault of the files that were read, or of this machine and its stores."""

from __future__ import annotations

import errno
import os

from tokcore.errors import TokError, list_causes
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER, WATCHERS
from tokcore_pipelines.store.redaction import redact

_MOST_SHOWN = 600  # characters of an error

# Not the fault of a file that is read: the output, or this machine, has no room or does not let us write.
_OF_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def blames_machine(error: BaseException, output: str) -> bool:
    """Whether an error is no fault of the files that were read: nothing can be written, or a store does not answer.

    Errors of workers arrive as text, so their words are looked at, too.
    """
    if any(isinstance(one, OSError) and one.errno in _OF_MACHINE for one in list_causes(error)):
        return True
    if any(os.strerror(number) in str(error) for number in _OF_MACHINE):
        return True
    probe = urls.join(output, FOLDER, WATCHERS, "probe")
    try:
        with storage.write_attempt(probe) as file:
            file.write(bytes(1 << 16))
        storage.remove_file(probe)
    except (TokError, OSError):
        return True
    return False


def shorten(error: Exception) -> str:
    """An error in one line, without secrets."""
    return " ".join(redact(str(error)).split())[:_MOST_SHOWN]
