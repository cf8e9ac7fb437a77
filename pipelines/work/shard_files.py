"""The files of one shard while it is written. They are closed and checked several at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from tokcore_pipelines.store.attempts import Attempts, NewFile
from tokcore_pipelines.store.parallel_requests import MOST_FILES, run_at_once
from tokcore_schemas.refs import StoredFile


class ShardFiles:
    """Files that finish() closes, or the stack that is given, when the work item fails half-way."""

    def __init__(self, attempts: Attempts, stack: contextlib.ExitStack) -> None:
        self._attempts = attempts
        self._stack = stack.enter_context(contextlib.ExitStack())
        self._open: dict[str, tuple[NewFile, contextlib.ExitStack]] = {}

    def new(self, path: str) -> Any:
        """A file to write. path: its final one."""
        own = self._stack.enter_context(contextlib.ExitStack())
        new = own.enter_context(self._attempts.new_final(path))
        self._open[path] = new, own
        return new.file

    def finish(self, find_content_sha256: Callable[[str], str]) -> tuple[StoredFile, ...]:
        """Close all files, and describe them in the order of their paths. find_content_sha256: of the file of a path.

        In a store each file takes two requests, which mostly wait; on a disk it waits until it is durable.
        Raises StageError if a store or a disk does not hold what was written.
        """

        def finish_one(path: str) -> StoredFile:
            new, own = self._open[path]
            own.close()
            return new.stored(path, find_content_sha256(path))

        files = tuple(run_at_once(finish_one, sorted(self._open), MOST_FILES))
        self._stack.close()
        return files
