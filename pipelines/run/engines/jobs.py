"""Jobs of an engine, by Beam's job API: submitted under a name of ours, found again by it, and cancelled.

The name follows from output, stage and identity. So a command that is run again finds the job that a killed driver
left, and never starts a second one.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import grpc
from apache_beam.options.pipeline_options import GoogleCloudOptions
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc
from apache_beam.runners.portability.portable_runner import JobServiceHandle, PortableMetrics, PortableRunner

from tokcore.errors import StageError
from tokcore.files.canonical_json import hash_sha256
from tokcore_pipelines.run.engines.measure import collect_metrics
from tokcore_pipelines.store.attempts import Attempts

_STATES = beam_job_api_pb2.JobState.Enum
_Message = beam_job_api_pb2.JobMessage
_ALIVE = frozenset({"STARTING", "RUNNING", "UPDATING"})
ENDED = frozenset({"DONE", "FAILED", "CANCELLED", "DRAINED", "UPDATED"})
_POLL_S = 0.5
_CALL_S = 60
_CANCEL_S = 60


def make_job_name(attempts: Attempts, step: str) -> str:
    """The name of the job that does this step of a stage of this output."""
    return f"tokcore-{step}-{hash_sha256(f'{attempts.output} {attempts.identity}'.encode())[:16]}"


class Job:
    """One job of an engine."""

    def __init__(self, endpoint: str, id: str, name: str) -> None:
        self.id = id
        self.name = name
        self.endpoint = endpoint
        self._service = _connect(endpoint)
        self._messages: list[tuple[int, str]] = []

    def read_state(self) -> str:
        """One of the names of Beam's job states. Raises StageError if the job server does not answer."""
        request = beam_job_api_pb2.GetJobStateRequest(job_id=self.id)
        try:
            return str(_STATES.Name(self._service.GetState(request, timeout=_CALL_S).state))
        except grpc.RpcError as error:
            raise StageError(
                f"the job server {self.endpoint} does not answer ({error.code().name}), and may have lost job "
                f"{self.id}. Finished work is kept: run the same command again when it answers"
            ) from None

    def read_metrics(self) -> dict[str, int]:
        """Our counters; none if the engine has no metrics."""
        request = beam_job_api_pb2.GetJobMetricsRequest(job_id=self.id)
        return collect_metrics(lambda: PortableMetrics(self._service.GetJobMetrics(request, timeout=_CALL_S)))

    def cancel(self) -> None:
        """Ask the engine to end the job, and wait until it has, a minute at most."""
        with contextlib.suppress(grpc.RpcError, StageError):
            self._service.Cancel(beam_job_api_pb2.CancelJobRequest(job_id=self.id), timeout=_CALL_S)
            self.wait_for_end(_CANCEL_S)

    def wait_for_end(self, seconds: float) -> None:
        """Wait until the job has ended, for at most `seconds`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.read_state() not in ENDED:
            time.sleep(_POLL_S)

    def read_failure(self) -> str:
        """All that the engine says of a job that failed."""
        errors = [text for importance, text in self._read_messages(_CALL_S) if importance >= _Message.JOB_MESSAGE_ERROR]
        return "\n".join(errors) or "the engine does not say why"

    def read_warnings(self) -> list[str]:
        """What the engine warned of in this job, so far."""
        return [text for importance, text in self._messages if importance == _Message.JOB_MESSAGE_WARNING]

    def listen(self) -> None:
        """Begin to read what the engine says of the job, in a thread that ends with the job or the process."""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for message in self._read_messages(None):
            self._messages.append(message)

    def _read_messages(self, seconds: float | None) -> Iterator[tuple[int, str]]:
        """Yield (importance, text) of each message until the job ends or the seconds are over. None: no limit."""
        request = beam_job_api_pb2.JobMessagesRequest(job_id=self.id)
        with contextlib.suppress(grpc.RpcError):
            for message in self._service.GetMessageStream(request, timeout=seconds):
                told = message.message_response
                if told.message_text:
                    yield told.importance, told.message_text


MakeJob = Callable[[str, str, str], Job]  # of endpoint, id and name


def find_job(endpoint: str, name: str, make_job: MakeJob = Job) -> Job | None:
    """The job of that name that is alive; None if there is none. Waits for one that is being cancelled.

    Raises StageError if the job server does not list its jobs.
    """
    try:
        jobs = _connect(endpoint).GetJobs(beam_job_api_pb2.GetJobsRequest(), timeout=_CALL_S).job_info
    except grpc.RpcError as error:
        raise StageError(f"the job server {endpoint} does not list its jobs ({error.code().name})") from None
    for told in jobs:
        if told.job_name == name:
            job = make_job(endpoint, told.job_id, name)
            if (state := _STATES.Name(told.state)) in _ALIVE:
                return job
            if state == "CANCELLING":
                job.wait_for_end(_CANCEL_S)
    return None


def submit_job(pipeline: beam.Pipeline, endpoint: str, name: str, make_job: MakeJob = Job) -> Job:
    """Start the pipeline as a job of that name. pipeline: with a NamedRunner of that name."""
    # Flink calls its job as this option says, and the job server as NamedRunner does.
    pipeline.options.view_as(GoogleCloudOptions).job_name = name
    return make_job(endpoint, pipeline.run()._job_id, name)


class NamedRunner(PortableRunner):
    """Beam's PortableRunner, which calls every job `job`, with a name for the job."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def create_job_service_handle(self, job_service: Any, options: Any) -> JobServiceHandle:
        return _NamedHandle(self._name, job_service, options)


class _NamedHandle(JobServiceHandle):
    def __init__(self, name: str, job_service: Any, options: Any) -> None:
        super().__init__(job_service, options)
        self._name = name

    def prepare(self, proto_pipeline: Any) -> Any:
        request = beam_job_api_pb2.PrepareJobRequest(
            job_name=self._name, pipeline=proto_pipeline, pipeline_options=self.get_pipeline_options()
        )
        return self.job_service.Prepare(request, timeout=self.timeout)


def _connect(endpoint: str) -> Any:
    return beam_job_api_pb2_grpc.JobServiceStub(grpc.insecure_channel(endpoint))
