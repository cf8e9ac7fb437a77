"""Where the servers that Beam starts in this process listen: on the loopback interface, unless told otherwise.

Beam binds the servers of its multi-process mode and of its worker pools to every interface, without a password, and
unpickles what they receive. This is the one place that fixes it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import grpc

LOOPBACK = "127.0.0.1"
_ANYWHERE = re.compile(r"^(\[::\]|0\.0\.0\.0|\*|)(?=:\d+$)")

_serving = threading.Lock()
_hosts: list[str] = []
_any_server = grpc.server


def bind_to_loopback() -> AbstractContextManager[None]:
    """While the block runs, servers that Beam starts in this process listen on the loopback interface only."""
    return bind_to(LOOPBACK)


@contextmanager
def bind_to(host: str) -> Iterator[None]:
    """While the block runs, servers that Beam would bind to every interface listen on that address."""
    with _serving:
        _hosts.append(host)
        grpc.server = _make_bound_server
    try:
        yield
    finally:
        with _serving:
            _hosts.remove(host)
            if not _hosts:
                grpc.server = _any_server


def _make_bound_server(*arguments: Any, **settings: Any) -> Any:
    server = _any_server(*arguments, **settings)
    add_port = server.add_insecure_port
    host = _hosts[-1]
    server.add_insecure_port = lambda address: add_port(_ANYWHERE.sub(host, address))
    return server
