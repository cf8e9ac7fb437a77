"""The loop of `tokcore watch`: look, choose a batch, make it a part of the output, commit; wait, and look again.

Exactly once: what the output holds is what its log says, and a batch is an update of it (history/update_output.py). So
a watcher that is killed leaves nothing that the next one, or `tokcore update`, does not find or make again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import re
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

from tokcore.errors import ConfigError, IdentityError, TokError, VersionError
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.read_log import read_part
from tokcore_pipelines.history.small_parts import MODULES
from tokcore_pipelines.history.update_output import Changes, Update
from tokcore_pipelines.local.free_memory import free_memory, share_arena
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.local.terminal import format_count, format_duration, format_size
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.options import use_options
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.watch.begin_output import begin_output
from tokcore_pipelines.watch.blamed_files import blames_machine, shorten
from tokcore_pipelines.watch.drift_watch import DriftWatch
from tokcore_pipelines.watch.look_at_sources import list_waiting, look, make_update
from tokcore_pipelines.watch.marker_files import find_marked
from tokcore_pipelines.watch.meters import Meters
from tokcore_pipelines.watch.notifications import Notifications
from tokcore_pipelines.watch.pages import Page, serve_pages
from tokcore_pipelines.watch.quarantine import Quarantine
from tokcore_pipelines.watch.queues import open_queue
from tokcore_pipelines.watch.reach_of_looks import Looks
from tokcore_pipelines.watch.signals import Wishes
from tokcore_pipelines.watch.waiting_files import MOST_NEW, Waiting, WaitingFiles
from tokcore_pipelines.watch.watcher_turns import Turn, describe_watcher
from tokcore_schemas.changed_settings import describe_changed_settings
from tokcore_schemas.commit_log import Commit
from tokcore_schemas.config import BuildConfig

_LONGEST_PAUSE_S = 300.0
_POLLS_OF_A_STANDBY = 10  # from one look to the next of a watcher that stands by; each look lists all sources


class Service:
    """One watcher. run() returns when it was told to end, and is done with its batch."""

    def __init__(
        self,
        config: BuildConfig,
        options: RunOptions,
        output: str = "",
        progress: StageProgress | None = None,
        *,
        reload: Callable[[], BuildConfig] | None = None,
    ) -> None:
        """output: URL; empty: as the build file says. reload: reads the build file again, on SIGHUP."""
        use_options(dataclasses.asdict(config.storage))
        self.config = config
        self.options = options
        self.progress = progress or StageProgress()
        self.settings = config.watch
        self.wishes = Wishes(float(self.settings.drain_seconds))
        self.meters = Meters()
        self._stages = self.progress if self.progress.level > 0 else StageProgress(level=-1)
        build = Build(config, options, output)
        self.output = build.output
        self._workers = Workers(build.options, MODULES)
        self._reload = reload
        self._waiting = WaitingFiles(self.settings)
        self._quarantine = Quarantine(self.output)
        self._turn = Turn(self.output, float(self.settings.lease_seconds), self._describe)
        self._changes: dict[str, Waiting] = {}
        self._notifications = self._open_notifications()
        self._looks = Looks(self.settings, self._notifications)
        self._beyond = (0, 0)  # (new files that wait in the store until there is room, their bytes)
        self._update: Update | None = None
        self._has_turn = False
        self._looked_at: float | None = None  # when the sources were last listed
        self._trouble = ""  # what the last look or batch failed of
        self._num_failed = 0  # looks and batches that failed in a row, through no fault of a file
        self._newest = 0
        self._told: set[str] = set()  # about files that are not taken
        self._num_told: int | None = None  # changes that wait, as last said
        self._began = time.time()
        self._drift = self._make_drift()

    def run(self) -> None:
        """Follow the sources until told to end.

        Raises ConfigError if the output holds something else, or if the build file does not fit it; KeyboardInterrupt
        if the batch did not end in time, of which nothing is committed.
        """
        share_arena()
        with self.wishes.heard(), self.at_work():
            while not self.wishes.is_over:
                if self.wishes.take_reload():
                    self._read_config_again()
                self.wishes.wait(self.go_round())
                self._gather_hints()
        self.progress.say("watch: ended, as it was told to; nothing is half done")

    # ---------------------------------------------------------------------------------------------------------- begin

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Begin the output if there is none, and let others see this watcher while the block runs."""
        self.config = begin_output(self.config, self.options, self.output, self._stages, self.progress.say)
        self._update = self._make_update(self.config)
        pages = serve_pages(self.settings.listen, self.show_ready, self.meters.write, self.progress.say)
        self._turn.begin()
        if self._notifications is not None:
            self._notifications.begin()
        try:
            yield
        finally:
            if self._notifications is not None:
                self._notifications.end()
            self._turn.end()
            self._workers.close()
            if pages is not None:
                pages.end()

    def _make_update(self, config: BuildConfig) -> Update:
        return make_update(config, self.options, self.output, self._stages, self._looks, workers=self._workers)

    def _open_notifications(self) -> Notifications | None:
        if not (url := self.settings.notifications):
            return None
        queue = open_queue(url, self.config.storage.s3)
        return Notifications(queue, self.wishes.wake, self.progress.say)

    def _make_drift(self) -> DriftWatch:
        return DriftWatch(self.config, self.output, self.meters, lambda text: self.progress.say(f"watch: {text}"))

    def show_ready(self) -> Page:
        if self._trouble:
            return Page(False, f"{self._trouble}\n".encode())
        if self._looked_at is None:
            return Page(False, b"the sources are not listed yet\n")
        return Page(True, b"commits\n" if self._has_turn else b"stands by\n")

    def _read_config_again(self) -> None:
        """Take over a changed build file, unless the output would be another one."""
        if self._reload is None:
            return
        try:
            config = self._reload()
            config = dataclasses.replace(config, counts_too=self.config.counts_too)
            if reasons := describe_changed_settings(self.config.stage_configs(), config.stage_configs()):
                raise ConfigError(
                    f"{config.path}: the output would be another one: {'; '.join(reasons)}. "
                    f"The watcher goes on with the settings that it has."
                )
            update = self._make_update(config)
        except TokError as error:
            self.progress.say(f"watch: reload refused: {redact(str(error))}")
            return
        self.config, self._update = config, update
        self._workers.close()  # they have the options of stores that the old build file set
        self._drift = self._make_drift()
        self._looks.change_settings(config.watch)
        self.settings = self._waiting.settings = config.watch
        self.progress.say(f"watch: {config.path} is read again")

    # ---------------------------------------------------------------------------------------------------------- rounds

    def go_round(self) -> float:
        """Look, and commit all batches that are due; for how many seconds to wait then."""
        poll = float(self.settings.poll_seconds)
        try:
            had_turn, self._has_turn = self._has_turn, self._turn.take()
            self.meters.has_turn.set(self._has_turn)
            if self._notifications is not None:
                self._notifications.listen(self._has_turn)
            if self._has_turn != had_turn:
                self._turn.beat()
            if self._has_turn and not had_turn:
                self.progress.say("watch: this watcher commits")
            elif not self._has_turn and (had_turn or self._looked_at is None):
                self.progress.say("watch: another watcher commits, and this one stands by")
            if not self._has_turn and self._has_looked_lately():
                return poll
            changes = self._look()
            if not self._has_turn:
                _give_back_memory()
                return poll
            while not self.wishes.is_over and self._make_batch(changes):
                changes = self._look()
            self._measure_drift()
            _give_back_memory()
        except (IdentityError, VersionError):
            raise  # nothing that passes: another output, or one of a later release
        except (TokError, OSError) as error:
            if self._looked_at is None and isinstance(error, ConfigError):
                raise  # the build file is wrong, not a store in trouble
            return self._note_trouble("look", error)
        self._trouble, self._num_failed = "", 0
        quarantined = self._quarantine.find(self._changes)
        self._tell_waiting(*self._waiting.count(quarantined))
        return self._looks.choose_pause(self._waiting.count(quarantined)[0] > 0)

    def _has_looked_lately(self) -> bool:
        """Whether a watcher that stands by can leave a look out. If it takes over, it looks first."""
        if self._looked_at is None or self._num_failed:
            return False
        return time.monotonic() - self._looked_at < _POLLS_OF_A_STANDBY * float(self.settings.poll_seconds)

    def _gather_hints(self) -> None:
        """Let the hints of some seconds be one look."""
        if self._notifications is None or self._looked_at is None or not self._has_turn:
            return
        self.wishes.wait_for_end(self._looked_at + self._looks.find_gap() - time.monotonic())

    def _look(self) -> Changes:
        """List the sources; what changed, all of it."""
        assert self._update is not None
        quarantined = self._quarantine.find(self._changes)
        waiting = [uri for uri in self._changes if uri not in quarantined]
        changes, are_empty = look(self._update, self._looks, waiting, is_sure=not self._num_failed)
        if are_empty:
            self.progress.say("watch: the sources are empty: nothing is removed until one of their files is back")
        changes = self._leave_beyond(changes)
        self._changes = list_waiting(changes, self._update.held)
        self._waiting.observe(self._changes, time.monotonic(), find_marked(self.config, self._changes))
        self._quarantine.read()
        if self._has_turn and not self._beyond[0]:
            self._quarantine.forget_others(self._changes)
        self._looked_at = time.monotonic()
        self._newest = self._update.newest
        for url, why in self._update.left_out.no_data.items():
            self._tell_once(f"{redact(url)}: is not taken: {why}")
        for warning in self._update.left_out.links:
            self._tell_once(f"warning: {warning}")
        if self._update.spelling:
            self._tell_once(self._update.spelling)
        if self._update.stuck:
            self._tell_once(self._update.stuck.replace("--vanished remove", 'update.vanished = "remove"'))
        self._measure()
        return changes

    def _leave_beyond(self, changes: Changes) -> Changes:
        """The changes without the new files that there is no room for; these are counted."""
        self._beyond = 0, 0
        if len(changes.new) <= MOST_NEW or self.settings.marker:  # a file without its marker may take room for ever
            return changes
        chosen = self._waiting.choose_new(changes.new, self._quarantine.find(self._changes))
        beyond = {*changes.new} - {*chosen}
        self._beyond = len(beyond), sum(file.size_bytes for file in changes.plan.files if file.uri in beyond)
        return changes._replace(new=chosen)

    def _make_batch(self, changes: Changes) -> bool:
        """Read and commit the next batch; whether to look again at once. A failure of a batch is noted here."""
        assert self._update is not None
        quarantined = self._quarantine.find(self._changes)
        uris = self._waiting.choose_batch(time.monotonic(), quarantined)
        chosen = self._update.choose(changes, uris, quarantined) if uris else None
        if not chosen:
            return False
        self._update.require_tokenizer()  # else a tokenizer that is damaged would be the fault of files
        began = time.monotonic()
        reach("watch.chosen")
        try:
            commit = self._update.make(chosen)
        except (TokError, OSError) as error:
            self._note_failed_batch(uris, self._update.discard(), error)
            return True
        if commit is None:
            self.progress.say("watch: another watcher has committed meanwhile")
            return True
        reach("watch.committed")
        seconds = time.monotonic() - began
        self._waiting.note_committed(len(uris), seconds)
        self._tell_commit(commit, chosen, seconds)
        _give_back_memory()
        return True

    def _tell_commit(self, commit: Commit, chosen: Changes, seconds: float) -> None:
        now = time.monotonic()
        parts = [read_part(self.output, part) for part in commit.added]
        lags = [self._waiting.age(uri, now) for uri in [*chosen.new, *chosen.changed]]
        self.meters.note_commit(commit, parts, lags, seconds)
        text = sum(part.totals.text_bytes for part in parts)
        documents = sum(part.totals.records.documents for part in parts)
        self._trouble, self._num_failed = "", 0
        self._newest = commit.number
        self.progress.say(
            f"commit {commit.number}: {commit.why.describe_files()}, {format_count(documents, 'document')}, "
            f"{format_size(text)} of text, {seconds:.1f} s; the oldest file waited {max(lags, default=0.0):.0f} s"
        )
        assert self._update is not None
        if held_back := self._update.describe_held_back(commit):
            self.progress.say(f"commit {commit.number}: {held_back}")
        self._turn.beat()

    # --------------------------------------------------------------------------------------------------------- trouble

    def _note_failed_batch(self, uris: Collection[str], read: set[str], error: Exception) -> None:
        """Blame the machine, or the files; those that are to blame too often go into quarantine.

        No file is to blame if some changed while the batch was read: these must settle again, and the others are tried
        again. read: the uris of all files that were read, also of those that were read again for a part.
        """
        self.meters.note_failure("batch")
        if blames_machine(error, self.output):
            raise error
        before = dict(self._changes)
        self._look()
        read = {*uris} | read
        if num_changed := sum(self._changes.get(uri) != before.get(uri) for uri in read):
            self._waiting.shrink(len(uris), num_changed)
            self._waiting.put_first(uris)
            self.progress.say(
                f"watch: {num_changed:,} of the {len(read):,} files of a batch changed while they were read: they must "
                f"settle again, and the others are tried again"
            )
            return
        shown = shorten(error)
        spent = self._waiting.fail([*uris], time.monotonic())
        for uri in spent:
            self._quarantine.put(uri, self._changes[uri], shown)
            self.progress.say(f"watch: {redact(uri)}: failed {self.settings.tries} times, and is left alone: {shown}")
        if not spent:
            files = f"{len(uris):,} files" if len(uris) > 1 else redact(next(iter(uris)))
            self.progress.say(f"watch: a batch of {files} failed and is tried again: {shown}")
        self._measure()

    def _tell_waiting(self, num_files: int, size_bytes: int) -> None:
        """Say what this watcher waits for, when that changes."""
        if num_files == self._num_told:
            return
        self._num_told = num_files
        assert self._update is not None
        held = format_count(len(self._update.held), "file")
        if num_files:
            changes = format_count(num_files, "change")
            due = f"{self.settings.batch_files:,} files or after {format_duration(round(self.settings.batch_seconds))}"
            waiting = f"{changes} with {format_size(size_bytes)} wait, {held} held"
            self.progress.say(f"watch: {waiting}; a batch is due at {due}")
        else:
            self.progress.say(f"watch: nothing waits, {held} held; looks every {self.settings.poll_seconds} s")

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.progress.say(f"watch: {text}")

    def _note_trouble(self, what: str, error: Exception) -> float:
        """Say what is wrong, once for each cause; for how many seconds to wait."""
        self.meters.note_failure(what)
        said = shorten(error)
        pause: float = min(float(self.settings.poll_seconds) * 2.0**self._num_failed, _LONGEST_PAUSE_S)
        self._num_failed += 1
        if _spell_cause(said) != _spell_cause(self._trouble):
            self.progress.say(f"watch: {said}. Nothing is lost: it is tried again, at first in {pause:.0f} s")
        self._trouble = said
        self._measure()
        return pause

    # ---------------------------------------------------------------------------------------------------------- status

    def _measure(self) -> None:
        quarantined = self._quarantine.find(self._changes)
        files, size = self._count_waiting(quarantined)
        self.meters.waiting_files.set(files)
        self.meters.waiting_bytes.set(size)
        self.meters.oldest.set(self._waiting.find_oldest(time.monotonic(), quarantined))
        self.meters.quarantined.set(len(self._quarantine.notes))
        self.meters.newest.set(self._newest)
        if self._update is not None:
            self.meters.note_measured(self._update.measured)
        if self._notifications is not None:
            self.meters.note_messages(*self._notifications.take_counts())

    def _count_waiting(self, quarantined: Collection[str]) -> tuple[int, int]:
        """(files that wait, their stored bytes), including those that there is no room for."""
        files, size = self._waiting.count(quarantined)
        return files + self._beyond[0], size + self._beyond[1]

    def _measure_drift(self) -> None:
        if self._update is not None and self._drift.measure(self._update.log):
            self._turn.beat()

    def _describe(self) -> dict[str, Any]:
        """What `tokcore status` is told."""
        quarantined = self._quarantine.find(self._changes)
        files, size = self._count_waiting(quarantined)
        return describe_watcher(
            "commits" if self._has_turn else "stands by",
            self._began,
            waiting_files=files,
            waiting_bytes=size,
            oldest_waiting_s=round(self._waiting.find_oldest(time.monotonic(), quarantined)),
            newest_commit=self._newest,
            trouble=self._trouble,
            queue_trouble=self._notifications.trouble if self._notifications is not None else "",
            listen=self.settings.listen,
            drift=self._drift.found,
        )


def _give_back_memory() -> None:
    """Give back what a look or a batch has taken. Else a process that lives for months grows with each of them.

    Python looks for cycles of objects among all that it holds only after much has been added, and the C library keeps
    memory that was freed.
    """
    gc.collect()
    free_memory()


def _spell_cause(text: str) -> str:
    """An error without what differs each time: the names of attempts, and numbers."""
    return re.sub(r"[0-9a-f]{12,}|[0-9]+", "#", text)
