"""Jobs as Dataflow's own interface shows them: found again by name, watched and cancelled.

Beam's client makes the requests; it tries again what may pass. Needs the extra `gcp`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions
from apache_beam.runners.dataflow.internal.apiclient import DataflowApplicationClient
from google.api_core.exceptions import GoogleAPICallError
from google.auth.exceptions import GoogleAuthError
from google.cloud import dataflow

from tokcore.errors import ConfigError, StageError, TokError
from tokcore_pipelines.local.dataflow import JOB_LABEL
from tokcore_pipelines.run.engines.jobs import ENDED
from tokcore_pipelines.run.engines.measure import NAMESPACE
from tokcore_pipelines.run.engines.shorten_failure import shorten_failure

T = TypeVar("T")

# The service limits how often a project may ask. A short job is asked for more often at first.
_ASK_S = (0.5, 5.0)
_MESSAGES_S = 5.0
_WHY_S = 30.0  # so long it may take until the service says why a job failed
_CANCEL_S = 60
_ENDING_S = 900
_AGAIN = "Finished work is kept: run the same command again"
_WARNING, _ERROR = dataflow.JobMessageImportance.JOB_MESSAGE_WARNING, dataflow.JobMessageImportance.JOB_MESSAGE_ERROR


class Service:
    """Dataflow in one project and region, as the options of a pipeline name them."""

    def __init__(self, options: PipelineOptions) -> None:
        cloud = options.view_as(GoogleCloudOptions)
        self.project, self.region, self.endpoint = cloud.project, cloud.region, cloud.dataflow_endpoint
        self.client = ask(self.describe(), lambda: DataflowApplicationClient(options))

    def describe(self) -> str:
        """For messages: project and region."""
        return f"Dataflow ({self.project}, {self.region})"

    def find_job(self, name: str, say: Callable[[str], None]) -> DataflowJob | None:
        """The job of that name, or with the label of it, that is alive; None if there is none.

        Waits for one that is being cancelled: it holds the name until it has ended.
        """
        for told in self._list_active():
            if name in (told.name, told.labels.get(JOB_LABEL)):
                job = DataflowJob(self, told.id, told.name)
                if told.current_state != dataflow.JobState.JOB_STATE_CANCELLING:
                    return job
                say(f"waits for job {job.id}, which is being cancelled")
                job.wait_for_end(_ENDING_S)
        return None

    def _list_active(self) -> list[Any]:
        request = dataflow.ListJobsRequest(
            project_id=self.project, location=self.region, filter=dataflow.ListJobsRequest.Filter.ACTIVE
        )
        return ask(self.describe(), lambda: list(self.client._jobs_client.list_jobs(request)))

    def find_page(self, job_id: str) -> str:
        """Where people see a job."""
        return f"https://console.cloud.google.com/dataflow/jobs/{self.region}/{job_id}?project={self.project}"


class DataflowJob:
    """One job of Dataflow."""

    def __init__(self, service: Service, id: str, name: str) -> None:
        self.id = id
        self.name = name
        self.endpoint = service.describe()
        self._service = service
        self._state = "PENDING"
        self._next, self._pause = 0.0, _ASK_S[0]
        self._next_messages = 0.0
        self._said: dict[str, tuple[int, str]] = {}  # id of a message -> importance, text

    def read_state(self) -> str:
        """One of the names of Beam's job states; some seconds old. Raises StageError if Dataflow does not answer."""
        if time.monotonic() >= self._next and self._state not in ENDED:
            told = ask(self.endpoint, lambda: self._service.client.get_job(self.id))
            self._state = dataflow.JobState(told.current_state).name.removeprefix("JOB_STATE_")
            self._pause = min(self._pause * 1.25, _ASK_S[1])
            self._next = time.monotonic() + self._pause
        return self._state

    def read_metrics(self) -> dict[str, int]:
        """Our counters: of committed work, over all steps."""
        totals: Counter[str] = Counter()
        for one in ask(self.endpoint, lambda: self._service.client.get_job_metrics(self.id)).metrics:
            context = dict(one.name.context)
            if context.get("namespace", "").startswith(f"{NAMESPACE}.") and context.get("tentative") != "true":
                totals[one.name.name] += int(one.scalar or 0)
        return dict(sorted(totals.items()))

    def cancel(self) -> None:
        """Ask Dataflow to end the job, and wait until it has, a minute at most; its hosts go a little later."""
        ask(self.endpoint, lambda: self._service.client.modify_job_state(self.id, "JOB_STATE_CANCELLED"))
        self.wait_for_end(_CANCEL_S)

    def wait_for_end(self, seconds: float) -> None:
        """Wait until the job has ended, for at most `seconds`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.read_state() not in ENDED:
            time.sleep(_ASK_S[0])

    def read_failure(self) -> str:
        """All errors that Dataflow says of the job. They may come some seconds after the state."""
        end = time.monotonic() + _WHY_S
        while True:
            self._listen()
            if errors := [text for importance, text in self._said.values() if importance == _ERROR]:
                return "\n".join(errors)
            if time.monotonic() >= end:
                return f"Dataflow does not say why; {self._service.find_page(self.id)} may"
            time.sleep(1)

    def read_warnings(self) -> list[str]:
        """What Dataflow warned of in this job so far, errors of work that it tries again too; a line each."""
        if time.monotonic() >= self._next_messages or self._state in ENDED:
            self._listen()
            self._next_messages = time.monotonic() + _MESSAGES_S
        return [f"{'error: ' if how == _ERROR else ''}{shorten_failure(text)}" for how, text in self._said.values()]

    def _listen(self) -> None:
        """Read what Dataflow has said since the last time."""
        for one in ask(self.endpoint, self._list_messages):
            self._said.setdefault(one.id, (int(one.message_importance), one.message_text))

    def _list_messages(self) -> list[Any]:
        found, token = [], None
        while True:
            messages, token = self._service.client.list_messages(
                self.id, page_token=token, minimum_importance="JOB_MESSAGE_WARNING"
            )
            found += messages
            if not token:
                return found


def ask(service: str, call: Callable[[], T]) -> T:
    """What call() gives. What Google's libraries raise is told in one line, with what to do. service: who is asked.

    The error has no context: others look through what led to an error for what a store has said.
    """
    try:
        return call()
    except GoogleAPICallError as error:
        told: TokError = _explain(service, error)
    except GoogleAuthError as error:
        told = ConfigError(
            f"{service}: no credentials ({shorten_failure(str(error))}). Run: gcloud auth application-default login; "
            f"or run where a service account is attached"
        )
    except OSError as error:
        why = shorten_failure(str(error))
        told = StageError(f"{service} does not answer ({why}). {_AGAIN} when it does")
        if why.startswith("Could not upload"):  # as Beam says it of the graph
            told = ConfigError(f"engine.staging: {why}")
    raise told


def _explain(service: str, error: GoogleAPICallError) -> TokError:
    code = int(error.code or 0)
    text = f"{service} refuses ({code} {shorten_failure(str(error.message))}). "
    if code == 401:
        return ConfigError(f"{text}Run: gcloud auth application-default login")
    if code == 403:
        return ConfigError(
            f"{text}Enable the Dataflow API; the account that runs this needs roles/dataflow.developer, and "
            f"roles/iam.serviceAccountUser on engine.service_account"
        )
    if code in (400, 404):
        return ConfigError(f"{text}Look at [engine]: project, region, network, machine_type, service_account")
    return StageError(f"{text}{_AGAIN}")
