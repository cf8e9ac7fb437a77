"""Documents of an output that grows, as its commits bring them: each once, in order, from where one stopped.

Leaves to others: opening shards (tokcore.shards.opened_shards), and reading commits (tokcore.shards.commits).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from tokcore.errors import ConfigError, FormatError
from tokcore.shards.commits import list_parts_of, read_planned
from tokcore.shards.token_batch import Ids

POLL_SECONDS = 5.0
_STATE = ("first", "commit", "document")


class HasSource(Protocol):
    """What is asked of what stands beside a document's ids."""

    @property
    def source(self) -> str:
        """The URI of the file that it is from; empty if its shards do not say."""


class OpenedParts(Protocol):
    """What is asked of the shards of some parts, opened as one: Shards gives it."""

    def __len__(self) -> int:
        """The number of documents."""

    def __getitem__(self, row: int, /) -> Ids:
        """The ids of a document."""

    def document(self, row: int, /) -> HasSource:
        """What stands beside them."""


class FollowedDocument(NamedTuple):
    """A document, and how it came."""

    commit: int  # the number of the commit that brought it
    document: int  # its place among those that the commit brought, from 0
    tokens: Ids


class FollowedShards:
    """Iterates over the documents of a commit, then over those that each later commit brings, and waits for more.

    A commit that replaces a part brings only the documents of files that are new to the output, or of another version;
    those that were read again are left out. So each document comes once. What a commit takes away stays unsaid.

    >>> import tokcore
    >>> followed = tokcore.open_shards("out/first", follow=True)
    >>> [(one.commit, one.document, len(one.tokens)) for one in followed.read_available()]
    [(0, 0, 7), (0, 1, 4)]
    >>> followed.state_dict()
    {'first': 0, 'commit': 1, 'document': 0}
    """

    def __init__(
        self,
        place: str,
        open_parts: Callable[[Sequence[str]], OpenedParts],
        first: int = 0,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        """place: a local path or URL of an output. open_parts: opens the shards of parts, as one. first: the commit of
        which all documents come. poll_seconds: from one look for a new commit to the next.
        """
        self._place = place.rstrip("/")
        self._open_parts = open_parts
        self._first = self._commit = first
        self._document = 0
        self.poll_seconds = poll_seconds
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[FollowedDocument]:
        while not self._closed.is_set():
            yield from self.read_available()
            self._closed.wait(self.poll_seconds)

    def read_available(self) -> Iterator[FollowedDocument]:
        """The documents that are there and have not come yet; ends where it would have to wait.

        Raises FormatError if a commit or a shard is damaged, or was removed by `tokcore expire`.
        """
        while (brought := self._read_commit(self._commit)) is not None:
            shards, rows = brought
            while self._document < len(rows) and not self._closed.is_set():
                index = self._document
                self._document += 1
                yield FollowedDocument(self._commit, index, shards[rows[index]])
            if self._closed.is_set():
                return
            self._commit, self._document = self._commit + 1, 0

    def close(self) -> None:
        """End the iteration, also from another thread, after the document that is out."""
        self._closed.set()

    def state_dict(self) -> dict[str, int]:
        """Where it is: the commit that it began with, and the next document, by commit and place."""
        return {"first": self._first, "commit": self._commit, "document": self._document}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on where another one was. Raises ConfigError unless it is the state of one."""
        numbers = [state.get(name) for name in _STATE]
        if {*state} != {*_STATE} or not all(isinstance(number, int) and number >= 0 for number in numbers):
            raise ConfigError(f"state = {dict(state)}: expected what state_dict() gives: {', '.join(_STATE)}")
        self._first, self._commit, self._document = (state[name] for name in _STATE)

    def _read_commit(self, number: int) -> tuple[OpenedParts, Sequence[int]] | None:
        """(shards, the rows that are new) of what a commit brings; None if there is no such commit yet."""
        parts = list_parts_of(self._place, number)
        if parts is None:
            if number == self._first:
                raise ConfigError(f"{self._place}: has no commit {number}")
            return None
        before = (list_parts_of(self._place, number - 1) or []) if number > self._first else []
        added = [part for part in parts if part not in before]
        shards = self._open_parts(added)
        known = {file for part in before for file in self._read_plan(part, number - 1)} if added and before else set()
        again = {uri for part in added for uri, version in self._read_plan(part, number) if (uri, version) in known}
        if not again:
            return shards, range(len(shards))
        rows = []
        for row in range(len(shards)):
            if not (source := shards.document(row).source):
                raise FormatError(
                    f"{self._place}: its shards do not say which file a document is from, so it cannot "
                    f"be told which ones commit {number} brings. Formats with sidecars say it."
                )
            if source not in again:
                rows.append(row)
        return shards, rows

    def _read_plan(self, part: str, number: int) -> list[tuple[str, str]]:
        if (planned := read_planned(part)) is None:
            raise FormatError(
                f"{part}: its plan is gone, so it cannot be told what is new since commit {number}. If commits have "
                f"expired, begin again with open_shards(..., follow=True, at=COMMIT)."
            )
        return planned
