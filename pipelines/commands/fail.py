"""How a command fails: its message and exit code."""

from __future__ import annotations

import sys
from typing import NoReturn

from tokcore_pipelines.local.say import say_message

# The exit codes that commands choose; pipelines/cli.py has those of signals.
EXIT_PROBLEM, EXIT_USAGE, EXIT_STAGE, EXIT_WAITS = 1, 2, 3, 4


def fail(error: Exception | str, code: int) -> NoReturn:
    """Print the error, without secrets, and end the process with this exit code."""
    from tokcore_pipelines.store.redaction import redact  # loads fsspec

    say_message(f"error: {redact(str(error))}")
    sys.exit(code)
