"""The one door to files: list, pin, read, write and publish them, locally or in an object store.

Nothing else in this repository opens, lists or renames files that a build file or a command line names; what a URL may
be says pipelines.store.urls.

Three promises that callers lean on:
  - a listing is never answered from a cache, and what it lists is pinned (`FileId`): a later read notices a change;
  - a read either returns the file's bytes, all of them, or raises StageError naming the URL: transient errors are
    retried from where they happened, and an early end of file counts as one;
  - what is published is complete and durable, and nothing published is ever overwritten with other bytes.

Leaves to others: what the bytes mean, and which names are chosen.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import io
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self, TypeVar, cast

from fsspec.utils import glob_translate

from pipelines.store.crashpoints import reached
from pipelines.store.redaction import as_cause, redact
from pipelines.store.urls import file_system, is_local, local_path, scheme_of
from tokcore.errors import ConfigError, StageError, TokError

Result = TypeVar("Result")

ATTEMPTS = 5
FIRST_PAUSE_SECONDS = 0.1
_PAUSE_GROWTH = 4  # pauses of 0.1, 0.4, 1.6 and 6.4 seconds
_BLOCK_BYTES = 1 << 23  # of one request to an object store
_COPY_BYTES = 1 << 20
_GLOB = re.compile(r"[*?\[]")

# Waiting does not mend these. The first callers tell apart, or they are named where they are caught.
_PERMANENT = (
    TokError,
    FileNotFoundError,
    FileExistsError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
)
_REFUSED = (ValueError, TypeError, NotImplementedError)


class Footprint(NamedTuple):
    """What a file takes, and when anything about it changed last."""

    size_bytes: int
    changed: float  # seconds since the epoch; now, if the store does not say


class FileId(NamedTuple):
    """A file pinned at the moment it was listed.

    version: "etag:...", "generation:...", "mtime_ns:...", whatever the store offers to tell one content from another;
    "size-only" where it offers nothing.
    """

    url: str
    size_bytes: int
    version: str


# -------------------------------------------------------------------------------------------------------------- retries


def _retrying(what: str, url: str, operation: Callable[[], Result], attempts: int = 0) -> Result:
    """The operation's result; transient errors are retried, those of the file system pass through as they are.

    attempts: 0 for the usual number. Raises StageError after the last one, and for what the store's library refuses.
    """
    attempts = attempts or ATTEMPTS
    for attempt in range(attempts):
        try:
            return operation()
        except _PERMANENT:
            raise
        except Exception as error:
            failure = error
        if isinstance(failure, _REFUSED):
            break
        if attempt < attempts - 1:
            time.sleep(FIRST_PAUSE_SECONDS * _PAUSE_GROWTH**attempt)
    reason = redact(str(failure)) or type(failure).__name__
    if isinstance(failure, _REFUSED):
        raise StageError(f"{redact(url)}: cannot {what}: {reason}") from as_cause(failure)
    raise StageError(
        f"{redact(url)}: cannot {what}{f', tried {attempts} times' if attempts > 1 else ''}: {reason}. "
        f"Finished work is kept: run the same command again when the store answers"
    ) from as_cause(failure)


@contextlib.contextmanager
def _named(what: str, url: str) -> Iterator[None]:
    """Turns what a store raises into a StageError that names the URL."""
    try:
        yield
        return
    except OSError as error:
        failure = error
    reason = redact(failure.strerror or str(failure)) or type(failure).__name__
    raise StageError(f"{redact(url)}: cannot {what}: {reason}") from as_cause(failure)


# -------------------------------------------------------------------------------------------------------- listing, pins


def list_files(pattern: str) -> list[FileId]:
    """The files that a URL names, pinned and sorted by URL: one file, or those a glob (* ** ? [...]) matches.

    Always asks the store. A file whose name happens to be the pattern itself is that file. Empty if nothing matches;
    folders never match. Raises ConfigError for a folder (say which files: `folder/**`) and StageError if the store does
    not answer.
    """
    system, path = file_system(pattern)

    def listing() -> list[FileId]:
        system.invalidate_cache()
        kind = _kind(system, path)
        if kind == "file":
            return [stat(pattern)]
        if _GLOB.search(path):
            found = [_listed(pattern, system, info) for info in _matching(system, path)]
            return [file for file in found if file is not None]
        if kind == "directory":
            folder = redact(pattern).rstrip("/")
            raise ConfigError(f"{folder} is a folder: name the files in it, for example {folder}/**")
        return []

    with _named("list", pattern):
        return sorted(_retrying("list", pattern, listing))


def _kind(system: Any, path: str) -> str | None:
    """What a path is, None if there is nothing. The library's own isfile, isdir and exists take any failure for no."""
    try:
        if "file" in system.protocol and Path(path).is_symlink():
            return "directory" if Path(path).is_dir() else "file" if Path(path).is_file() else None
        return str(system.info(path)["type"])
    except (FileNotFoundError, NotADirectoryError):
        return None


