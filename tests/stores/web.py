"""A folder on a web server of the loopback device, also as a data set or a model of the Hugging Face Hub."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

REPO = "corpora/small"
_COMMIT = "0" * 40


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    folder: Path
    requests: list[tuple[str, str, str]]  # method, path, range


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """(URL of the server, the requests that it gets: method, path, range) while the block runs."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.folder, server.requests = folder, []
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.requests
    finally:
        server.shutdown()
        server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.server.requests.append((self.command, path, self.headers.get("Range", "")))
        if path.startswith("/api/"):
            return self._answer_api(path.removeprefix(f"/api/datasets/{REPO}"), body)
        file = self.server.folder / re.sub(f"^(/datasets)?/{REPO}/resolve/[^/]*/", "", path).lstrip("/")
        if not file.is_file():
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
        data, headers = file.read_bytes(), {"ETag": f'"{_tag(file)}"', "X-Repo-Commit": _COMMIT}
        headers["Accept-Ranges"] = "bytes"
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            first, last = int(match[1]), min(int(match[2] or len(data) - 1), len(data) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            return self._send(206, data[first : last + 1], headers)
        return self._send(200, data, headers)

    def _answer_api(self, path: str, body: bytes) -> None:
        """What huggingface_hub asks: the repository, its tree, and some of its paths."""
        files = [file for file in sorted(self.server.folder.iterdir()) if file.is_file()]
        if path.startswith("/tree/"):
            return self._send_json([_describe(file) for file in files] if path.count("/") == 2 else [])
        if path.startswith("/paths-info/"):
            wanted = json.loads(body)["paths"]
            return self._send_json([_describe(file) for file in files if file.name in wanted])
        siblings = [{"rfilename": file.name} for file in files]
        return self._send_json({"id": REPO, "sha": _COMMIT, "siblings": siblings, "private": False, "tags": []})

    def _send_json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _describe(file: Path) -> dict[str, Any]:
    return {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": _tag(file)}


def _tag(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()
