"""The working folder of one stage: files under attempt names, and a record of each finished piece of work.

The folder is named after the stage's identity, so that a changed configuration never finds old work. If two attempts do
the same piece of work, the first record wins, and no manifest ever names the files of the other.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from tokcore.errors import StageError
from tokcore.files.canonical_json import Sha256Writer, parse_canonical, write_canonical_json
from tokcore.files.jsonable import from_jsonable, to_jsonable
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.objects import NewObject
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.refs import RunRef, StoredFile
from tokcore_schemas.stage_table import BUILD

T = TypeVar("T")

_BLOCK_BYTES = 1 << 20

FOLDER = "_attempts"
WATCHERS = "watch"  # in it: the signs of watchers, and their notes


def name_folder(stage: str, identity: str) -> str:
    """The name of the working folder of a stage of that identity, among those of the output."""
    return f"{stage}-{identity[:16]}"


@dataclasses.dataclass(frozen=True, slots=True)
class Attempts:
    """Work in progress of one stage of one output."""

    output: str  # the build's output
    stage: str
    identity: str
    target: str = ""  # URL of the folder of the files that the manifest will name; empty: the stage's in the output

    @property
    def folder(self) -> str:
        return urls.join(self.output, FOLDER, name_folder(self.stage, self.identity))

    @property
    def scratch(self) -> str:
        """The folder of files that have no final name yet."""
        return urls.join(self.folder, "files")

    def url(self, attempt: str) -> str:
        """The URL of the file with that attempt name."""
        return urls.join(self.folder, "files", attempt)

    @contextlib.contextmanager
    def new_file(self, name: str, skip_empty: bool = False) -> Iterator[NewFile]:
        """A file under a new attempt name, hashed while it is written and durable when the block ends.

        skip_empty: leave nothing there if nothing was written: a file costs a request, or syncs.
        Raises StageError if the store does not hold what was written.
        """
        attempt = f"{name.replace('/', '-')}.{uuid.uuid4().hex[:12]}"
        url = self.url(attempt)
        if urls.is_local(self.output):
            with storage.write_attempt(url, skip_empty) as file:
                new = NewFile(attempt, url, Sha256Writer(file))
                yield new
            new.is_checked = skip_empty and new.file.size_bytes == 0
            return
        with storage.write_once(url, skip_empty) as object:
            new = NewFile(attempt, url, Sha256Writer(object), object)
            yield new
        if not (skip_empty and new.file.size_bytes == 0):
            object.require_content(new.file.sha256)
        new.is_checked = True

    @contextlib.contextmanager
    def new_final(self, path: str) -> Iterator[NewFile]:
        """A file that the stage's manifest will name by that path.

        On a disk it is written as new_file() writes one, and publish() moves it. An object store cannot move, so there
        it gets its place at once, if that is free.
        """
        if urls.is_local(self.output):
            with self.new_file(path) as new:
                yield new
            return
        url = urls.join(self.final_folder, path)
        with storage.write_once(url) as object:
            yield NewFile("", url, Sha256Writer(object), object)

    @property
    def final_folder(self) -> str:
        """The folder of the files that the stage's manifest will name."""
        return self.target or (self.output if self.stage == BUILD else urls.join(self.output, self.stage))

    def find(self, file: StoredFile) -> str:
        """The URL of a file that is finished, but perhaps not published."""
        return self.url(file.attempt) if file.attempt else urls.join(self.final_folder, file.path)

    def take_over(self, url: str, file: StoredFile, path: str, copy: str = "") -> StoredFile:
        """A file that another manifest of this output names, as one of this stage.

        path: its final one. copy: path of a local copy; empty: the file is read from its URL.
        On a disk it is another name of the same bytes, which are not read; sync() makes it durable. In an object store
        they are copied.
        Raises StageError if it is gone, or if its size, or what was copied, is not as the manifest says.
        """
        if urls.is_local(self.output):
            attempt = f"{path.replace('/', '-')}.{uuid.uuid4().hex[:12]}"
            storage.link(url, self.url(attempt))
            if (found := storage.stat(url).size_bytes) != file.size_bytes:
                raise StageError(f"{redact(url)}: has {found} bytes, its manifest says {file.size_bytes}")
            return dataclasses.replace(file, path=path, attempt=attempt)
        with self.new_final(path) as new, storage.open_read(copy or url) as source:
            shutil.copyfileobj(source, new.file, _BLOCK_BYTES)
        stored = new.stored(path, file.content_sha256)
        if stored.sha256 != file.sha256:
            raise StageError(f"{redact(url)}: its bytes are not those that its manifest names")
        return stored

    def sync(self) -> None:
        """Make the names of files that were taken over durable."""
        if urls.is_local(self.output):
            storage.sync_folders([self.scratch])

    def begin(self) -> str:
        """Leave a new file that tells `tokcore gc` that a build is at work; its URL."""
        url = self.url(f"begun.{uuid.uuid4().hex[:12]}")
        with storage.write_attempt(url):
            return url

    def name_by_content(self, run: RunRef) -> RunRef:
        """Rename the run's file, which holds only this run, after its bytes, so that equal merges share one file.

        An object keeps its name: a store would have to copy it.
        """
        if not urls.is_local(self.output):
            return run
        name = f"{run.sha256}.run"
        storage.publish(self.url(run.attempt), self.url(name))
        return dataclasses.replace(run, attempt=name)

    def result(self, key: str, cls: type[T]) -> T | None:
        """The recorded result of this piece of work; None if no attempt has finished."""
        url = self._get_record_url(key)
        if (data := storage.read_if_there(url)) is None:
            return None
        return from_jsonable(cls, parse_canonical(data, url), url)

    def record(self, key: str, result: T) -> T:
        """Record result unless another attempt did so first; return the recorded one.

        Raises StageError if the folder is removed meanwhile, because an equal build has finished.
        """
        url = self._get_record_url(key)
        if storage.create_exclusive(url, write_canonical_json(to_jsonable(result)), self.scratch):
            return result
        winner = self.result(key, type(result))
        if winner is None:
            raise StageError(f"{redact(url)}: another process removed it. Run the command again.")
        return winner

    def read_record(self, key: str) -> bytes:
        """The record of this piece of work, as it is stored. Raises StageError if there is none."""
        return storage.read_bytes(self._get_record_url(key))

    def _get_record_url(self, key: str) -> str:
        return urls.join(self.folder, "done", f"{key}.json")