def _matching(system: Any, pattern: str) -> Iterator[dict[str, Any]]:
    """What the store says of everything that matches a glob; only folders that can hold a match are looked into."""
    parts = pattern.split("/")
    first = next(i for i, part in enumerate(parts) if _GLOB.search(part))
    matches = [re.compile(glob_translate("/".join(parts[: i + 1]))).match for i in range(len(parts))]
    any_depth = next((i for i, part in enumerate(parts) if "**" in part), len(parts))

    def may_hold(folder: str) -> bool:
        depth = folder.count("/")
        return depth >= any_depth or (depth < len(parts) - 1 and matches[depth](folder) is not None)

    start = "/".join(parts[:first]) or "/" * pattern.startswith("/")
    return (info for info in _below(system, start, may_hold) if matches[-1](info["name"]))


def _below(system: Any, folder: str, may_hold: Callable[[str], bool] = lambda _: True) -> Iterator[dict[str, Any]]:
    """What the store says of everything below a folder; may_hold: whether to look into a folder there.

    Of a folder that cannot be listed the library's own glob and find say nothing, as if it were empty; here it raises.
    A symbolic link is never followed.
    """
    try:
        entries = system.ls(folder, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        return
    for info in entries:
        info = {**info, "name": info["name"].rstrip("/")}
        if info["name"] == folder.rstrip("/"):
            continue
        yield info
        if info["type"] == "directory" and may_hold(info["name"]):
            yield from _below(system, info["name"], may_hold)


def _listed(pattern: str, system: Any, info: dict[str, Any]) -> FileId | None:
    """The pin of one listed name, None for what is no file."""
    name = info["name"]
    if is_local(pattern):
        return stat(name) if Path(name).is_file() else None  # a listing calls symbolic links "other"
    if info["type"] != "file":
        return None
    return FileId(str(system.unstrip_protocol(name)), int(info["size"]), _version(info))


def stat(url: str) -> FileId:
    """The pin of one file as it is now; raises StageError if there is none."""
    system, path = file_system(url)
    with _named("read", url):
        if is_local(url):
            facts = _retrying("read", url, lambda: os.stat(path))  # noqa: PTH116 - a str is what we have
            return FileId(path, facts.st_size, f"mtime_ns:{facts.st_mtime_ns}")

        def info() -> dict[str, Any]:
            system.invalidate_cache()
            return cast(dict[str, Any], system.info(path))

        described = _retrying("read", url, info)
        return FileId(str(system.unstrip_protocol(path)), int(described["size"]), _version(described))


def footprint(url: str) -> Footprint | None:
    """Size and last change of a file as it is listed, None if there is none; of a symbolic link, the link's own."""
    system, path = file_system(url)
    with _named("read", url):
        try:
            if is_local(url):
                facts = Path(path).lstat()
                return Footprint(facts.st_size, max(facts.st_mtime, facts.st_ctime))
            system.invalidate_cache()
            info = _retrying("read", url, lambda: system.info(path))
        except FileNotFoundError:
            return None
    for key in ("LastModified", "last_modified", "mtime", "updated", "created"):
        changed = info.get(key)
        if isinstance(changed, str):
            with contextlib.suppress(ValueError):
                changed = datetime.datetime.fromisoformat(changed)
        if isinstance(changed, datetime.datetime):
            return Footprint(int(info["size"]), changed.timestamp())
        if isinstance(changed, int | float):
            return Footprint(int(info["size"]), float(changed))
    return Footprint(int(info["size"]), time.time())


def exists(url: str) -> bool:
    """Whether there is a file or folder; raises StageError if the store does not answer."""
    system, path = file_system(url)

    def ask() -> bool:
        system.invalidate_cache()
        return Path(path).exists() if is_local(url) else _kind(system, path) is not None

    with _named("read", url):
        return _retrying("read", url, ask)


def _version(info: Mapping[str, Any]) -> str:
    """What tells one content of an object from the next, in one spelling for all stores."""
    for key, name in (("generation", "generation"), ("ETag", "etag"), ("etag", "etag"), ("blob_id", "blob")):
        if info.get(key):
            return f"{name}:{str(info[key]).strip(chr(34))}"
    for key in ("LastModified", "last_modified", "mtime", "created"):
        if (time_of_change := info.get(key)) is not None:
            # A listing may give seconds where a look at one file gives a datetime.
            is_datetime = isinstance(time_of_change, datetime.datetime)
            return f"modified:{time_of_change.timestamp() if is_datetime else time_of_change}"
    return "size-only"


# -------------------------------------------------------------------------------------------------------------- reading


class ReadFile(io.RawIOBase):
    """A file opened for reading: seekable, and `read(n)` gives exactly n bytes unless the end of file is nearer.

    A transient error reopens the file where it stood. With a pin, the end of file is where the pin says it is, and the
    file's version is compared when it is opened, reopened and left: a difference is a StageError. Not thread-safe.
    """

    def __init__(self, url: str, pin: FileId | None = None) -> None:
        super().__init__()
        self.url = url
        self.failure: Exception | None = None  # why reading stopped: a library between may swallow the exception
        self._pin = pin
        self._position = 0
        self._file: BinaryIO | None = None
        self._inode: tuple[int, int] | None = None  # of a local file, once it is open
        self._system, self._path = file_system(url)
        self._size = pin.size_bytes if pin is not None else stat(url).size_bytes
        try:
            with _named("read", url):
                _retrying("read", url, self._reopen)
        except StageError:
            self._check_pin()
            raise

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        return self._size

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = (0, self._position, self._size)[whence]
        if start + offset < 0:
            raise ValueError(f"seek to {start + offset}: negative")
        self._position = start + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        wanted = max(0, self._size - self._position)
        if size is not None and size >= 0:
            wanted = min(size, wanted)
        if not wanted:
            return b""
        first = self._attempt(wanted)
        if len(first) == wanted:
            return first
        pieces = [first]
        wanted -= len(first)
        while wanted:
            pieces.append(self._attempt(wanted))
            wanted -= len(pieces[-1])
        return b"".join(pieces)

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Also when something went wrong: a file that changed while it was read explains most other complaints about it.
        try:
            if kind is None or (issubclass(kind, Exception) and not issubclass(kind, StageError)):
                self._check_pin()
        finally:
            self.close()

    def _attempt(self, wanted: int) -> bytes:
        """Some of the bytes at the position, at least one, and the position behind them."""

        def read_some() -> bytes:
            if self._file is None:
                self._reopen()
            assert self._file is not None
            try:
                if self._file.tell() != self._position:
                    self._file.seek(self._position)
                data = self._file.read(wanted)
                if not data:
                    self._check_pin()
                    raise OSError(f"the file ends at byte {self._position} of {self._size}")
                if len(data) > wanted:
                    raise OSError(f"asked for {wanted} bytes, got {len(data)}")
            except OSError:
                with contextlib.suppress(Exception):
                    self._file.close()
                self._file = None
                raise
            return data

        try:
            with _named("read", self.url):
                data = _retrying("read", self.url, read_some)
        except Exception as error:
            self.failure = error
            raise
        self._position += len(data)
        return data

    def _reopen(self) -> None:
        self._check_pin()
        if is_local(self.url):
            self._file = cast(BinaryIO, open(self._path, "rb", buffering=0))  # noqa: SIM115, PTH123 - closed by close()
            if self._inode is None:
                self._inode = _inode(self._file.fileno())
        elif scheme_of(self.url) == "memory":  # its file objects share one position
            self._file = io.BytesIO(self._system.cat_file(self._path))
        else:
            self._file = self._system.open(self._path, "rb", block_size=_BLOCK_BYTES, cache_type="readahead")

    def _check_pin(self) -> None:
        if self._pin is None:
            return
        try:
            now = stat(self.url)
        except StageError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise self._changed("it is gone") from error
            raise
        if now.size_bytes != self._pin.size_bytes:
            raise self._changed(f"{self._pin.size_bytes} bytes then, {now.size_bytes} now")
        if now.version != self._pin.version:
            raise self._changed(f"{self._pin.version} then, {now.version} now")
        # Size and time can be kept when a file is replaced; a plan cannot hold inodes, which no copy of a corpus keeps.
        if self._inode is not None and _inode(self._path) != self._inode:
            raise self._changed("another file took its name while it was read")

    def _changed(self, how: str) -> StageError:
        self.failure = StageError(
            f"{redact(self.url)}: input changed since it was planned ({how}). "
            f"Restore it, or run again with a new output, which plans anew"
        )
        return self.failure


def _inode(file: str | int) -> tuple[int, int]:
    facts = os.stat(file)  # noqa: PTH116 - of a path or a descriptor
    return facts.st_dev, facts.st_ino


def open_read(url: str) -> ReadFile:
    """The file opened for reading; raises StageError if it cannot be read."""
    return ReadFile(url)


def open_pinned(file: FileId) -> ReadFile:
    """The file opened for reading as it was when pinned; raises StageError as soon as it is found to have changed."""
    return ReadFile(file.url, file)


def read_bytes(url: str) -> bytes:
    """The whole content of a file; raises StageError if it cannot be read."""
    with open_read(url) as file:
        return file.read()


# -------------------------------------------------------------------------------------------------------------- writing


@contextlib.contextmanager
def write_attempt(url: str) -> Iterator[BinaryIO]:
    """A new file to write, under a name that nobody else uses; durable when the block ends, removed if it fails."""
    system, path = file_system(url)
    if is_local(url):
        local = Path(path)
        with _named("write", url):
            _make_folder(local.parent)
            file = local.open("wb")
        try:
            with _named("write", url):
                with file:
                    yield file
                    file.flush()
                    reached("write.before_sync")
                    os.fsync(file.fileno())
                _sync_folder(local.parent)
                reached("write.after_sync")
        except BaseException:
            local.unlink(missing_ok=True)
            raise
        return
    with _named("write", url):
        remote = _retrying("write", url, lambda: system.open(path, "wb", block_size=_BLOCK_BYTES))
        try:
            yield remote
        except BaseException:
            # Closing would complete the upload of a part of the file; even the collector would close it.
            with contextlib.suppress(Exception):
                remote.discard()
                remote.closed = True
            with contextlib.suppress(Exception):
                system.rm_file(path)
            raise
        reached("write.before_sync")
        size_bytes = remote.tell()
        _retrying("write", url, remote.close, attempts=1)  # a second one would not send what the first one did
        if (stored := stat(url).size_bytes) != size_bytes:
            raise StageError(f"{redact(url)}: the store kept {stored} of {size_bytes} bytes. Run the command again")
        reached("write.after_sync")


def publish(source: str, target: str, sha256: str = "", mend: bool = False) -> None:
    """Gives a finished file its final name, in the same store. Whoever sees the name sees the whole file.

    sha256: of its bytes, if known. A copy in an object store is confirmed: by the store's checksums, or read back.
    If the target is there already with the same bytes (another attempt was first), the source is just removed; with
    other bytes, StageError. mend: nobody reads the target yet, so a copy in an object store that went wrong before is
    made again.
    """
    system, path = file_system(source)
    _, target_path = file_system(target)
    if scheme_of(source) != scheme_of(target) and not (is_local(source) and is_local(target)):
        raise StageError(f"cannot publish {redact(source)} as {redact(target)}: not the same store")
    reached("publish.before_link")
    with _named("publish", target):
        if is_local(target):
            _make_folder(Path(target_path).parent)
            try:
                os.link(path, target_path)  # unlike a rename it fails if the name is taken
            except FileExistsError:
                _require_same(source, target)
            reached("publish.after_link")
            Path(path).unlink(missing_ok=True)
            _sync_folder(Path(target_path).parent)
            return
        if exists(target) and not (mend and _is_other(target, sha256)):
            _require_same(source, target)
        else:

            def copy() -> None:
                system.copy(path, target_path)
                try:
                    _confirm_copy(source, target, sha256)
                except StageError as error:
                    # Copied again: left as it is, it would be in the way of every rerun.
                    raise OSError(str(error)) from error

            _retrying("publish", target, copy)
        reached("publish.after_link")
        with contextlib.suppress(FileNotFoundError):  # removed, and the answer was lost
            _retrying("publish", target, lambda: system.rm_file(path))


def create_exclusive(url: str, data: bytes, scratch: str) -> bool:
    """Creates a file with these bytes unless the name is taken; whether it did. Of several racers exactly one did.

    scratch: a folder of the same store; a process that is killed half-way leaves what it wrote there, not beside the
    file. Durable on return. If an answer got lost on the way, the file is read: bytes equal to these are taken for
    ours.
    """
    system, path = file_system(url)
    with _named("create", url):
        if is_local(url):
            return _create_exclusive_locally(Path(path), data, local_path(scratch))

        unsure = False

        def create() -> bool:
            nonlocal unsure
            try:
                reached("create.before_link")
                system.pipe_file(path, data, mode="create")
                reached("create.after_link")
                return True
            except FileExistsError:
                return unsure and read_bytes(url) == data
            except Exception:
                unsure = True
                raise

        return _retrying("create", url, create)


def _create_exclusive_locally(path: Path, data: bytes, scratch: Path) -> bool:
    _make_folder(path.parent)
    scratch.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=scratch, prefix=f"{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
        reached("create.before_link")
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        _sync_folder(path.parent)
        reached("create.after_link")
        return True
    finally:
        Path(temporary).unlink(missing_ok=True)


def remove_file(url: str) -> None:
    """Removes a file; fine if there is none."""
    system, path = file_system(url)
    with _named("remove", url), contextlib.suppress(FileNotFoundError):
        _retrying("remove", url, lambda: system.rm_file(path))


def remove_tree(url: str) -> None:
    """Removes a folder and all in it; fine if there is none."""
    system, path = file_system(url)
    with _named("remove", url), contextlib.suppress(FileNotFoundError):
        if is_local(url):
            _retrying("remove", url, lambda: _remove_folder(Path(path)))
        elif exists(url):
            _retrying("remove", url, lambda: system.rm(path, recursive=True))


def remove_empty_folders(url: str) -> None:
    """Removes the folder and those below it that hold no file; object stores have no such thing."""
    if not is_local(url):
        return
    for folder, _, _ in os.walk(local_path(url), topdown=False):
        with contextlib.suppress(OSError):  # not empty, or gone
            Path(folder).rmdir()


def _remove_folder(folder: Path) -> None:
    while folder.exists():
        with contextlib.suppress(FileNotFoundError):  # somebody else is removing it, too
            shutil.rmtree(folder)


def list_tree(url: str) -> list[str]:
    """Paths of all files below a folder, relative to it, sorted; empty if there is no such folder.

    Locally everything that is no folder is listed, and a symbolic link is never followed: nothing hides in a tree.
    """
    system, path = file_system(url)
    with _named("list", url):
        if is_local(url):
            return sorted(_walk(Path(path)))

        def listing() -> list[str]:
            system.invalidate_cache()
            files = (info["name"] for info in _below(system, path.rstrip("/")) if info["type"] != "directory")
            return [str(name)[len(path.rstrip("/")) + 1 :] for name in files]

        return sorted(_retrying("list", url, listing))


def _walk(root: Path) -> Iterator[str]:
    def fail(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise error

    for folder, folders, files in os.walk(root, onerror=fail):
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        for name in files + links:
            yield (Path(folder) / name).relative_to(root).as_posix()


def _is_other(target: str, known: str) -> bool:
    return known != "" and sha256(target) != known


def _confirm_copy(source: str, target: str, known: str) -> None:
    one, copy = stat(source), stat(target)
    if copy.size_bytes != one.size_bytes:
        raise StageError(f"{redact(target)}: the store's copy is not as long as {redact(source)}")
    # Two objects have the same etag only if the store makes it of their bytes.
    if not (one.version == copy.version and one.version.startswith(("etag:", "blob:"))):
        require_sha256(target, known or sha256(source))


def require_sha256(url: str, expected: str) -> None:
    """Reads the file back; raises StageError unless its bytes have that sha256."""
    if (found := sha256(url)) != expected:
        raise StageError(
            f"{redact(url)}: written with sha256 {expected}, read back with {found}: "
            f"the store does not keep what it is given. Check the disk, or choose another build.output"
        )


def _require_same(source: str, target: str) -> None:
    if stat(source).size_bytes != stat(target).size_bytes or sha256(source) != sha256(target):
        raise StageError(
            f"{redact(target)} exists with other bytes than {redact(source)}: "
            f"two builds of different content share this output; give one of them its own"
        )


def sha256(url: str) -> str:
    """sha256 of a file's bytes, lowercase hex; raises StageError if it cannot be read."""
    hasher = hashlib.sha256()
    with open_read(url) as file:
        while data := file.read(_COPY_BYTES):
            hasher.update(data)
    return hasher.hexdigest()


def _make_folder(folder: Path) -> None:
    """Creates a folder and those above it; what is created survives a power cut."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Makes names created in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
