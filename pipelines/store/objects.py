"""Objects that are written once: one conditional creation of their name, with a checksum that the store checks.

Nothing is copied, renamed or overwritten. What differs between the libraries of the stores is here: how they are asked
for a checksum, and how they say that a name is taken. The door is tokcore_pipelines.store.storage.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tokcore.errors import StageError, list_causes
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.read_file import compute_sha256
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.retries import retry
from tokcore_pipelines.store.urls import find_scheme, open_file_system

BLOCK_BYTES = 1 << 24  # of a part of an upload; what is no longer goes in one request


@dataclasses.dataclass(frozen=True, slots=True)
class _Checksums:
    """What a store compares with the bytes that it gets, and how its library is told to send it."""

    told: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # arguments of the library; empty: none is sent
    covers_parts: bool = False  # whether the library sends it with uploads in parts, too
    is_kept: bool = False  # whether the store keeps a sha256, and says it when it is asked


_NO_CHECKSUMS = _Checksums()
_S3 = _Checksums({"ChecksumAlgorithm": "SHA256"}, covers_parts=True, is_kept=True)
_GCS = _Checksums({"consistency": "md5"}, covers_parts=True)
_AZURE = _Checksums({"validate_content": True})  # MD5
_CHECKSUMS: Mapping[str, _Checksums] = {
    **dict.fromkeys(("s3", "s3a"), _S3),
    **dict.fromkeys(("gs", "gcs"), _GCS),
    **dict.fromkeys(("abfs", "abfss", "az"), _AZURE),
}


class OtherContentError(StageError):
    """A name is taken by an object with other bytes."""


class NewObject:
    """An object that is being written. Closing creates its name, with all its bytes, unless the name is taken."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.size_bytes = 0
        self.failure: Exception | None = None  # why its creation may have failed; None if it surely did not
        self._checksums = _find_checksums(url)
        self._waiting = bytearray()
        self._upload: Any = None  # the library's file, once there is more than one part
        self._parts: Sequence[Mapping[str, Any]] = ()  # of an upload to S3, with the store's checksums
        self._system, self._path = open_file_system(url)

    def write(self, data: Any) -> int:
        """Append bytes."""
        size = memoryview(data).nbytes
        self.size_bytes += size
        if self._upload is None and self.size_bytes > BLOCK_BYTES:
            if not self._checksums.covers_parts:
                self._checksums = _NO_CHECKSUMS
            self._upload = retry("write", self.url, self._open)
            self._upload.write(bytes(self._waiting))
            self._waiting.clear()
        if self._upload is not None:
            self._upload.write(data)
        else:
            self._waiting += data
        return size

    def flush(self) -> None:
        """Nothing: parts leave when they are full."""

    def _open(self) -> Any:
        return self._system.open(self._path, "xb", block_size=BLOCK_BYTES, **self._checksums.told)

    def close(self) -> None:
        """Create the object. What went wrong is kept in failure: the name may be taken, or the answer lost."""
        try:
            if self._upload is None:
                retry("write", self.url, lambda: create(self.url, [bytes(self._waiting)]))
            else:
                self._upload.close()
                self._parts = getattr(self._upload, "parts", None) or ()
        except Exception as error:
            self.failure = error
            self._parts = getattr(self._upload, "parts", None) or ()
            self.discard()
        self._waiting.clear()

    def discard(self) -> None:
        """Give up what was sent. Nothing of it gets a name."""
        self._waiting.clear()
        if self._upload is not None:
            with contextlib.suppress(Exception):
                self._upload.discard()
            # Else the collector would close it, and so complete the upload of a part.
            self._upload.closed = True

    def require_content(self, sha256: str) -> None:
        """Raise StageError unless the object holds the bytes of that sha256: ours, or equal ones that were there.

        Asks the store for its checksum, and reads the object only if that says nothing.
        """
        if self._is_vouched(sha256):
            return
        try:
            found = compute_sha256(self.url)
        except StageError:
            if self.failure is not None and not is_taken(self.failure):
                raise _make_write_error(self.url, self.failure) from None
            raise
        if found == sha256:
            return
        if self.failure is not None:
            raise OtherContentError(
                f"{redact(self.url)}: is there with sha256 {found}, and this build made {sha256}. Another build "
                f"left it, or this one with other versions of its libraries. If none is at work there, `tokcore gc` or "
                f"`tokcore build --replace` removes it; or choose another build.output"
            ) from self.failure
        retry("remove", self.url, lambda: self._system.rm_file(self._path))  # it would be in the way of every rerun
        raise StageError(
            f"{redact(self.url)}: written with sha256 {sha256}, read back with {found}: "
            f"the store does not keep what it is given. Choose another build.output"
        )

    def _is_vouched(self, sha256: str) -> bool:
        """Whether the store says that the object has that sha256, or has compared a checksum that we sent."""
        if not self._checksums.is_kept:
            return bool(self._checksums.told) and self.failure is None
        wanted = base64.b64encode(bytes.fromhex(sha256)).decode()
        if self._parts:
            sums = [base64.b64decode(part.get("ChecksumSHA256", "")) for part in self._parts]
            if not all(sums):
                return False
            if self.failure is None:  # it compared each part, and then joined the parts with these checksums
                return True
            wanted = f"{base64.b64encode(hashlib.sha256(b''.join(sums)).digest()).decode()}-{len(sums)}"
        try:
            return find_s3_sha256(self.url) == (self.size_bytes, wanted)
        except FileNotFoundError:
            return False


