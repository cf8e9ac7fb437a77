"""Shards while they are written: one in every configured format, and one after the other. No Beam."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, Generic, Protocol, TypeVar

import numpy as np

from tokcore.errors import StageError
from tokcore.formats.partition_names import is_partition
from tokcore.formats.provenance import ProvenanceWriter, get_provenance_path
from tokcore.formats.shard_facts import ShardFacts
from tokcore.shards.format_table import SHARD_FORMATS
from tokcore.shards.shard_writing import ShardInFormats
from tokcore.shards.token_batch import Offsets, TokenBatch
from tokcore_pipelines.store.attempts import NewFile
from tokcore_pipelines.store.parallel_requests import MOST_FILES, run_at_once
from tokcore_pipelines.work.encode_job import ShardJob, Stream
from tokcore_schemas.refs import ShardRef, StoredFile, spell_shard_name

Open = TypeVar("Open", bound="Filling")
Done = TypeVar("Done")


def begin_facts(stream: Stream, piece: int, number: int, result_key: str) -> ShardFacts:
    """A shard without documents. piece: number of the work item or part that writes it. number: of the shard there."""
    folder, split = stream
    lang, partition = ("", folder) if is_partition(folder) else (folder, "")
    return ShardFacts(spell_shard_name(split, piece, number), piece, lang, split, 0, 0, -1, result_key, partition)


def require_plugins(config: Any) -> None:
    """Raise StageError unless the formats of other distributions have here the versions that the job names."""
    for name, version in (getattr(config, "plugins", None) or {}).items():
        if (found := SHARD_FORMATS.find_version(name)) != version:
            raise StageError(
                f"{name}: the format of the build is that of {version}, and here is {found or 'none'}. Install "
                f"{version.replace(' ', '==')} wherever workers run."
            )


class NewShard:
    """One shard in every configured format, and maybe a file beside it that says where its documents came from.

    Its files are closed by close(), several at a time, or by the stack that is given, when the work fails half-way.
    """

    def __init__(
        self,
        job: ShardJob[Any],
        empty: ShardFacts,
        stack: contextlib.ExitStack,
        beside: tuple[str, Callable[[BinaryIO], Any]] | None = None,
    ) -> None:
        """empty: the shard as it begins. beside: path of the file beside it, and what opens its writer."""
        self._attempts = job.attempts
        self._stack = stack.enter_context(contextlib.ExitStack())
        self._open: dict[str, tuple[NewFile, contextlib.ExitStack]] = {}
        require_plugins(job.config)
        self._shard = ShardInFormats(empty, job.config.formats, job.settings, self._new_file)
        self._path_beside = beside[0] if beside else ""
        self.beside: Any = beside[1](self._new_file(self._path_beside)) if beside else None

    @property
    def num_documents(self) -> int:
        return self._shard.content.num_documents

    @property
    def num_tokens(self) -> int:
        return self._shard.content.num_tokens

    def write(self, documents: TokenBatch) -> list[bytes]:
        """Append documents, as the shard has them; return their digests."""
        return self._shard.write(documents)

    def close(self) -> ShardRef:
        """The finished shard. Raises StageError if a store or a disk does not hold what was written."""
        facts, content = self._shard.close(), self._shard.content.hexdigest()
        apart = self.beside.close() if self.beside is not None else ""

        def finish(path: str) -> StoredFile:
            new, own = self._open[path]
            own.close()
            return new.stored(path, apart if path == self._path_beside else content)

        # In a store each file takes two requests, which mostly wait; on a disk it waits until it is durable.
        files = tuple(run_at_once(finish, sorted(self._open), MOST_FILES))
        self._stack.close()
        return ShardRef(facts, content, files)

    def _new_file(self, path: str) -> Any:
        own = self._stack.enter_context(contextlib.ExitStack())
        new = own.enter_context(self._attempts.new_final(path))
        self._open[path] = new, own
        return new.file


def name_provenance(job: ShardJob[Any], empty: ShardFacts) -> tuple[str, Callable[[BinaryIO], ProvenanceWriter]]:
    """The file beside a shard of a shuffle, as NewShard takes it."""
    return get_provenance_path(empty.stem), lambda file: ProvenanceWriter(file, job.settings.compression)


class Filling(Protocol):
    """A shard that takes documents."""

    @property
    def num_tokens(self) -> int: ...
    def write(self, some: Any, /) -> Any: ...
    def close(self) -> Any: ...


class ShardSequence(Generic[Open, Done]):
    """Shards one after the other, each closed at the document that reaches the target."""

    def __init__(
        self,
        target_tokens: int,
        begin: Callable[[int], Open],
        close: Callable[[Open, int], Done] = lambda shard, number: shard.close(),
        done: Iterable[Done] = (),
    ) -> None:
        """begin: opens the shard of a number. close: what becomes of a full one. done: those that are there."""
        self._target_tokens = target_tokens
        self._begin = begin
        self._close = close
        self.done = [*done]
        self.open: Open | None = None

    def write(self, some: Any, offsets: Offsets) -> None:
        """Append documents, which can be sliced. offsets: of all of them, in tokens."""
        start, num = 0, len(offsets) - 1
        while start < num:
            shard = self.open = self.open or self._begin(len(self.done))
            room = self._target_tokens - shard.num_tokens
            # The first document that reaches the target is the shard's last.
            reached = int(np.searchsorted(offsets, offsets[start] + room, side="left"))
            end = min(max(reached, start + 1), num)
            shard.write(some.slice(start, end))
            if shard.num_tokens >= self._target_tokens:
                self._close_open()
            start = end

    def close(self) -> list[Done]:
        """All shards, the last one closed as if it were full."""
        self._close_open()
        return self.done

    def _close_open(self) -> None:
        if (shard := self.open) is not None:
            self.open = None
            self.done.append(self._close(shard, len(self.done)))
