"""The server of `tokcore view`: it listens on the loopback interface, and answers only who has its token.

A request is refused unless its path begins with the token of this run, its Host is this server, and its Origin, if it
has one, is this server, too: so neither other users' programs nor pages of other sites can ask. Nothing is written.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tokcore.errors import TokError
from tokcore_pipelines.look.view.answers import ANSWERS, search_documents
from tokcore_pipelines.look.view.shelf import Shelf
from tokcore_pipelines.look.view.view_page import write_view_page
from tokcore_pipelines.store.redaction import redact

_HOST = "127.0.0.1"
_MOST_QUESTION_BYTES = 1_000_000
_SECONDS = 30.0  # that a client may take to send its request

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class _RefusedError(Exception):
    """A request that is not answered."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class ViewServer(ThreadingHTTPServer):
    """Serves a shelf on a port of 127.0.0.1 until shutdown."""

    daemon_threads = True

    def __init__(self, shelf: Shelf, port: int = 0) -> None:
        """port: 0 chooses a free one. Raises OSError if it is taken."""
        super().__init__((_HOST, port), _Handler)
        self.shelf = shelf
        self.token = secrets.token_urlsafe(24)
        self.page, self.policy = write_view_page(shelf)
        number = self.server_address[1]
        self.hosts = frozenset({f"{_HOST}:{number}", f"localhost:{number}"})
        self.url = f"http://{_HOST}:{number}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is no error; the standard library would print a traceback."""


class _Handler(BaseHTTPRequestHandler):
    server: ViewServer
    timeout = _SECONDS
    server_version, sys_version = "tokcore", ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        try:
            if self._admit():
                raise _RefusedError(HTTPStatus.NOT_FOUND, "there is no such page")
            self._send(HTTPStatus.OK, self.server.page, "text/html; charset=utf-8", self.server.policy)
        except _RefusedError as refused:
            self._refuse(refused.status, refused.why)

    def do_POST(self) -> None:
        try:
            name = self._admit()
            question = self._read_question()
            if name == "search":
                self._stream(search_documents(self.server.shelf, question))
            elif (answer := ANSWERS.get(name)) is not None:
                self._send_json(HTTPStatus.OK, answer(self.server.shelf, question))
            else:
                raise _RefusedError(HTTPStatus.NOT_FOUND, "there is no such question")
        except _RefusedError as refused:
            self._refuse(refused.status, refused.why)
        except TokError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, redact(str(error)))

    def _admit(self) -> str:
        """What of the path follows the token. Raises _RefusedError unless the request may be answered."""
        hosts, origins = self.headers.get_all("Host", []), self.headers.get_all("Origin", [])
        if len(hosts) != 1 or hosts[0] not in self.server.hosts:
            raise _RefusedError(HTTPStatus.FORBIDDEN, "this host is not the server")
        if any(origin.removeprefix("http://") not in self.server.hosts for origin in origins):
            raise _RefusedError(HTTPStatus.FORBIDDEN, "this origin is not the server")
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise _RefusedError(HTTPStatus.FORBIDDEN, "another site asks")
        token, slash, name = self.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()) or not slash:
            raise _RefusedError(HTTPStatus.FORBIDDEN, "the token is wrong: open the URL that tokcore view printed")
        return name

    def _read_question(self) -> Mapping[str, Any]:
        if self.headers.get_content_type() != "application/json":
            raise _RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected application/json")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and int(length) <= _MOST_QUESTION_BYTES):
            raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the question is too long")
        try:
            question = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError) as error:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "the question is no JSON") from error
        if not isinstance(question, dict):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "the question is no object")
        return question

    def _stream(self, hits: Iterator[Mapping[str, Any]]) -> None:
        """A line of JSON for each hit, sent as it is found. A wrong question is refused before the first."""
        first = next(hits, None)
        self.close_connection = True
        self._begin(HTTPStatus.OK, "application/x-ndjson")
        self.send_header("Connection", "close")
        self.end_headers()
        while first is not None:
            self.wfile.write(_encode(first) + b"\n")
            self.wfile.flush()
            try:
                first = next(hits, None)
            except TokError as error:
                first = None
                self.wfile.write(_encode({"error": redact(str(error))}) + b"\n")

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self.close_connection = True  # what follows in a body that was not read is no request
        self._send_json(status, {"error": why})

    def _send_json(self, status: HTTPStatus, value: Any) -> None:
        self._send(status, _encode(value), "application/json")

    def _send(self, status: HTTPStatus, data: bytes, content_type: str, policy: str = "default-src 'none'") -> None:
        self._begin(status, content_type, policy)
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def _begin(self, status: HTTPStatus, content_type: str, policy: str = "default-src 'none'") -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", f"{policy}; frame-ancestors 'none'")
        self.send_header("Content-Type", content_type)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: paths hold the token."""


def _encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
