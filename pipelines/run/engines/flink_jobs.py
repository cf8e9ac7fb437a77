"""Jobs as Flink's own interface shows them: found again although the job server that submitted them is gone."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.request
from typing import Any

from tokcore.errors import StageError
from tokcore_pipelines.run.engines.jobs import Job

# Flink's names of states in which a job has ended -> Beam's.
_ENDED = {"FINISHED": "DONE", "FAILED": "FAILED", "CANCELED": "CANCELLED"}
_TRIES = 5
PAUSE_S = 1.0
_CALL_S = 30
_CANCEL_S = 60


class FlinkJob:
    """One job of a Flink cluster. It says nothing of what Beam measured: only its job server reads that."""

    def __init__(self, web: str, id: str) -> None:
        self.id = id
        self.endpoint = web

    def read_state(self) -> str:
        """One of the names of Beam's job states. Raises StageError if Flink does not answer, or lost the job."""
        return _read_state(_ask(self.endpoint, f"/jobs/{self.id}"))

    def read_metrics(self) -> dict[str, int]:
        """Nothing."""
        return {}

    def drain(self, folder: str) -> None:
        """Ask Flink to let the job finish what it has begun, and to keep a savepoint in that folder; does not wait."""
        _ask(self.endpoint, f"/jobs/{self.id}/stop", "POST", {"targetDirectory": folder, "drain": True})

    def cancel(self) -> None:
        """Ask Flink to end the job, and wait until it has, a minute at most."""
        _ask(self.endpoint, f"/jobs/{self.id}?mode=cancel", "PATCH")
        end = time.monotonic() + _CANCEL_S
        while time.monotonic() < end and self.read_state() == "RUNNING":
            time.sleep(PAUSE_S)

    def read_failure(self) -> str:
        """Why the job failed."""
        told = _ask(self.endpoint, f"/jobs/{self.id}/exceptions").get("root-exception")
        return str(told or "Flink does not say why")

    def read_warnings(self) -> list[str]:
        """Nothing."""
        return []


class SubmittedJob(Job):
    """A job that Beam's job server runs on Flink. If told to cancel it, the server forgets it, and Flink goes on."""

    def __init__(self, web: str, endpoint: str, id: str, name: str) -> None:
        super().__init__(endpoint, id, name)
        self._web = web

    def cancel(self) -> None:
        """End the job at Flink, too, and wait until it has ended there. If Flink is gone, so is the job."""
        super().cancel()
        with contextlib.suppress(StageError):
            for _ in range(_TRIES):  # it may be on its way there
                if (job := find_flink_job(self._web, self.name)) is not None:
                    job.cancel()
                    return
                time.sleep(PAUSE_S)


def find_flink_job(web: str, name: str) -> FlinkJob | None:
    """The job of that name that has not ended; None if there is none. web: HOST:PORT of Flink's REST interface.

    Raises StageError if Flink does not answer.
    """
    alive = [
        job for job in _ask(web, "/jobs/overview")["jobs"] if job["name"] == name and _read_state(job) == "RUNNING"
    ]
    newest = max(alive, key=lambda job: job["start-time"], default=None)
    return None if newest is None else FlinkJob(web, newest["jid"])


def count_slots(web: str) -> int:
    """Slots of the TaskManager that has the most; 1 if there is none. Raises StageError if Flink does not answer."""
    return max((int(one["slotsNumber"]) for one in _ask(web, "/taskmanagers")["taskmanagers"]), default=1)


def find_page(web: str, name: str) -> str | None:
    """Where people see the job of that name; None while Flink has none."""
    try:
        job = find_flink_job(web, name)
    except StageError:
        return None
    return None if job is None else f"http://{web}/#/job/{job.id}/overview"


def _read_state(told: dict[str, Any]) -> str:
    return _ENDED.get(told["state"], "RUNNING")


def _ask(web: str, path: str, method: str = "GET", body: Any = None) -> Any:
    """Flink's answer to a request, which is tried again for some seconds. body: sent as JSON, if there is one."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{web}{path}", data, {"Content-Type": "application/json"}, method=method)
    for number in range(_TRIES):
        try:
            with _open_without_proxy(request, timeout=_CALL_S) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            raise StageError(f"Flink at {web} refuses {method} {path} ({error.code} {error.reason})") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            if number == _TRIES - 1:
                raise StageError(
                    f"Flink at {web} does not answer ({reason}). Finished work is kept: run the same command again "
                    f"when it does"
                ) from None
            time.sleep(PAUSE_S)
    raise AssertionError("unreachable")


# A proxy is for what lies outside; a cluster does not.
_open_without_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
