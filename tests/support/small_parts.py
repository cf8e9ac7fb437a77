"""What stands in for tokcore_pipelines.history.small_parts.make_small_part in worker processes, which import it from
here.
"""

from __future__ import annotations

import os
import signal

from tokcore.errors import StageError


def fail_in_worker(_config: object, _output: str, _part: object) -> None:
    """Fail, as a stage does."""
    raise StageError("stage build: failed")


def kill_worker(_config: object, _output: str, _part: object) -> None:
    """Die, as if killed from outside."""
    os.kill(os.getpid(), signal.SIGKILL)
