"""Whether the packages are installed that builds need, and tokcore's own modules do without: the extra `build`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec

# The modules of what the extra `build` of pyproject.toml lists.
MODULES = ("apache_beam", "click", "fsspec", "grpc", "isal", "prometheus_client", "rich", "warcio", "zstandard")


def describe_missing(modules: Sequence[str] = MODULES, find: Callable[[str], object] = find_spec) -> str | None:
    """What to install, in a line; None if all is there. Looks for the modules, and imports none."""
    missing = [name for name in modules if find(name) is None]
    if not missing:
        return None
    return f"builds need packages that are not installed ({', '.join(missing)}): pip install 'tokcore[build]'"