@contextlib.contextmanager
def write_once(url: str, skip_empty: bool = False) -> Iterator[NewObject]:
    """A new object to write. When the block ends it is there, or its failure says why not; if it fails, it is not.

    skip_empty: create nothing if nothing was written.
    """
    new = NewObject(url)
    try:
        yield new
    except BaseException:
        new.discard()
        raise
    if skip_empty and not new.size_bytes:
        return
    reach("write.before_sync")
    new.close()
    reach("write.after_sync")


def create(url: str, pieces: Iterable[bytes]) -> None:
    """Create an object with these bytes. Raises FileExistsError if the name is taken, and what the library raises.

    No more of them than a part of an upload is held.
    """
    system, path = open_file_system(url)
    waiting, first, size_bytes = iter(pieces), [], 0
    for some in waiting:
        first.append(some)
        size_bytes += len(some)
        if size_bytes > BLOCK_BYTES:
            break
    data = b"".join(first)
    try:
        if len(data) <= BLOCK_BYTES:
            system.pipe_file(path, data, mode="create", **_find_checksums(url).told)
        else:
            new = NewObject(url)
            try:
                for some in itertools.chain([data], waiting):
                    new.write(some)
            except BaseException:
                new.discard()
                raise
            new.close()
            if new.failure is not None:
                raise new.failure
    except Exception as error:
        if is_taken(error):
            raise FileExistsError(path) from error
        raise


def put(url: str, data: bytes) -> bool:
    """Make an object hold these bytes, whatever it held, with one request; whether the store compared a checksum."""
    system, path = open_file_system(url)
    checksums = _find_checksums(url)
    retry("write", url, lambda: system.pipe_file(path, data, **checksums.told))
    return bool(checksums.told)


def find_s3_sha256(url: str) -> tuple[int, str | None]:
    """(size, sha256 in base64 as S3 says it, or None) of an object; the sha256 of a multipart one is of its parts'."""
    system, path = open_file_system(url)
    bucket, key, _ = system.split_path(path)
    told = retry("read", url, lambda: system.call_s3("head_object", Bucket=bucket, Key=key, ChecksumMode="ENABLED"))
    return int(told["ContentLength"]), told.get("ChecksumSHA256")


def is_taken(error: BaseException | None) -> bool:
    """Whether a store refused to create an object because its name is taken. Looks at what led to the error, too."""
    for one in list_causes(error):
        if isinstance(one, FileExistsError):
            return True
        response = getattr(one, "response", None)
        if isinstance(response, Mapping) and response.get("Error", {}).get("Code") in ("PreconditionFailed", "412"):
            return True
        if getattr(one, "status", None) == 412 or getattr(one, "status_code", None) == 412:
            return True
    return False


def _find_checksums(url: str) -> _Checksums:
    return _CHECKSUMS.get(find_scheme(url) or "", _NO_CHECKSUMS)


def _make_write_error(url: str, failure: Exception) -> StageError:
    if isinstance(failure, StageError):
        return failure
    said = redact(str(failure)) or type(failure).__name__
    return StageError(
        f"{redact(url)}: cannot write: {said}. Finished work is kept: run the same command again when the store answers"
    )
