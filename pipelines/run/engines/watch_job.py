"""Watch the job of an engine until it ends: say how far it is and what the engine warns of; cancel it if told to."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from tokcore.errors import TokError
from tokcore_pipelines.local.pool import OnProgress
from tokcore_pipelines.run.engines.across import find_error
from tokcore_pipelines.run.engines.jobs import ENDED
from tokcore_pipelines.run.engines.recorded import Recorded
from tokcore_pipelines.store.redaction import redact

_POLL_S = 0.5
_LINE_S = 10.0


class RemoteJob(Protocol):
    """A job of an engine, known from Beam's job server or from the engine itself."""

    id: str
    endpoint: str

    def read_state(self) -> str:
        """One of the names of Beam's job states."""

    def read_metrics(self) -> dict[str, int]:
        """Our counters; none if the engine does not tell."""

    def cancel(self) -> None:
        """End the job, and wait until it has ended."""

    def read_failure(self) -> str:
        """Why the job failed."""

    def read_warnings(self) -> list[str]:
        """What the engine warned of in this job, so far."""


class JobWorkers(Protocol):
    """What is known of the workers of a job."""

    @property
    def started_at(self) -> float | None:
        """When the first worker was seen, by the monotonic clock; None: no worker yet."""

    def check(self) -> None:
        """Raise what must end the job."""

    def explain(self, state: str, failure: str) -> TokError:
        """The error for a job that ended in that state, if no worker raised one. failure: what the engine says."""


def watch_job(
    job: RemoteJob,
    opening: str,
    recorded: Recorded,
    num_items: int,
    find_page: Callable[[], str | None],
    workers: JobWorkers,
    detach: bool,
    on_progress: OnProgress | None,
    say: Callable[[str], None],
) -> dict[str, int]:
    """Return the job's metrics when it is done.

    opening: to say at first. find_page: where people see the job, once the engine knows it. If this process is
    interrupted, the job is cancelled, unless detach.
    Raises what a worker raised, with its class; for any other end, what workers.explain gives.
    """
    page, said, told_at = None, 0, time.monotonic()
    try:
        say(opening)
        while (state := job.read_state()) not in ENDED:
            if page is None and (page := find_page()) is not None:
                say(f"job {job.id}: {page}")
            said = _tell_warnings(job, said, say)
            _report(recorded.look(), on_progress)
            workers.check()
            if time.monotonic() - told_at >= _LINE_S:
                told_at = time.monotonic()
                say(f"job {job.id}: {state}, {recorded.num_done:,} of {num_items:,} work items")
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        if detach:
            say(f"job {job.id} goes on at {job.endpoint}; the same command finds it again")
        else:
            say(f"cancels job {job.id} at {job.endpoint}")
            job.cancel()
        raise
    _report(recorded.look(at_once=True), on_progress)
    _tell_warnings(job, said, say)
    if state == "DONE":
        return job.read_metrics()
    failure = job.read_failure()
    raise find_error(failure) or workers.explain(state, redact(failure))


def _report(num_bytes: int, on_progress: OnProgress | None) -> None:
    if num_bytes and on_progress is not None:
        on_progress("read", num_bytes)


def _tell_warnings(job: RemoteJob, said: int, say: Callable[[str], None]) -> int:
    """Say the warnings after the first ones, which were said; how many there are."""
    warnings = job.read_warnings()
    for text in warnings[said:]:
        say(f"warning: job {job.id}: {redact(text)}")
    return len(warnings)
