"""Files at a URL, copied to a local folder when they are needed. open_shards uses it for URLs; nothing else does.

The only module of tokcore that reaches other machines, by way of fsspec, which it imports when it is given a URL.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from tokcore.errors import ChecksumError, FormatError

_BLOCK_BYTES = 1 << 20


class RemoteFile(NamedTuple):
    """A file that can be copied here: what a manifest vouches for."""

    url: str
    path: str  # of the copy
    size_bytes: int
    sha256: str

    def fetch(self) -> None:
        """Copy the file, unless a copy is there. Several processes may do so at once.

        Raises ChecksumError if it is not the file of the manifest, and what the store raises.
        """
        copy = Path(self.path)
        if copy.is_file() and copy.stat().st_size == self.size_bytes:
            return
        copy.parent.mkdir(parents=True, exist_ok=True)
        system, place = _open_file_system(self.url)
        digest = hashlib.sha256()
        with tempfile.NamedTemporaryFile(dir=copy.parent, prefix=f".{copy.name}.", delete=False) as part:
            try:
                with system.open(place, "rb") as file:
                    while block := file.read(_BLOCK_BYTES):
                        digest.update(block)
                        part.write(block)
                part.close()
                if digest.hexdigest() != self.sha256:
                    raise ChecksumError(
                        f"{self.url}: sha256 is {digest.hexdigest()}, the manifest names {self.sha256}. The file was "
                        f"changed, or the copy was cut off: try again, then run `tokcore verify` on the output."
                    )
                Path(part.name).replace(copy)
            except BaseException:
                Path(part.name).unlink(missing_ok=True)
                raise


def copy_first(urls: list[str], folder: Path, name: str) -> tuple[str, Path] | None:
    """Copy the first of these files that exists to a folder of its own below folder; (its URL, the copy).

    The folder is named after the content, so that copies of other builds never mix. None if there is none.
    """
    for url in urls:
        system, place = _open_file_system(url)
        try:
            data: bytes = system.cat_file(place)
        except FileNotFoundError:
            continue
        copy = folder / hashlib.sha256(data).hexdigest()[:16] / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=copy.parent, prefix=f".{name}.", delete=False) as part:
            part.write(data)
        Path(part.name).replace(copy)
        return url, copy
    return None


def make_folder_for_copies(cache: str | os.PathLike[str] | None) -> Path:
    """The folder that the caller names, or one that goes when this process ends."""
    if cache is not None:
        return Path(cache).resolve()
    folder, owner = Path(tempfile.mkdtemp(prefix="tokcore-shards-")).resolve(), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not in a process that was forked from this one
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def _open_file_system(url: str) -> tuple[Any, str]:
    """(file system, path in it). Raises FormatError for a protocol that does not exist or whose package is missing."""
    import fsspec

    try:
        return fsspec.core.url_to_fs(url)  # type: ignore[no-any-return]
    except (ImportError, ValueError) as error:
        raise FormatError(f"{url}: cannot be read: {error}") from error
