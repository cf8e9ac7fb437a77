"""`faultfs://`: a store that misbehaves as a schedule says, on top of a local folder.

It behaves like an object store: a file appears whole when its upload ends, creation is atomic, folders are only
prefixes, listings come from a cache until it is invalidated. A fault is (operation, number of the call, kind, how many
calls). The same list over the same calls gives the same faults. Kinds:
    error        the call fails and does nothing
    foreign      the same, with an exception of the store's own
    lost_answer  the call does its work, but fails
    full         there is no space from then on
    short        a read returns fewer bytes than asked for
    early_end    a read returns nothing, as if the file ended
    lost         a copy or a removal does nothing, but succeeds
    torn         a copy or an upload keeps half, but succeeds
    flipped      a copy or an upload flips a bit, but succeeds
    changed      the input has other content from then on
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
from fsspec.spec import AbstractFileSystem

from tokcore_pipelines.store import urls

READS = {"info": ("error", "foreign"), "read": ("error", "foreign", "short", "early_end", "changed")}
WRITES = {
    "upload": ("error", "foreign", "full", "lost_answer", "torn", "flipped"),
    "create": ("error", "foreign", "full", "lost_answer"),
    "copy": ("error", "foreign", "full", "lost_answer", "lost", "torn", "flipped"),
    "remove": ("error", "foreign", "lost_answer", "lost"),
    "list": ("error", "foreign"),
}


class Fault(NamedTuple):
    operation: str
    call: int  # 1 is the first
    kind: str
    times: int = 1  # calls in a row


class StoreError(Exception):
    """An exception of a client library that does not use OSError."""


class Schedule:
    """Decides which call gets which fault; counts the calls."""

    def __init__(self, faults: Sequence[Fault] = ()) -> None:
        self.faults = faults
        self.calls: Counter[str] = Counter()
        self.fired: Counter[str] = Counter()
        self._lock = threading.Lock()

    def kind(self, operation: str) -> str:
        """The fault of this call, empty for none."""
        with self._lock:
            self.calls[operation] += 1
            call = self.calls[operation]
            for fault in self.faults:
                last = float("inf") if fault.kind == "full" else fault.call + fault.times - 1
                if fault.operation == operation and fault.call <= call <= last:
                    self.fired[f"{operation}: {fault.kind}"] += 1
                    return fault.kind
            return ""

    @contextmanager
    def around(self, operation: str, what: str) -> Iterator[str]:
        """Fails before or after the block; yields the kind of a fault that the block itself must cause."""
        kind = self.kind(operation)
        if kind == "error":
            raise OSError(errno.EIO, f"the store did not {operation}", what)
        if kind == "foreign":
            raise StoreError(f"503 Slow Down: {operation} {what}")
        if kind == "full":
            raise OSError(errno.ENOSPC, "No space left on device", what)
        yield kind
        if kind == "lost_answer":
            raise TimeoutError(f"no answer to {operation} {what}")


now = Schedule()


def install(faults: Sequence[Fault] = ()) -> Schedule:
    """Register faultfs:// in this process with these faults, in place of earlier ones."""
    global now
    now = Schedule(faults)
    urls._SCHEMES = {**urls._SCHEMES, "faultfs": None}  # type: ignore[misc]
    fsspec.register_implementation("faultfs", FaultFileSystem, clobber=True)
    return now


class FaultFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """See the module."""

    protocol = "faultfs"
    root_marker = "/"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._listings: dict[str, list[dict[str, Any]]] = {}
        self._infos: dict[str, dict[str, Any]] = {}

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("faultfs://").strip("/")

    def unstrip_protocol(self, name: str) -> str:
        return f"faultfs://{self._strip_protocol(name)}"

    def invalidate_cache(self, path: str | None = None) -> None:
        self._listings.clear()
        self._infos.clear()

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        if path not in self._infos:
            with now.around("info", path):
                self._infos[path] = _info(Path(path))
        return self._infos[path]

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        if path not in self._listings:
            with now.around("list", path):
                if not Path(path).is_dir():
                    raise FileNotFoundError(errno.ENOENT, "no such prefix", path)
                self._listings[path] = [_info(child) for child in sorted(Path(path).iterdir())]
        found = self._listings[path]
        return found if detail else [one["name"] for one in found]

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:  # type: ignore[override]
        path = self._strip_protocol(path)
        return _Download(Path(path)) if "r" in mode else _Upload(Path(path), is_new="x" in mode)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        target = Path(self._strip_protocol(path))
        with now.around("create", str(target)):
            if mode == "create":
                _create(target, value)
            else:
                _put(target, value)

    def copy(self, path1: str, path2: str, **_: Any) -> None:  # type: ignore[override]
        source, target = Path(self._strip_protocol(path1)), Path(self._strip_protocol(path2))
        with now.around("copy", str(target)) as kind:
            data = source.read_bytes()
            if kind != "lost":
                _put(target, _damaged(data, kind))

    def rm_file(self, path: str) -> None:
        path = self._strip_protocol(path)
        with now.around("remove", path) as kind:
            if kind != "lost":
                Path(path).unlink()

    def rm(self, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        path = self._strip_protocol(path)
        with now.around("remove", path) as kind:
            if kind != "lost":
                shutil.rmtree(path)


def _info(path: Path) -> dict[str, Any]:
    facts = path.stat()
    if path.is_dir():
        return {"name": str(path), "size": 0, "type": "directory"}
    return {
        "name": str(path),
        "size": facts.st_size,
        "type": "file",
        "ETag": f'"{facts.st_mtime_ns:x}-{facts.st_size:x}"',
    }


def _put(target: Path, data: bytes) -> None:
    """Write the file so that it appears whole, whether or not there was one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        target.unlink()  # a new file, so that readers of the old one go on reading it
    part = Path(f"/dev/shm/faultfs-{os.getpid()}-{threading.get_ident()}")
    part.write_bytes(data)
    shutil.move(part, target)


def _create(target: Path, data: bytes) -> None:
    """Write the file, whole, unless there is one: of several racers, in any processes, exactly one does."""
    with Path("/dev/shm/faultfs.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            raise FileExistsError(errno.EEXIST, "precondition failed", str(target))
        _put(target, data)


def _damaged(data: bytes, kind: str) -> bytes:
    if kind == "torn":
        return data[: len(data) // 2]
    if kind == "flipped" and data:
        middle = len(data) // 2
        return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    return data


class _Download(io.RawIOBase):
    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.is_file():
            raise FileNotFoundError(errno.ENOENT, "no such object", str(path))
        self._data = io.BytesIO(path.read_bytes())

    def tell(self) -> int:
        return self._data.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._data.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:  # type: ignore[override]
        with now.around("read", str(self._path)) as kind:
            if kind == "early_end":
                return b""
            if kind == "changed" and not _is_of_an_output(self._path):
                _put(self._path, self._path.read_bytes()[::-1])
            return self._data.read(max(1, size // 2) if kind == "short" and size > 0 else size)


def _is_of_an_output(path: Path) -> bool:
    """Whether the file is in an output. Finished files there must not change: `verify` is to find that, not a build."""
    return any((folder / name).exists() for folder in path.parents for name in ("_attempts", "plan"))


class _Upload(io.BytesIO):
    def __init__(self, path: Path, is_new: bool) -> None:
        super().__init__()
        self._path = path
        self._put = _create if is_new else _put

    def close(self) -> None:
        if not self.closed:
            with now.around("upload", str(self._path)) as kind:
                data = self.getvalue()
                super().close()
                self._put(self._path, _damaged(data, kind))

    def discard(self) -> None:
        super().close()


def random_faults(chance: Any, calls: dict[str, int], operations: dict[str, tuple[str, ...]]) -> list[Fault]:
    """One to three faults among the calls that an undisturbed build makes."""
    faults = []
    for _ in range(chance.randint(1, 3)):
        operation = chance.choice([name for name in operations if calls.get(name)])
        kind = chance.choice(operations[operation])
        times = chance.choice([1, 1, 2, 4, 5, 12]) if kind in ("error", "foreign", "short", "early_end") else 1
        faults.append(Fault(operation, chance.randint(1, calls[operation]), kind, times))
    return faults
