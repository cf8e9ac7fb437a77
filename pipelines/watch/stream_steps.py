"""What the steps of a stream do, for one output: look for arrivals, cut them into batches, read a batch, commit a pane.

Without Beam: tokcore_pipelines.run.engines.stream_graph calls them, in workers of an engine, each on any host, at any
time, twice or at the same time as another. What is done is in the log of the output, and nowhere else. So a batch is
checked against the log before it is read, and again before it is committed, and of two commits of one number the first
one counts.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from tokcore.errors import ConfigError, TokError
from tokcore.files.canonical_json import write_canonical_json
from tokcore_pipelines.build.inherited_items import find_changed
from tokcore_pipelines.build.read_log import Log
from tokcore_pipelines.history.input_files_held import HeldFiles, make_pin
from tokcore_pipelines.history.make_commit import NewPart, PartBuilder, create_commit, name_whole
from tokcore_pipelines.history.update_output import Changes, Update
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.opened_tombstones import OpenedTombstones
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.watch.blamed_files import blames_machine, shorten
from tokcore_pipelines.watch.look_at_sources import list_waiting, look, make_update
from tokcore_pipelines.watch.marker_files import find_marked
from tokcore_pipelines.watch.quarantine import Quarantine
from tokcore_pipelines.watch.reach_of_looks import Looks
from tokcore_pipelines.watch.stream_notes import NOTHING_WAITS, locate_look, locate_wish
from tokcore_pipelines.watch.waiting_files import Waiting
from tokcore_pipelines.work.work_items import make_plan
from tokcore_schemas.arrivals import Arrival, Batch, PaneCommitted
from tokcore_schemas.build_tables import EngineTable
from tokcore_schemas.commit_log import Part, Reason
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.plan import InputFile, Plan, ReadSettings

T = TypeVar("T")

_HERE = RunOptions(workers=1, here=True)
# So many arrivals are under way at most, in batches: what a burst brings beyond them waits in the store.
_MOST_BATCHES = 8


@dataclasses.dataclass(slots=True)
class _Opened:
    """What a worker knows of an output, in all its threads."""

    update: Update
    looks: Looks
    lock: threading.RLock = dataclasses.field(default_factory=threading.RLock)
    waiting: set[str] = dataclasses.field(default_factory=set)  # uris that the last look showed
    is_sure: bool = False  # whether that one went well
    since: dict[str, float] = dataclasses.field(default_factory=dict)  # key of an arrival -> when it was first seen
    told: dict[str, int] = dataclasses.field(default_factory=lambda: dict(NOTHING_WAITS))  # of what waits


# Workers run several copies of a step in threads, and look at one output: its log is read once.
_updates: dict[tuple[str, str, str], _Opened] = {}
_opening = threading.Lock()


@dataclasses.dataclass(frozen=True)
class StreamSteps:
    """The steps of the stream that follows the sources of a build file into one output."""

    config: BuildConfig
    output: str  # URL

    def check(self) -> Log:
        """The log of the output. Raises ConfigError if the build file does not fit it, or if it has no parts."""
        opened = self._open()
        update, lock = opened.update, opened.lock
        with lock:
            log = update.follow_log()
        if table := name_whole(log.build.config):
            raise ConfigError(
                f"{redact(self.output)}: was built with {table}, so each change makes one part of all documents, and "
                f"batches cannot be made side by side. Watch it without an engine."
            )
        return log

    # -------------------------------------------------------------------------------------------------------- look

    def look(self) -> list[Arrival]:
        """All that waits to be read, as the sources are now, but what is in quarantine, or has no marker yet.

        Raises as Update.look() does.
        """
        if not storage.exists(locate_look(self.output)):
            self.sign(0)  # at once, since the first look may take long
        opened = self._open()
        update = opened.update
        with opened.lock:
            is_sure, opened.is_sure = opened.is_sure, False
            changes, _ = look(update, opened.looks, opened.waiting, is_sure=is_sure)
            held = update.held
            waiting = list_waiting(changes, held)
            quarantine = Quarantine(self.output)
            quarantine.read()
            quarantine.forget_others(waiting)
            left_alone = quarantine.find(waiting)
            marked = find_marked(self.config, waiting)
            ready = [uri for uri in waiting if uri not in left_alone and uri in marked]
            arrivals = self._list_arrivals(update, changes, ready, left_alone, held)
            opened.waiting, opened.is_sure = {*waiting} - left_alone, True
            _note_waiting(opened, waiting, left_alone, arrivals)
            return arrivals

    def _list_arrivals(
        self, update: Update, changes: Changes, wanted: list[str], left_alone: set[str], held: HeldFiles
    ) -> list[Arrival]:
        most = _MOST_BATCHES * self.config.watch.batch_files
        new = {*changes.new}
        parts: dict[str, list[str]] = {}
        for uri in wanted:
            if uri not in new:
                parts.setdefault(held[uri].part, []).append(uri)
        chosen: list[tuple[str, Sequence[str], Sequence[str]]] = [
            ("", [uri], ()) for uri in sorted(uri for uri in wanted if uri in new)[:most]
        ]
        for part, uris in parts.items():
            one = update.choose(changes, uris, left_alone)
            if one.dropped:
                chosen.append((part, one.wanted, one.vanished))
        named = {uri for _, uris, _ in chosen for uri in uris}
        files = {file.uri: file for file in changes.plan.files if file.uri in named}
        arrivals = [
            _make_arrival(changes.plan, [files[uri] for uri in uris if uri in files], part, vanished)
            for part, uris, vanished in chosen
        ]
        return sorted(arrivals, key=lambda arrival: arrival.first)[:most]

    def sign(self, number: int) -> None:
        """Leave the number of a look, and what waits, where the driver and `tokcore status` see it."""
        told = {"look": number, "said": int(time.time()), **self._open().told}
        with storage.write_attempt(locate_look(self.output)) as file:
            file.write(write_canonical_json(told))

    def is_over(self) -> bool:
        """Whether the stream was told to end."""
        return storage.exists(locate_wish(self.output))

    # ------------------------------------------------------------------------------------------------------ batches

    def cut(self, arrivals: Iterable[Arrival]) -> Iterator[Batch]:
        """Batches of some arrivals, each of which fills up to batch_bytes or batch_files. Their order does not matter.

        Versions of one file, and changes of one part, go into different batches. None may be dropped: the step before
        this one lets each arrival through once, and would hold it back for long.
        """
        left = sorted({one.key: one for one in arrivals}.values(), key=lambda one: (one.first, one.key))
        while left:
            apart, left = _take_apart(left, _list_claims)
            yield from self._fill(apart)

    def _fill(self, arrivals: Iterable[Arrival]) -> Iterator[Batch]:
        settings = self.config.watch
        batch: list[Arrival] = []
        num_files = size_bytes = 0
        for arrival in arrivals:
            if batch and (
                num_files + len(arrival.files) > settings.batch_files or size_bytes >= int(settings.batch_bytes)
            ):
                yield Batch(tuple(batch))
                batch, num_files, size_bytes = [], 0, 0
            batch.append(arrival)
            num_files += len(arrival.files)
            size_bytes += arrival.size_bytes
        if batch:
            yield Batch(tuple(batch))

    def read(self, batch: Batch, pause: Callable[[float], None] = time.sleep) -> Iterator[Batch]:
        """Read and encode a batch, into a part of the output that no commit names yet; what is ready to be committed.

        What the output holds is left out, and so is a file that is not as it was listed: its new version is another
        arrival. A batch that fails is halved, until what is to blame is alone; that goes into quarantine. Raises what
        is no fault of a file.
        """
        opened = self._open()
        update, lock = opened.update, opened.lock
        with lock:
            log = update.follow_log()
            left = _leave_out_done(batch, log, update.held)
        if left is None:
            return
        for tries in range(self.config.watch.tries if len(left.arrivals) == 1 else 1):
            try:
                self._make_part(left, log)
            except (TokError, OSError) as error:
                if left is not (fresh := self._leave_out_stale(left)):
                    yield from self.read(fresh, pause)
                    return
                if blames_machine(error, self.output):
                    raise
                failure = error
                pause(float(self.config.watch.poll_seconds) * 2**tries if len(left.arrivals) == 1 else 0)
            else:
                reach("stream.read")
                yield left
                return
        if len(left.arrivals) == 1:
            self._give_up(left.arrivals[0], failure)
            return
        half = len(left.arrivals) // 2
        for arrivals in (left.arrivals[:half], left.arrivals[half:]):
            yield from self.read(Batch(arrivals), pause)

    def _make_part(self, batch: Batch, log: Log) -> Part:
        """The part of a batch; a finished one is found by its name."""
        plan = make_batch_plan(batch, self.config.plan.range_bytes, log)
        builder = PartBuilder(self._local_config(), self.output, _HERE, StageProgress(level=-1))
        return builder.build(NewPart(plan, None))

    def _leave_out_stale(self, batch: Batch) -> Batch:
        """The batch without arrivals of files that are not as they were listed; itself if all are."""
        stale = {*find_changed((file for one in batch.arrivals for file in one.files), self.config.base)}
        kept = tuple(one for one in batch.arrivals if not any(file.uri in stale for file in one.files))
        return batch if len(kept) == len(batch.arrivals) else Batch(kept)

    def _give_up(self, arrival: Arrival, error: Exception) -> None:
        """Note that a file, or what changed in a part, failed as often as it may."""
        opened = self._open()
        update, lock = opened.update, opened.lock
        with lock:
            held = update.held
        quarantine = Quarantine(self.output)
        for file in arrival.files:
            pin = make_pin(file, arrival.settings[file.settings])
            if file.uri not in held or held[file.uri].pin != pin:
                quarantine.put(file.uri, Waiting(file.size_bytes, file.version, arrival.part), shorten(error))

    # ------------------------------------------------------------------------------------------------------- commit

    def commit(self, batches: Iterable[Batch]) -> PaneCommitted | None:
        """Commit the batches of a pane; None if the output holds them already.

        Batches without a common file or part make one commit together; others make one after the other, without what
        is already committed. Sources are read again only if documents were removed, or if the log has changed, since
        the batches were read.
        """
        left = sorted(batches, key=lambda batch: batch.arrivals[0].first)
        newest, num_files = 0, 0
        while left:
            apart, left = _take_apart(left, lambda batch: {*itertools.chain(*map(_list_claims, batch.arrivals))})
            if (committed := self._commit_at_once(apart)) is not None:
                newest, num_files = committed.commit, num_files + committed.files
        return PaneCommitted(newest, num_files) if newest else None

    def _commit_at_once(self, batches: list[Batch]) -> PaneCommitted | None:
        opened = self._open()
        update, lock = opened.update, opened.lock
        while True:
            with lock:
                log = update.follow_log()
                held = update.held
            left = [one for batch in batches if (one := _leave_out_done(batch, log, held)) is not None]
            if not left:
                return None
            added = [self._make_part(batch, log) for batch in left if any(one.files for one in batch.arrivals)]
            arrivals = [one for batch in left for one in batch.arrivals]
            reason = _count_reasons(arrivals, held)
            dropped = sorted({one.part for one in arrivals} - {""})
            reach("stream.built")
            commit = create_commit(log, reason, added, dropped)
            if commit is not None:
                reach("stream.committed")
                return PaneCommitted(commit.number, sum(len(one.files) for one in arrivals))

    # ------------------------------------------------------------------------------------------------------- shared

    def _open(self) -> _Opened:
        """The output as it is known in this process."""
        key = (self.output, self.config.path, self.config.update.vanished)
        with _opening:
            if key not in _updates:
                quiet, looks = StageProgress(level=-1), Looks(self.config.watch, None)
                update = make_update(self._local_config(), _HERE, self.output, quiet, looks, takes_over=False)
                _updates[key] = _Opened(update, looks)
            return _updates[key]

    def _local_config(self) -> BuildConfig:
        """The build file for what a worker does by itself."""
        return dataclasses.replace(self.config, engine=EngineTable())


def _note_waiting(
    opened: _Opened, waiting: Mapping[str, Waiting], left_alone: Collection[str], arrivals: Sequence[Arrival]
) -> None:
    now = time.monotonic()
    opened.since = {one.key: opened.since.get(one.key, now) for one in arrivals}
    sizes = [one.size_bytes for uri, one in waiting.items() if uri not in left_alone]
    opened.told = {
        "waiting_files": len(sizes),
        "waiting_bytes": sum(sizes),
        "oldest_waiting_s": round(now - min(opened.since.values(), default=now)),
        "quarantined": len(left_alone),
    }


def make_batch_plan(batch: Batch, range_bytes: int, log: Log) -> Plan:
    """The plan of a batch, of which is left out what was removed from the output."""
    removed = log.open_tombstones()
    settings: dict[ReadSettings, int] = {}
    files: list[InputFile] = []
    for arrival in batch.arrivals:
        for file in arrival.files:
            if removed is not None and removed.has("source", file.uri):
                continue
            plain = removed.plain if removed is not None else None
            read = dataclasses.replace(arrival.settings[file.settings], removed=plain)
            files.append(dataclasses.replace(file, settings=settings.setdefault(read, len(settings))))
    return make_plan(files, [*settings], range_bytes)


def _make_arrival(plan: Plan, chosen: Iterable[InputFile], part: str, vanished: Iterable[str]) -> Arrival:
    settings: dict[ReadSettings, int] = {}
    files = []
    for file in sorted(chosen, key=lambda file: file.uri):
        read = dataclasses.replace(plan.settings[file.settings], removed=None)
        files.append(dataclasses.replace(file, settings=settings.setdefault(read, len(settings))))
    return Arrival(tuple(files), tuple(settings), part, tuple(sorted(vanished)))


def _leave_out_done(batch: Batch, log: Log, held: HeldFiles) -> Batch | None:
    """The arrivals of a batch that are still to be committed; None if none is."""
    parts = {part.path for part in log.parts()}
    removed = log.open_tombstones()
    left = tuple(
        one
        for one in batch.arrivals
        if _is_wanted(one, parts, held) and (one.part or not _are_removed(one.files, removed))
    )
    return Batch(left) if left else None


def _is_wanted(arrival: Arrival, parts: set[str], held: HeldFiles) -> bool:
    """Whether what an arrival brings is not in the output, and the part that it replaces is."""
    if arrival.part and arrival.part not in parts:
        return False
    return all(file.uri not in held or held[file.uri].part == arrival.part for file in arrival.files)


def _are_removed(files: Iterable[InputFile], removed: OpenedTombstones | None) -> bool:
    """Whether somebody has removed all these files from the output."""
    return removed is not None and all(removed.has("source", file.uri) for file in files)


def _take_apart(items: Iterable[T], list_claims: Callable[[T], set[str]]) -> tuple[list[T], list[T]]:
    """(items of which no two have a claim in common, the other items); both keep their order.

    >>> _take_apart(["ab", "bc", "cd"], set)
    (['ab', 'cd'], ['bc'])
    """
    taken: set[str] = set()
    apart: list[T] = []
    others: list[T] = []
    for item in items:
        claims = list_claims(item)
        if claims & taken:
            others.append(item)
        else:
            apart.append(item)
            taken |= claims
    return apart, others


def _list_claims(arrival: Arrival) -> set[str]:
    """The files of an arrival, and the part that it drops: no other arrival of its commit may have them."""
    return {*(f"file {file.uri}" for file in arrival.files), *([f"part {arrival.part}"] if arrival.part else [])}


def _count_reasons(arrivals: Iterable[Arrival], held: HeldFiles) -> Reason:
    new = changed = vanished = read_again = 0
    for arrival in arrivals:
        vanished += len(arrival.vanished)
        for file in arrival.files:
            pin = make_pin(file, arrival.settings[file.settings])
            if file.uri not in held:
                new += 1
            elif held[file.uri].pin == pin:
                read_again += 1
            else:
                changed += 1
    return Reason("update", new, changed, vanished, read_again)
