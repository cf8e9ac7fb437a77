"""A new local folder: either all of it is there, durable, or nothing."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tokcore.errors import ConfigError
from tokcore_pipelines.store import local_files
from tokcore_pipelines.store.crashpoints import reach


class NewFolder:
    """The folder while it is made, under a working name beside its final one."""

    def __init__(self, place: Path) -> None:
        self._place = place

    @contextlib.contextmanager
    def new_file(self, path: str) -> Iterator[BinaryIO]:
        """A new file at a path below the folder; durable when the block ends."""
        file = self._place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with local_files.write_attempt(file) as new:
                yield new
        except OSError as error:
            if error.filename is not None:
                raise
            raise OSError(error.errno, error.strerror, str(file)) from error


@contextlib.contextmanager
def make_folder(target: Path) -> Iterator[NewFolder]:
    """A folder that gets its name when the block ends. If the block fails, or is killed, nothing has that name.

    Folders above it are made. What a killed process left is removed first. Raises ConfigError if something has that
    name, or if another process makes the same folder now.
    """
    require_free(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ConfigError(f"{target}: a file is in the way of {target.parent}. Name another folder") from error
    work = target.parent / f".{target.name}.part"
    with _lock(target.parent / f".{target.name}.lock", target):
        local_files.remove_folder(work)
        try:
            work.mkdir()
            yield NewFolder(work)
            for folder, _, _ in os.walk(work, topdown=False):
                local_files.sync_folder(Path(folder))
            reach("convert.before_rename")
            try:
                work.rename(target)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    require_free(target)
                raise
            local_files.sync_folder(target.parent)
            reach("convert.renamed")
        except BaseException:
            local_files.remove_folder(work)
            raise


def require_free(target: Path) -> None:
    """Raise ConfigError if there is a file, or a folder with something in it."""
    if target.is_symlink() or (target.exists() and not (target.is_dir() and not any(target.iterdir()))):
        raise ConfigError(f"{target}: is there already, and nothing replaces it. Remove it, or name another folder")


@contextlib.contextmanager
def _lock(path: Path, target: Path) -> Iterator[None]:
    """Hold a lock file, which goes when the block ends; of a killed process it stays, but is not held."""
    with path.open("ab") as file:
        busy = ConfigError(f"{target}: another process is making it. Wait for it, or name another folder")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise busy from None  # its number is also that of too few processes
        if not path.exists() or not os.path.samestat(path.stat(), os.fstat(file.fileno())):
            raise busy  # its holder removed the file while we opened it
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
