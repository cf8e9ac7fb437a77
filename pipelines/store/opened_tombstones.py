"""Tombstones of an output, to be looked up: those in files, too, which workers get by name and open here.

Of a file in a store there is one copy for all processes of a machine and user, where temporary files are. Nobody knows
who is the last to use it, so whoever makes a copy removes those that nobody has opened for a day.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from tokcore.errors import StageError
from tokcore.shards.tombstone_files import Hashes, HashFile, iterate_blocks, unite
from tokcore.shards.tombstone_lookup import TombstoneLookup
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.commit_log import PARTS
from tokcore_schemas.tombstones import TombstoneFile, Tombstones

_PART = re.compile(rf"/{PARTS}/[0-9a-f]{{12}}/?$")
_UNUSED_S = 86400
_BLOCK_BYTES = 1 << 20


class OpenedTombstones(TombstoneLookup):
    """What Tombstones say was removed. Goes to other processes by name."""

    def __init__(self, plain: Tombstones, output: str, *, is_hashed: bool = False) -> None:
        """output: URL of the output whose files these are, or of a part of it. is_hashed: as of open_file."""
        self.plain = plain
        self.output = output
        self.opened = [open_file(output, file, is_hashed=is_hashed) for file in plain.files]
        super().__init__(plain.key, plain.hashes, self.opened)

    def __reduce__(self) -> tuple[object, ...]:
        return open_tombstones, (self.plain, self.output)

    def blocks(self) -> Iterator[Hashes]:
        """All of them, as HashFile.blocks() gives those of a file. Reads the files."""
        return unite(iterate_blocks(map(bytes.fromhex, self.plain.hashes)), *(one.blocks() for one in self.opened))

    def find_final(self, tombstone: str) -> TombstoneFile | None:
        """The file that has it, of those whose tombstones cannot be taken back."""
        for file, opened in zip(self.plain.files, self.opened, strict=True):
            if file.final and bytes.fromhex(tombstone) in opened:
                return file
        return None


class EitherTombstones(TombstoneLookup):
    """What one of two has. Goes to other processes by name, too."""

    def __init__(self, one: OpenedTombstones, other: OpenedTombstones) -> None:
        self._both = one, other
        super().__init__(one.key, (*one.plain.hashes, *other.plain.hashes), [*one.opened, *other.opened])

    def __reduce__(self) -> tuple[object, ...]:
        return EitherTombstones, self._both


@functools.lru_cache(maxsize=8)
def open_tombstones(plain: Tombstones, output: str, *, is_hashed: bool = False) -> OpenedTombstones:
    """These tombstones, as long as this process lives. output: URL of the output that has their files, or of a part.

    Raises FormatError for a file that is gone or cut off. is_hashed: as of open_file.
    """
    return OpenedTombstones(plain, output, is_hashed=is_hashed)


def open_file(output: str, file: TombstoneFile, *, is_hashed: bool = False) -> HashFile:
    """A file of tombstones of an output. Raises FormatError if it is gone or cut off.

    is_hashed: whether its sha256 is compared, a second for a hundred million, and ChecksumError raised. Who reads the
    log does that; the workers of the same command need not.
    """
    url = urls.join(find_output(output), urls.check_relative(file.path))
    return _open(url, file.sha256, is_hashed)


def link_files(output: str, folder: str, files: Iterable[TombstoneFile]) -> None:
    """Let a folder of this machine have files of an output, or of a part of one, as if it were that."""
    for file in files:
        link = Path(folder, urls.check_relative(file.path))
        if not link.is_symlink():
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(Path(open_file(output, file).path).resolve())


def forget() -> None:
    """Close all files: what is asked next opens them again."""
    open_tombstones.cache_clear()
    _open.cache_clear()


def find_output(url: str) -> str:
    """The URL of the output that a part is of; of an output, its own."""
    return _PART.sub("", url)


@functools.lru_cache(maxsize=32)
def _open(url: str, sha256: str, is_hashed: bool) -> HashFile:
    if urls.is_local(url):
        return HashFile(urls.get_local_path(url), sha256 if is_hashed else "")
    copy = Path(_find_folder(), sha256)
    if not copy.is_file():
        _fetch(url, copy)
    os.utime(copy)
    return HashFile(copy, sha256)


def _fetch(url: str, copy: Path) -> None:
    for old in copy.parent.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if time.time() - old.stat().st_mtime > _UNUSED_S:
                old.unlink()
    with _new_file(copy) as part, storage.open_read(url) as source, part.open("wb") as target:
        shutil.copyfileobj(source, target, _BLOCK_BYTES)


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[Path]:
    """A name for a file that gets this one when the block ends."""
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _find_folder() -> Path:
    """A folder of this user alone."""
    folder = Path(tempfile.gettempdir(), f"tokcore-removed-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise StageError(f"{redact(str(folder))}: is of another user: set TMPDIR to a folder of your own")
    return folder