@dataclasses.dataclass(slots=True)
class NewFile:
    """A file that is being written under an attempt name."""

    attempt: str
    url: str
    file: Sha256Writer
    object: NewObject | None = None  # in an object store
    is_checked: bool = False  # whether what was written is known to be there, or nothing was

    def stored(self, path: str, content_sha256: str | None = None) -> StoredFile:
        """Check the closed file and describe it. content_sha256: None if the content is the file's own bytes.

        Every file that a manifest will name passes here, on the machine that wrote it, and so is durable. It is read
        back unless a store has compared a checksum.
        Raises StageError if the store returns other bytes than were written.
        """
        sha256 = self.file.sha256
        if not self.is_checked:
            if self.object is None:
                storage.require_sha256(self.url, sha256)
            else:
                self.object.require_content(sha256)
        return StoredFile(path, self.attempt, self.file.size_bytes, sha256, content_sha256 or sha256)


def compute_key(prefix: str, value: Any) -> str:
    """The record key of work that value defines."""
    return f"{prefix}-{hashlib.sha256(write_canonical_json(to_jsonable(value))).hexdigest()[:32]}"


def publish(
    attempts: Attempts,
    folder: str,
    files: Iterable[StoredFile],
    on_file: Callable[[int], None] = lambda _: None,
) -> None:
    """Move finished files from their attempt names to their final ones below folder, a URL.

    An interrupted build, or an equal one at work, may have moved some of them. Raises StageError if a file at a final
    name is not the recorded one. on_file: called with 1 for each file that is about to be moved. Files that have their
    final names already, in object stores, are left alone. The folders of names are synced at the end, each once.
    """
    folders = set()
    for file in files:
        on_file(1)
        target = urls.join(folder, file.path)
        if not file.attempt and not urls.is_local(attempts.output):
            continue
        source = attempts.url(file.attempt)
        folders.add(target.rpartition("/")[0])
        if storage.exists(source):
            try:
                storage.publish(source, target, durable=False)
                continue
            except StageError:
                if storage.exists(source):
                    raise
        if (found := storage.compute_sha256(target)) != file.sha256:
            raise StageError(
                f"{redact(target)}: recorded with sha256 {file.sha256}, found {found}. "
                f"Remove the output and build it again."
            )
    storage.sync_folders(sorted(folders))


def remove_attempts(attempts: Attempts) -> None:
    """Remove the working folder, and the folder of all working folders if nothing else is in it."""
    storage.remove_tree(attempts.folder)
    storage.remove_empty_folders(urls.join(attempts.output, FOLDER))
