"""Where the programs begin: what builds need is looked for first, since tokcore is installed without it, too."""

from __future__ import annotations

import sys
from typing import NoReturn

from tokcore_pipelines.local.extras import describe_missing

_EXIT_USAGE = 2


def main() -> NoReturn:
    """The program `tokcore`."""
    _leave_unless_installed("tokcore")
    from tokcore_pipelines.cli import main  # needs click

    main()


def work() -> None:
    """The program `tokcore-worker`."""
    _leave_unless_installed("tokcore-worker")
    from tokcore_pipelines.run.engines.boot_worker import main  # needs Beam

    main()


def _leave_unless_installed(program: str) -> None:
    if missing := describe_missing():
        from tokcore_pipelines.local.say import say  # only where something is missing

        say(f"{program}: {missing}", err=True)
        sys.exit(_EXIT_USAGE)
