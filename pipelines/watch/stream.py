"""`tokcore watch --streaming`: the driver of a stream, which an engine runs.

The stream looks, reads and commits in workers of the engine (stream_steps.py), so it goes on if this process dies. The
driver starts it, or finds the one that runs; says what was committed; and has it finish when it is told to end.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from tokcore.errors import ConfigError, StageError
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.read_log import Log, read_log, read_part
from tokcore_pipelines.local.dataflow import NAME as DATAFLOW
from tokcore_pipelines.local.engines import require_job_server
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.local.terminal import format_count
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER
from tokcore_pipelines.store.options import use_options
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.watch.begin_output import begin_output
from tokcore_pipelines.watch.drift_watch import DriftWatch
from tokcore_pipelines.watch.meters import Meters
from tokcore_pipelines.watch.pages import Page, serve_pages
from tokcore_pipelines.watch.signals import Wishes
from tokcore_pipelines.watch.stream_notes import locate_look, locate_wish, read_look
from tokcore_pipelines.watch.stream_steps import StreamSteps
from tokcore_pipelines.watch.watcher_turns import Turn, describe_watcher
from tokcore_schemas.build_tables import EngineTable
from tokcore_schemas.commit_log import Commit
from tokcore_schemas.config import BuildConfig

_LOOK_S = 1.0
_WAITING = ("waiting_files", "waiting_bytes", "oldest_waiting_s")
# So long a source may be silent: an engine may hold it back while batches are read. No checkpoint takes longer.
_SILENT_S = 3600.0
# A new job must look within this time after its first worker has started. After this many jobs in a row that do not,
# the driver gives up.
_FIRST_LOOK_S = 180.0
_MOST_IDLE = 3
# If a job keeps something of every look, it is replaced by another one after so many: some hours, and some MB.
_MOST_LOOKS = 2000


class Stream:
    """One stream, as its driver sees it. run() returns when it was told to end, and the stream has finished."""

    def __init__(self, config: BuildConfig, options: RunOptions, output: str, progress: StageProgress) -> None:
        """output: URL; empty: as the build file says. Raises ConfigError for an engine that has no streams."""
        use_options(dataclasses.asdict(config.storage))
        self.config = config
        self.progress = progress
        self.wishes = Wishes(float(config.watch.drain_seconds))
        self.meters = Meters()
        build = Build(config, options, output)
        self.options, self.output = build.options, build.output
        _refuse_without_streams(config, self.options)
        self._turn = Turn(self.output, float(config.watch.lease_seconds), self._describe)
        self._log: Log | None = None
        self._trouble = "the job has not begun"
        self._drift: DriftWatch | None = None
        self._look: dict[str, int] | None = None  # what the stream's last look left
        self._looked_at = time.monotonic()
        self._num_idle = 0  # jobs in a row that did not begin to look
        self._began = time.time()

    def run(self) -> None:
        """Follow the sources until told to end.

        Raises ConfigError if the output or the engine does not fit, StageError if the job fails: what is committed is
        kept, and the same command goes on; KeyboardInterrupt if it did not end in time, and was cancelled.
        """
        from tokcore_pipelines.run.engines.stream_graph import FollowSources  # loads Beam

        settings = self.config.watch
        require_job_server(self.config.engine)
        begun = begin_output(
            dataclasses.replace(self.config, engine=EngineTable()),
            RunOptions(workers=1, here=True),
            self.output,
            StageProgress(level=-1),
            self.progress.say,
        )
        self._drift = DriftWatch(begun, self.output, self.meters, lambda text: self.progress.say(f"stream: {text}"))
        steps = StreamSteps(begun, self.output)
        self._log = steps.check()
        poll_s = float(settings.poll_seconds)
        follow = FollowSources(steps, poll_s, float(settings.settle_seconds), float(settings.batch_seconds))
        job = self._open_job(poll_s)
        with self.wishes.heard():
            pages = serve_pages(settings.listen, self._show_ready, self.meters.write, self.progress.say)
            self._turn.begin()
            try:
                self._watch(job, follow)
            finally:
                self._turn.end()
                if pages is not None:
                    pages.end()

    def _open_job(self, poll_s: float) -> Any:
        """What knows the stream's job at the engine."""
        if self.config.engine.name == DATAFLOW:
            # With Beam, and with what an extra brings.
            from tokcore_pipelines.run.engines.dataflow_stream import DataflowStreamJob

            return DataflowStreamJob(self.options, self.output, self.progress.say)
        from tokcore_pipelines.run.engines.stream_job import StreamJob  # loads Beam

        named = self.config.engine.checkpoints
        checkpoints = urls.resolve(self.config.base, named) if named else ""
        return StreamJob(self.options, self.output, checkpoints, poll_s, self.progress.say)

    def _watch(self, job: Any, follow: Any) -> None:
        """Run one job after another, until told to end."""
        try:
            self._start(job, follow)
            while self._follow_job(job):
                self._start(job, follow)
        except KeyboardInterrupt:
            job.cancel()
            raise

    def _start(self, job: Any, follow: Any) -> None:
        """Go on with the job that is there, or begin one; what an earlier job was told and what it left are removed."""
        storage.remove_file(locate_wish(self.output))
        storage.remove_file(locate_look(self.output))
        self._look = None
        job.start(follow)

    def _follow_job(self, job: Any) -> bool:
        """Report what a job commits until it ends, or is left to run alone; whether another job must follow."""
        is_full, is_draining, tells_next = False, False, 0.0
        while job.look():
            self._trouble = ""
            if time.monotonic() >= tells_next:
                self._tell_commits()
                self._require_looks(job)
                if self._look is None and not is_draining and job.at_work_s > _FIRST_LOOK_S:
                    self._give_up_idle(job)
                    return True
                tells_next = time.monotonic() + float(self.config.watch.poll_seconds)
            is_full = is_full or (job.keeps_every_look and (self._look or {}).get("look", 0) >= _MOST_LOOKS)
            if (self.wishes.is_over or is_full) and not is_draining:
                if self.wishes.is_over and self.options.detach:
                    self.progress.say("stream: goes on without this process; the same command finds it again")
                    return False
                self._wish_to_end()
                is_draining = job.drain()
                why = "told to end" if self.wishes.is_over else f"another job follows after {_MOST_LOOKS:,} looks"
                self.progress.say(f"stream: {why}; it commits what it has found")
            time.sleep(_LOOK_S) if self.wishes.is_over else self.wishes.wait(_LOOK_S)
        self._tell_commits()
        if is_full and not self.wishes.is_over:
            return True
        storage.remove_file(locate_look(self.output))
        self.progress.say("stream: ended; nothing is half done")
        return False

    def _require_looks(self, job: Any) -> None:
        """Give up a job whose source has stopped: engines have lost one when they restored a job again and again.

        Raises StageError. What is committed stays, and what is not is found by the next job, which begins anew.
        """
        look = read_look(self.output) or self._look  # another process may be writing it
        self._note_waiting(look)
        now = time.monotonic()
        if look != self._look or self.wishes.is_over:
            self._look, self._looked_at = look, now
            self._num_idle = 0
        limit = _SILENT_S + 10 * float(self.config.watch.poll_seconds)
        if now - self._looked_at > limit:
            job.give_up()
            raise StageError(
                f"stream: has not looked at its sources for {limit:.0f} s, so its job was ended. Finished work is "
                f"kept: run the same command again, and it begins anew"
            )

    def _give_up_idle(self, job: Any) -> None:
        """Give up a job that has not begun to look: an engine may lose the first element of a source.

        Raises StageError if this happens again and again.
        """
        job.give_up()
        self._num_idle += 1
        what = f"stream: the job has a worker, but has not looked at the sources within {_FIRST_LOOK_S:.0f} s"
        if self._num_idle == _MOST_IDLE:
            raise StageError(f"{what}: {_MOST_IDLE} jobs in a row. Look into the log of {self.config.engine.name}")
        self.progress.say(f"{what}: another one begins")

    def _note_waiting(self, look: dict[str, int] | None) -> None:
        if look is not None:
            self.meters.waiting_files.set(look["waiting_files"])
            self.meters.waiting_bytes.set(look["waiting_bytes"])
            self.meters.oldest.set(look["oldest_waiting_s"])
            self.meters.quarantined.set(look["quarantined"])

    def _wish_to_end(self) -> None:
        scratch = urls.join(self.output, FOLDER)
        storage.create_exclusive(locate_wish(self.output), b"end\n", scratch)

    def _tell_commits(self) -> None:
        """Say, and count, what was committed since the last time, by the stream or by others."""
        before = self._log
        self._log = read_log(self.output, known=before)
        for commit in self._log.commits[before.newest if before is not None else 0 :]:
            self._tell_commit(commit)
        if self._drift is not None and self._drift.measure(self._log):
            self._turn.beat()

    def _tell_commit(self, commit: Commit) -> None:
        parts = [read_part(self.output, part) for part in commit.added]
        self.meters.note_commit(commit, parts, [], 0.0)
        documents = sum(part.totals.records.documents for part in parts)
        held = format_count(documents, "document")
        self.progress.say(f"commit {commit.number}: {commit.why.describe_files()}, {held}")

    # ---------------------------------------------------------------------------------------------------------- status

    def _show_ready(self) -> Page:
        return Page(not self._trouble, f"{self._trouble or 'streams'}\n".encode())

    def _describe(self) -> dict[str, Any]:
        """What `tokcore status` is told."""
        return describe_watcher(
            f"drives a stream of {self.config.engine.name}",
            self._began,
            **{name: (self._look or {}).get(name, 0) for name in _WAITING},
            newest_commit=self._log.newest if self._log is not None else 0,
            trouble=self._trouble,
            listen=self.config.watch.listen,
            drift=self._drift.found if self._drift is not None else None,
        )


