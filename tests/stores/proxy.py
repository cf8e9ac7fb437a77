"""A strict proxy in front of a server of objects: it keeps the promises that the server behind it only makes.

  - Creation is atomic: two requests that write one name never overlap, and a condition is checked between them.
  - A body must have the checksums that came with it.
  - Every request is recorded: operation, key, bytes, and the process that asked.
  - Some requests fail, as a seed says.

It runs in threads of the test's process; builds run in other processes.
"""

from __future__ import annotations

import http.client
import random
import re
import socket
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psutil
from stores.dialects import S3, TROUBLES, Answer, Question

# Beside TROUBLES: no answer and nothing done; no answer but done; half of the answer's body.
CUTS = ("cut_before", "cut_after", "cut_body")
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "server", "date"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request that was answered, or cut off."""

    operation: str
    key: str
    sent_bytes: int  # of its body
    received_bytes: int  # of the answer's body
    status: int  # 0: cut off
    creates_only: bool
    checksums: tuple[str, ...]
    trouble: str  # what was made to fail; empty if nothing
    process: int  # id of who asked; 0 if not looked up
    range: tuple[int, int] | None = None  # first byte that was asked for, and the one after the last; None: all
    account: str = ""  # access key id of who asked S3


@dataclass(slots=True)
class Faults:
    """Which requests fail. The same seed lets the same ones fail: the n-th of a kind for a key, in whatever order.

    shares: trouble or cut -> share of the requests. concerns: which operations and keys; all.
    most: of all faults, no more than these.
    """

    shares: Mapping[str, float]
    seed: int = 0
    concerns: Callable[[str, str], bool] = lambda operation, key: True
    most: int = 1 << 62
    fired: Counter[str] = field(default_factory=Counter)
    _asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def pick(self, operation: str, key: str) -> str:
        """What goes wrong with this request; empty if nothing does."""
        if not self.concerns(operation, key):
            return ""
        with self._lock:
            self._asked[operation, key] += 1
            if self.fired.total() >= self.most:
                return ""
            chance = random.Random(f"{self.seed} {operation} {key} {self._asked[operation, key]}").random()
            for name, share in self.shares.items():
                if chance < share:
                    self.fired[name] += 1
                    return name
                chance -= share
        return ""


class Proxy:
    """A proxy on a free port of the loopback device, until close().

    ignores_conditions: act as a store that does not know conditional creation.
    names_processes: look up who asks, which takes some milliseconds for each connection.
    """

    def __init__(self, upstream: str, dialect: S3) -> None:
        self.upstream = upstream
        self.dialect = dialect
        self.faults: Faults | None = None
        self.ignores_conditions = False
        self.names_processes = False
        self.requests: list[Request] = []
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reset(self) -> None:
        """Forget requests and faults."""
        self.requests = []
        self.faults = None
        self.ignores_conditions = self.names_processes = False

    def count(self) -> Counter[str]:
        """Operation -> number of requests, those that were made to fail included."""
        return Counter(request.operation for request in self.requests)

    def answer(self, asked: Question, process: int) -> Iterator[Answer | None]:
        """One answer. None: cut the connection. After it, if there is another one: half of its body, then a cut."""
        operation, key = self.dialect.operation(asked), self.dialect.key(asked)
        trouble = self.faults.pick(operation, key) if self.faults else ""
        answer: Answer | None = None
        if trouble in TROUBLES:
            answer = self.dialect.refuse(trouble)
        elif trouble != "cut_before":
            answer = self._ask(asked, key)
        status, size = (answer[0], len(answer[2])) if answer else (0, 0)
        if trouble in ("cut_before", "cut_after"):
            answer, status, size = None, 0, 0
        condition, sums = self.dialect.creates_only(asked), self.dialect.checksums(asked)
        span = _read_range(asked.headers.get("range", ""))
        signed = re.search(r"Credential=([^/]+)/", asked.headers.get("authorization", ""))
        account = signed[1] if signed else ""
        request = Request(
            operation, key, len(asked.body), size, status, condition, sums, trouble, process, span, account
        )
        self.requests.append(request)
        yield answer
        if trouble == "cut_body":
            yield None

    def _ask(self, asked: Question, key: str) -> Answer:
        if asked.method in ("GET", "HEAD"):
            return self._forward(asked)
        if damage := self.dialect.damage(asked):
            return damage
        with self._locks[key]:
            if self.dialect.creates_only(asked):
                if self.ignores_conditions:
                    asked = self.dialect.without_condition(asked)
                elif type(self.dialect) is S3 and self._forward(self.dialect.exists(asked))[0] == 200:
                    return self.dialect.taken()
            return self._forward(asked)

    def _forward(self, asked: Question) -> Answer:
        connection = http.client.HTTPConnection(self.upstream, timeout=120)
        try:
            headers = {name: value for name, value in asked.headers.items() if name not in _HOP_BY_HOP}
            headers.pop("expect", None)
            headers["content-length"] = str(len(asked.body))
            if asked.method in ("GET", "HEAD", "DELETE") and not asked.body:
                headers.pop("content-length")
            connection.request(asked.method, asked.target, asked.body or None, headers)
            reply = connection.getresponse()
            kept = {name: value for name, value in reply.getheaders() if name.lower() not in _HOP_BY_HOP}
            return reply.status, kept, reply.read()
        finally:
            connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    proxy: Proxy

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed is no error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: two would wait for each other
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self._process = _client(self.client_address[1]) if self.server.proxy.names_processes else 0

    def handle_one_request(self) -> None:
        try:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            self._reply()
        except OSError:
            self.close_connection = True

    def handle_expect_100(self) -> bool:
        self.send_response_only(100)
        self.end_headers()
        self.wfile.flush()
        return True

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _reply(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Question(self.command, self.path, headers, self._body(headers))
        answers = list(self.server.proxy.answer(asked, self._process))
        answer, cut = answers[0], len(answers) > 1
        if answer is None:
            return self._cut()
        status, kept, body = answer
        self.send_response_only(status)
        for name, value in kept.items():
            if name.lower() != "content-length" or self.command == "HEAD":
                self.send_header(name, value)
        if self.command != "HEAD" and status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)
        self.wfile.flush()
        if cut:
            self._cut()
        return None

    def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(headers.get("content-length", "0")))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _cut(self) -> None:
        self.close_connection = True
        # Closed with a reset, not as if the answer had ended.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.connection.close()


def _read_range(header: str) -> tuple[int, int] | None:
    match = re.fullmatch(r"bytes=(\d+)-(\d+)", header)
    return (int(match[1]), int(match[2]) + 1) if match else None


def _client(port: int) -> int:
    for connection in psutil.net_connections("tcp4"):
        if connection.laddr and connection.laddr.port == port and connection.raddr:
            return connection.pid or 0
    return 0
