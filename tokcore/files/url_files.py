"""Files at a URL: parts of them, and copies of whole ones. open_shards uses it for URLs.

The only module of tokcore that reaches other machines, by way of fsspec, which it imports when it is given a URL.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from tokcore.errors import ChecksumError, FormatError

_BLOCK_BYTES = 1 << 20

# Scheme -> the extra that installs its library.
EXTRAS = {
    **dict.fromkeys(("s3", "s3a"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gcs"),
    **dict.fromkeys(("abfs", "abfss", "az"), "azure"),
    "hf": "hf",
    **dict.fromkeys(("http", "https"), "http"),
}


class RemoteFile(NamedTuple):
    """A file at a URL: what a manifest vouches for."""

    url: str
    name: str  # below the folder of the manifest
    size_bytes: int
    sha256: str

    def copy_to(self, folder: str | Path) -> None:
        """Copy the file below a folder, unless a copy is there. Several processes may do so at once.

        Raises ChecksumError if it is not the file of the manifest, and what the store raises.
        """
        copy = Path(folder, self.name)
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


def read_first(urls: list[str]) -> tuple[str, bytes] | None:
    """The first of these files that exists: its URL and its bytes. None if there is none.

    Raises FormatError if the store does not say.
    """
    for url in urls:
        system, place = _open_file_system(url)
        try:
            return url, system.cat_file(place)
        except FileNotFoundError:
            continue
        except MemoryError:
            raise
        except Exception as error:  # each store's library has its own
            raise FormatError(
                f"{url}: cannot be read: {error!r}. Are credentials, region and endpoint right?"
            ) from error
    return None


def read_range(url: str, start: int, end: int) -> bytes:
    """Bytes start to end of a file, end excluded, as far as it has them. Raises FormatError if it cannot be read."""
    system, place = _open_file_system(url)
    try:
        data: bytes = system.cat_file(place, start=start, end=end)
    except MemoryError:
        raise
    except Exception as error:  # each store's library has its own
        raise FormatError(f"{url}: cannot be read: {error!r}. Try again, then run `tokcore verify`.") from error
    return data


def copy_bytes(data: bytes, folder: Path, name: str) -> Path:
    """Write a file to a folder of its own below folder, named after the content, so that copies never mix."""
    copy = folder / hashlib.sha256(data).hexdigest()[:16] / name
    copy.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=copy.parent, prefix=f".{name}.", delete=False) as part:
        part.write(data)
    Path(part.name).replace(copy)
    return copy


def _open_file_system(url: str) -> tuple[Any, str]:
    """(file system, path in it). Raises FormatError for a protocol that does not exist or whose package is missing."""
    try:
        import fsspec

        return fsspec.core.url_to_fs(url)  # type: ignore[no-any-return]
    except ImportError as error:
        extra = EXTRAS.get(url.partition("://")[0].lower(), "url" * (error.name == "fsspec"))
        fix = f": pip install 'tokcore[{extra}]'" * bool(extra)
        raise FormatError(f"{url}: cannot be read: {error}{fix}") from error
    except ValueError as error:
        raise FormatError(f"{url}: cannot be read: {error}") from error
