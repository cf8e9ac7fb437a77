"""Files of this machine: durable when a call returns, whole when they have their name.

The door is tokcore_pipelines.store.storage, which names the URL in what is raised here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.pins import Footprint
from tokcore_pipelines.store.read_file import require_same

T = TypeVar("T")

_ATTEMPTS = 10  # to make a name in a folder that others remove
_SCRATCH = set[str]()  # folders that are removed soon


def read_footprint(path: Path) -> Footprint:
    """Size, last change and version; of a symbolic link, the link's own."""
    facts = path.lstat()
    changed_ns = max(facts.st_mtime_ns, facts.st_ctime_ns)
    return Footprint(facts.st_size, changed_ns / 1e9, f"changed_ns:{changed_ns}")


@contextlib.contextmanager
def write_attempt(path: Path, skip_empty: bool = False) -> Iterator[BinaryIO]:
    """A new file to write; durable when the block ends, removed if it fails. skip_empty: removed if it is empty."""
    file = _make_name(path.parent, lambda: path.open("wb"))
    try:
        with file:
            yield file
            file.flush()
            if skip_empty and not file.tell():
                path.unlink()
                return
            reach("write.before_sync")
            _sync(file, path)
        sync_folder(path.parent)
        reach("write.after_sync")
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def replace(source: Path, target: Path) -> None:
    """Give a finished file the name of another one, which it replaces at once."""
    source.replace(target)
    sync_folder(target.parent)


def publish(source: Path, target: Path, durable: bool = True) -> None:
    """Gives a finished file its final name; a file of that name must hold the same bytes.

    durable: whether to return after sync_folder, which costs as much for many names as for one.
    """
    try:
        # Unlike a rename, a link fails if the name is taken.
        _make_name(target.parent, lambda: os.link(source, target))
    except FileExistsError:
        require_same(str(source), str(target))
    reach("publish.after_link")
    source.unlink(missing_ok=True)
    if durable:
        sync_folder(target.parent)


def link(source: Path, target: Path) -> None:
    """Gives a file another name, which is free, and durable after sync_folder.

    A copy gets it where there are no links, or already too many.
    """
    try:
        _make_name(target.parent, lambda: os.link(source, target))
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError:
        with source.open("rb") as file, write_attempt(target) as copy:
            shutil.copyfileobj(file, copy)


def move_folder(source: Path, target: Path) -> None:
    """Gives a folder another name; durable on return."""
    remove_folder(target)
    _make_name(target.parent, lambda: source.rename(target))
    sync_folder(target.parent)
    sync_folder(source.parent)


def create_exclusive(path: Path, pieces: Iterable[bytes], scratch: Path) -> bool:
    """Creates a file with these bytes unless the name is taken; whether it did. scratch: where it gets its bytes."""
    descriptor, temporary = _make_name(scratch, lambda: tempfile.mkstemp(dir=scratch, prefix=f"{path.name}."))
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            _sync(file, path)
        reach("create.before_link")
        try:
            _make_name(path.parent, lambda: os.link(temporary, path))
        except FileExistsError:
            return False
        sync_folder(path.parent)
        reach("create.after_link")
        return True
    finally:
        Path(temporary).unlink(missing_ok=True)


def remove_folder(folder: Path) -> None:
    """Removes a folder and all in it, also while another process does."""
    while folder.exists():
        with contextlib.suppress(FileNotFoundError):  # another process is removing it, too
            shutil.rmtree(folder)


def remove_empty_folders(folder: Path) -> None:
    """Removes the folder and those below it that hold no file."""
    for path, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):  # not empty, or gone
            Path(path).rmdir()


def list_tree(root: Path) -> Iterator[str]:
    """Relative paths, sorted, of everything below a folder that is no folder; a symbolic link is never followed."""
    return _iterate_paths(str(root), "")


def _iterate_paths(root: str, prefix: str) -> Iterator[str]:
    """prefix: of the paths below a folder of it, with its slash."""
    try:
        with os.scandir(f"{root}/{prefix}") as found:
            # With its slash a folder stands where the paths below it do.
            names = sorted(f"{one.name}/" if one.is_dir(follow_symlinks=False) else one.name for one in found)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        if name.endswith("/"):
            yield from _iterate_paths(root, prefix + name)
        else:
            yield prefix + name


def list_footprints(root: Path) -> Iterator[tuple[str, Footprint]]:
    """What list_tree gives, with the footprint of each."""
    for path in list_tree(root):
        with contextlib.suppress(FileNotFoundError):  # another process has just removed it
            yield path, read_footprint(root / path)


def _make_name(folder: Path, make: Callable[[], T]) -> T:
    """Create the folder if it is missing, call make, which creates a name in it, and return what make returns.

    Another build that ends removes empty folders, so the folder may be gone again before it holds the name.
    """
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(FileNotFoundError):
            _make_folder(folder)
            return make()
    _make_folder(folder)
    return make()


def _make_folder(folder: Path) -> None:
    """Creates a folder and those above it; what is created survives a power cut."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        # A file has the name, or another build has just removed the folder. Callers would take this error to mean that
        # the name that they make is taken.
        code = errno.ENOTDIR if folder.exists() else errno.ENOENT
        raise OSError(code, os.strerror(code), str(folder)) from None
    for path in missing:
        sync_folder(path.parent)


@contextlib.contextmanager
def make_scratch_folder(prefix: str) -> Iterator[str]:
    """A new folder, removed when the block ends. Nothing in it is synced: a disk takes milliseconds for each file."""
    with tempfile.TemporaryDirectory(prefix=prefix) as folder:
        _SCRATCH.add(folder)
        try:
            yield folder
        finally:
            _SCRATCH.remove(folder)


def leave_unsynced(folder: str) -> None:
    """Sync nothing in a folder that another process made as a scratch folder."""
    _SCRATCH.add(folder)


def _is_scratch(path: Path) -> bool:
    return bool(_SCRATCH) and not _SCRATCH.isdisjoint(map(str, (path, *path.parents)))


def _sync(file: BinaryIO, path: Path) -> None:
    """Makes what was written survive a power cut. path: where the file is, or will be."""
    if not _is_scratch(path):
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Makes names created in a folder, or removed from it, survive a power cut."""
    if _is_scratch(folder):
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
