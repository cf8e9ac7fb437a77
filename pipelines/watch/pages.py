"""The pages of a watcher: /healthz, /readyz and /metrics."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from tokcore.errors import ConfigError

_PLAIN = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"


class Page(NamedTuple):
    is_well: bool  # whether the status is 200, or 503
    content: bytes
    type: str = _PLAIN


class Pages:
    """Serves pages from a thread, until end()."""

    def __init__(self, listen: str, pages: Mapping[str, Callable[[], Page]]) -> None:
        """listen: HOST:PORT; port 0 is any free one. Raises ConfigError if it cannot listen there."""
        host, _, port = listen.rpartition(":")

        class Handler(_Handler):
            served = pages

        try:
            self._server = ThreadingHTTPServer((host.strip("[]"), int(port)), Handler)
        except (OSError, ValueError, OverflowError) as error:
            raise ConfigError(
                f"watch.listen = {listen}: {error}. Name another HOST:PORT with --listen; port 0 is any free one."
            ) from error
        self._server.daemon_threads = True
        self.address = f"{host}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def end(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()


def serve_pages(
    listen: str | None, ready: Callable[[], Page], write_metrics: Callable[[], bytes], say: Callable[[str], None]
) -> Pages | None:
    """The pages of a watcher, until end(); None if it is not to listen."""
    if not listen:
        return None
    pages = Pages(
        listen,
        {
            "/healthz": lambda: Page(True, b"ok\n"),
            "/readyz": ready,
            "/metrics": lambda: Page(True, write_metrics(), _METRICS),
        },
    )
    say(f"watch: http://{pages.address} has /healthz, /readyz and /metrics")
    return pages


class _Handler(BaseHTTPRequestHandler):
    served: Mapping[str, Callable[[], Page]]
    timeout = 10  # seconds for a request to arrive: a silent client holds a thread no longer

    def do_GET(self) -> None:
        make = self.served.get(self.path.partition("?")[0])
        page = make() if make is not None else Page(False, "\n".join([*self.served, ""]).encode())
        self.send_response(404 if make is None else 200 if page.is_well else 503)
        self.send_header("Content-Type", page.type)
        self.send_header("Content-Length", str(len(page.content)))
        self.end_headers()
        self.wfile.write(page.content)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged: probes come every few seconds."""
