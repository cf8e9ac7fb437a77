"""The working folder of one stage: files under attempt names, and a record of each finished piece of work.

The folder is named after the stage's identity, so that a changed configuration never finds old work. If two attempts do
the same piece of work, the first record wins, and no manifest ever names the files of the other.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from pipelines.store import storage, urls
from pipelines.store.redaction import redact
from schemas.refs import RunRef, StoredFile
from tokcore.canonical import Sha256Writer, parse_canonical, write_canonical_json
from tokcore.errors import StageError
from tokcore.jsonable import from_jsonable, to_jsonable

T = TypeVar("T")

FOLDER = "_attempts"


@dataclasses.dataclass(frozen=True, slots=True)
class Attempts:
    """Work in progress of one stage of one output."""

    output: str  # the build's output
    stage: str
    identity: str

    @property
    def folder(self) -> str:
        return urls.join(self.output, FOLDER, f"{self.stage}-{self.identity[:16]}")

    @property
    def scratch(self) -> str:
        """The folder of files that have no final name yet."""
        return urls.join(self.folder, "files")

    def url(self, attempt: str) -> str:
        """The URL of the file with that attempt name."""
        return urls.join(self.folder, "files", attempt)

    @contextlib.contextmanager
    def new_file(self, name: str) -> Iterator[NewFile]:
        """A file under a new attempt name, hashed while it is written and durable when the block ends."""
        attempt = f"{name.replace('/', '-')}.{uuid.uuid4().hex[:12]}"
        url = self.url(attempt)
        with storage.write_attempt(url) as file:
            yield NewFile(attempt, url, Sha256Writer(file))

    def begin(self) -> None:
        """Leave a new file that tells `tokcore gc` that a build is at work."""
        with storage.write_attempt(self.url(f"begun.{uuid.uuid4().hex[:12]}")):
            pass

    def name_by_content(self, run: RunRef) -> RunRef:
        """Rename the run's file, which holds only this run, after its bytes, so that equal merges share one file."""
        name = f"{run.sha256}.run"
        storage.publish(self.url(run.attempt), self.url(name))
        return dataclasses.replace(run, attempt=name)

    def result(self, key: str, cls: type[T]) -> T | None:
        """The recorded result of this piece of work; None if no attempt has finished."""
        url = self._record_url(key)
        if not storage.exists(url):
            return None
        return from_jsonable(cls, parse_canonical(storage.read_bytes(url), url), url)

    def record(self, key: str, result: T) -> T:
        """Record result unless another attempt did so first; return the recorded one.

        Raises StageError if the folder is removed meanwhile, because an equal build has finished.
        """
        url = self._record_url(key)
        if storage.create_exclusive(url, write_canonical_json(to_jsonable(result)), self.scratch):
            return result
        winner = self.result(key, type(result))
        if winner is None:
            raise StageError(f"{redact(url)}: another process removed it. Run the command again.")
        return winner

    def _record_url(self, key: str) -> str:
        return urls.join(self.folder, "done", f"{key}.json")


@dataclasses.dataclass(slots=True)
class NewFile:
    """A file that is being written under an attempt name."""

    attempt: str
    url: str
    file: Sha256Writer

    def stored(self, path: str, content_sha256: str | None = None) -> StoredFile:
        """Read the closed file back and describe it. content_sha256: None if the content is the file's own bytes.

        Every file that a manifest will name passes here, on the machine that wrote it, and so is durable and read back.
        Raises StageError if the store returns other bytes than were written.
        """
        sha256 = self.file.sha256
        storage.require_sha256(self.url, sha256)
        return StoredFile(path, self.attempt, self.file.size_bytes, sha256, content_sha256 or sha256)


def compute_key(prefix: str, value: Any) -> str:
    """The record key of work that value defines."""
    return f"{prefix}-{hashlib.sha256(write_canonical_json(to_jsonable(value))).hexdigest()[:32]}"


def publish(
    attempts: Attempts,
    folder: str,
    files: Iterable[StoredFile],
    claimed: bool = False,
    on_file: Callable[[int], None] = lambda _: None,
) -> None:
    """Move finished files from their attempt names to their final ones below folder, a URL.

    An interrupted build, or an equal one at work, may have moved some of them. Raises StageError if a file at a final
    name is not the recorded one. claimed: this build has claimed the folder and no manifest names its files, so a
    wrong copy by an object store is replaced. on_file: called with 1 for each file that is about to be moved.
    """
    for file in files:
        on_file(1)
        source, target = attempts.url(file.attempt), urls.join(folder, file.path)
        if storage.exists(source):
            try:
                storage.publish(source, target, file.sha256, repair=claimed)
                continue
            except StageError:
                if storage.exists(source):
                    raise
        if (found := storage.compute_sha256(target)) != file.sha256:
            raise StageError(
                f"{redact(target)}: recorded with sha256 {file.sha256}, found {found}. "
                f"Remove the output and build it again."
            )
