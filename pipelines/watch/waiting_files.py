"""The files that wait to be read: which have settled, and which make the next batch. Knows no store and no clock."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tokcore_schemas.build_tables import WatchTable

_LONGEST_PAUSE_S = 300.0
_FIRST_FILES = 256  # of a batch, at first
_LONG_BATCH_S = 20.0  # a batch takes too long if it takes more than that, and more than twice batch_seconds
MOST_NEW = 20_000  # new files that wait here: two of the largest batches, one that is read and one that settles


class Waiting(NamedTuple):
    """A change that waits, as a listing shows it."""

    size_bytes: int  # 0 of a file that vanished
    version: str
    part: str  # the path of the part that holds what the file was before; "" for a new file


@dataclasses.dataclass(slots=True)
class _Seen:
    change: Waiting
    since: float  # when the change was first seen
    tries: int = 0  # how often it failed, alone
    most: int = 0  # of files in a batch with this one; 0: any number
    not_before: float = 0.0


class WaitingFiles:
    """Times are seconds of any clock that never goes back. A change is a version of a file: a newer one waits anew."""

    def __init__(self, settings: WatchTable) -> None:
        self.settings = settings
        self._seen: dict[str, _Seen] = {}
        self._marked: Collection[str] | None = None
        # Files of a batch; None: batch_files. The first is small, since a new watcher does not know how many files
        # change while a batch is read; an earlier one may have learned that, and died.
        self._most: int | None = _FIRST_FILES if settings.batch_files > _FIRST_FILES else None
        self._first: Collection[str] = ()  # files that alone make the next batch, if any of them is ready
        self._eighths = 8  # of its size, by which the next batch is larger than one that was committed

    def observe(self, changes: Mapping[str, Waiting], now: float, marked: Collection[str] | None = None) -> None:
        """Take over what a listing shows. marked: the files whose marker is there; None: none is needed."""
        seen = self._seen
        self._seen = {
            uri: seen[uri] if uri in seen and seen[uri].change == change else _Seen(change, now)
            for uri, change in changes.items()
        }
        self._marked = marked

    def choose_new(self, new: Iterable[str], without: Collection[str] = ()) -> list[str]:
        """The new files that wait here: those that do already, and others while there is room.

        So the files of a burst wait in the store, not in memory. without: files in quarantine, which take no room.
        """
        left_alone: list[str] = []
        known: list[str] = []
        others: list[str] = []
        for uri in new:
            if uri in without:
                left_alone.append(uri)
            elif uri in self._seen:
                known.append(uri)
            elif len(others) < MOST_NEW:
                others.append(uri)
        return [*left_alone, *known, *others[: max(0, MOST_NEW - len(known))]]

    def count(self, without: Collection[str] = ()) -> tuple[int, int]:
        """(files that wait, their stored bytes), those in quarantine left out."""
        waiting = [one.change.size_bytes for uri, one in self._seen.items() if uri not in without]
        return len(waiting), sum(waiting)

    def find_oldest(self, now: float, without: Collection[str] = ()) -> float:
        """For how many seconds the oldest change has waited; 0 if none waits."""
        return max((now - one.since for uri, one in self._seen.items() if uri not in without), default=0.0)

    def age(self, uri: str, now: float) -> float:
        """For how many seconds a change has waited."""
        return now - self._seen[uri].since

    def choose_batch(self, now: float, without: Collection[str] = (), hurry: bool = False) -> list[str]:
        """The uris of the next batch, the oldest changes first; empty if it is not time for one.

        A batch is due once it is full, or once its oldest file has waited for batch_seconds. Changes of files of one
        part of the output are in one batch, since that part is read again. without: files in quarantine. hurry: what
        is ready is due.
        """
        ready = self._list_ready(now, without)
        first, self._first = {*self._first}, ()
        if again := [uri for uri in ready if uri in first]:
            return again
        if not ready:
            return []
        settings = self.settings
        is_full = (
            len(ready) >= settings.batch_files
            or sum(self._seen[uri].change.size_bytes for uri in ready) >= settings.batch_bytes
        )
        if not (is_full or hurry or self.age(ready[0], now) >= settings.batch_seconds):
            return []
        return self._cut(ready)

    def put_first(self, uris: Collection[str]) -> None:
        """Let the next batch be those of these files that are ready, and no others.

        For the files of a batch that failed. It was making several parts. A part that it finished is found again, and
        not made again, if the next batch makes a part of the same files.
        """
        self._first = uris

    def shrink(self, num_files: int, num_changed: int) -> None:
        """Make batches smaller, after num_changed of num_files files changed while they were read.

        A batch of twice as many files is read for twice as long, so about four times as many of them change. The next
        batch is of the size at which half a change is expected.
        """
        self._most = max(1, math.isqrt(num_files * num_files // (2 * num_changed)))
        self._eighths = 1

    def note_committed(self, num_files: int, seconds: float) -> None:
        """Set the size of the next batch, after one of num_files files was committed in that time.

        Batches grow: after shrink() first by an eighth, then twice as fast each time, since files may have stopped
        changing. But new files wait until a batch ends, so after one that took too long the next is smaller.
        """
        longest = max(_LONG_BATCH_S, 2 * float(self.settings.batch_seconds))
        fitting = max(1, int(num_files * longest / max(seconds, 0.001)))  # so many files take that long
        if seconds > longest:
            self._limit(fitting)
        elif self._most is not None:
            grown = num_files + max(1, num_files * self._eighths // 8)
            self._eighths *= 2
            self._limit(max(self._most, min(grown, fitting)))

    def _limit(self, most: int) -> None:
        self._most = most if most < self.settings.batch_files else None

    def fail(self, uris: Sequence[str], now: float) -> list[str]:
        """Note that a batch failed; the uris of those that have failed, alone, as often as they may.

        A batch of several files is halved, until the one that is to blame is alone.
        """
        spent = []
        units = len({self._seen[uri].change.part or uri for uri in uris if uri in self._seen})
        for uri in uris:
            if (seen := self._seen.get(uri)) is None:
                continue
            seen.most = max(1, len(uris) // 2)
            if units > 1:
                continue
            seen.tries += 1
            pause = float(self.settings.poll_seconds) * 2 ** (seen.tries - 1)
            seen.not_before = now + min(pause, _LONGEST_PAUSE_S)
            if seen.tries >= self.settings.tries:
                spent.append(uri)
        return spent

    def _list_ready(self, now: float, without: Collection[str]) -> list[str]:
        settle = float(self.settings.settle_seconds)
        ready = {
            uri
            for uri, one in self._seen.items()
            if uri not in without
            and now - one.since >= settle
            and now >= one.not_before
            and (self._marked is None or uri in self._marked)
        }
        unready = {one.change.part for uri, one in self._seen.items() if uri not in ready and uri not in without} - {""}
        return sorted(
            (uri for uri in ready if self._seen[uri].change.part not in unready),
            key=lambda uri: (self._seen[uri].since, uri),
        )

    def _cut(self, ready: Iterable[str]) -> list[str]:
        parts: dict[str, list[str]] = {}
        for uri in ready:
            parts.setdefault(self._seen[uri].change.part or f"file {uri}", []).append(uri)
        batch: list[str] = []
        size, most = 0, self._most or self.settings.batch_files
        for uris in parts.values():
            limit = min((self._seen[uri].most for uri in uris if self._seen[uri].most), default=most)
            if batch and (len(batch) + len(uris) > min(most, limit) or size >= self.settings.batch_bytes):
                break
            batch += uris
            most = min(most, limit)
            size += sum(self._seen[uri].change.size_bytes for uri in uris)
        return batch
