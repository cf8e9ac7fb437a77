"""Where the programs begin, and builds from Python: the packages of the extra `build` are looked for first.

Whoever reads shards or encodes text installs tokcore without them, and finds the commands on the path all the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import NoReturn

# The modules of what the extra `build` of pyproject.toml lists.
MODULES = ("apache_beam", "click", "fsspec", "grpc", "isal", "prometheus_client", "rich", "warcio", "zstandard")
_EXIT_USAGE = 2


def main() -> NoReturn:
    """The program `tokcore`."""
    _leave_unless_installed("tokcore")
    from tokcore_pipelines.cli import main

    main()


def work() -> None:
    """The program `tokcore-worker`."""
    _leave_unless_installed("tokcore-worker")
    from tokcore_pipelines.run.engines.boot_worker import main

    main()


def describe_missing(modules: Sequence[str] = MODULES, find: Callable[[str], object] = find_spec) -> str | None:
    """What to install, in a line; None if all is there. Looks for the modules, and imports none."""
    missing = [name for name in modules if find(name) is None]
    if not missing:
        return None
    return f"builds need packages that are not installed ({', '.join(missing)}): pip install 'tokcore[build]'"


def _leave_unless_installed(program: str) -> None:
    if missing := describe_missing():
        from tokcore_pipelines.local.say import say

        say(f"{program}: {missing}", err=True)
        sys.exit(_EXIT_USAGE)
