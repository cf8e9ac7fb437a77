"""Which addresses this process and its children listen on, while something runs."""

from __future__ import annotations

import contextlib
import ipaddress
import threading
from collections.abc import Iterator

import psutil


@contextlib.contextmanager
def watched() -> Iterator[set[str]]:
    """Collects the addresses, looking every few milliseconds and once at the end of the block.

    What listens before, such as the servers of other tests, does not count.
    """
    before = _list_listening()
    seen: set[str] = set()
    done = threading.Event()

    def look() -> None:
        seen.update(ip for ip, _ in _list_listening() - before)

    def watch() -> None:
        while not done.wait(0.005):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seen
        look()
    finally:
        done.set()
        thread.join()


def is_loopback(address: str) -> bool:
    found = ipaddress.ip_address(address)
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def _list_listening() -> set[tuple[str, int]]:
    """(address, port) of all that listens in this process and those that it started."""
    found: set[tuple[str, int]] = set()
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            found |= {(*c.laddr,) for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN}
    return found