def _refuse_without_streams(config: BuildConfig, options: RunOptions) -> None:
    """Raise ConfigError for an engine without streams, and for settings that one needs."""
    name = config.engine.name
    if name == "local":
        where = "this runner" if options.runner else "the local engine"
        raise ConfigError(
            f"--streaming: {where} has no streams: its sources do not wait for files that are still to come. Leave "
            f"--streaming out, and `tokcore watch` runs one bounded pipeline after another; or name an engine: "
            f"--engine flink, prism or dataflow"
        )
    if config.watch.notifications:
        raise ConfigError(
            "watch.notifications: a stream hears of no queue: its workers list the sources every poll_seconds. "
            "Remove it, and set watch.sorted_names if names sort by date; or leave --streaming out"
        )
    if name == "flink" and config.engine.checkpoints is None:
        raise ConfigError(
            "engine.checkpoints: missing. A stream of flink needs a folder that its hosts and this machine see, for "
            "the checkpoints with which it goes on after a failure"
        )
    if config.engine.checkpoints is not None and name != "flink":
        raise ConfigError(f'engine.checkpoints: engine.name = "{name}" keeps none. Remove it')
    if config.engine.checkpoints and urls.is_local(config.engine.checkpoints) and not config.engine.shared_filesystem:
        raise ConfigError(
            f"engine.checkpoints = {redact(config.engine.checkpoints)}: a path of this machine. Name a URL of a store; "
            f"or say --shared-filesystem if all hosts of the engine see this path"
        )
