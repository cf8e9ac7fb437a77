"""A fake of Google's Dataflow, on the loopback interface, that runs what is submitted.

It speaks the REST interface v1b3, as far as Beam's client and ours do: create, get, list, update (which cancels and
drains), messages, metrics. A job's graph is read from where it was staged, and runs on Prism, a real engine; each
container is a process of `tokcore-worker`, which gets the job's options as Dataflow gives them: one table, all numbers
floats.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import http.server
import json
import re
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
from apache_beam.portability import common_urns
from apache_beam.portability.api import (
    beam_job_api_pb2,
    beam_job_api_pb2_grpc,
    beam_runner_api_pb2,
)
from apache_beam.runners.portability.portable_runner import PortableMetrics
from google.protobuf import json_format, struct_pb2
from stores.files import read
from stores.servers import Store
from support.engines import find_free_port, find_prism, running

from tokcore_pipelines.local.engines import find_worker_program

PROJECT, REGION = "tokcore-tests", "us-central1"
IMAGE = f"{REGION}-docker.pkg.dev/{PROJECT}/tokcore/tokcore:0.1.0"
_PATH = re.compile(rf"/v1b3/projects/{PROJECT}/locations/{REGION}/jobs(?:/(?P<id>[^/]+))?(?:/(?P<of>\w+))?")
_ENDED = {"DONE", "FAILED", "CANCELLED", "DRAINED"}
_WISHES = {"JOB_STATE_CANCELLED": "CANCELLING", 5: "CANCELLING", "JOB_STATE_DRAINING": "DRAINING", 7: "DRAINING"}
_POLL_S = 0.2
_States = beam_job_api_pb2.JobState.Enum
_Message = beam_job_api_pb2.JobMessage


@dataclasses.dataclass
class FakeJob:
    """A job: as it was submitted, and what has become of it."""

    id: str
    submitted: dict[str, Any]
    state: str = "PENDING"
    messages: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # importance, text
    prism_id: str = ""
    graph_bytes: int = 0
    image: str = ""

    @property
    def name(self) -> str:
        return str(self.submitted["name"])

    @property
    def pool(self) -> dict[str, Any]:
        """The hosts that it asks for."""
        (pool,) = self.submitted["environment"]["workerPools"]
        return dict(pool)

    @property
    def options(self) -> dict[str, Any]:
        """What the workers are told."""
        return dict(self.submitted["environment"]["sdkPipelineOptions"]["options"])

    def show(self) -> dict[str, Any]:
        """The job as the service answers it."""
        kept = {key: value for key, value in self.submitted.items() if key in ("name", "labels", "clientRequestId")}
        return {
            **kept,
            "id": self.id,
            "projectId": PROJECT,
            "location": REGION,
            "currentState": f"JOB_STATE_{self.state}",
        }


class FakeDataflow:
    """Use start_dataflow. Its jobs are in the order in which they came."""

    def __init__(self, store: Store, prism_port: int) -> None:
        self.jobs: list[FakeJob] = []
        self.worker = find_worker_program()  # the program of the image
        self.refusals: list[tuple[int, str]] = []  # of the next requests: HTTP status, message
        self.requests: list[str] = []  # method and path
        self.num_blind = 0  # of the next lists of jobs, which are empty, as if another driver were a little later
        self._store = store
        self._prism = beam_job_api_pb2_grpc.JobServiceStub(grpc.insecure_channel(f"127.0.0.1:{prism_port}"))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        # Beam's client takes REST, not gRPC, for a service of this name.
        return f"http://localhost:{self._server.server_port}"

    @property
    def options(self) -> list[str]:
        """What Beam's client is told to find it."""
        return [f"--dataflow_endpoint={self.endpoint}", "--no_auth"]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def find(self, job_id: str) -> FakeJob:
        return next(job for job in self.jobs if job.id == job_id)

    # ------------------------------------------------------------------------------------------------------- requests

    def answer(self, method: str, path: str, query: dict[str, str], body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """(HTTP status, answer)."""
        self.requests.append(f"{method} {path}")
        if self.refusals:
            status, message = self.refusals.pop(0)
            return status, {"error": {"code": status, "message": message}}
        found = _PATH.fullmatch(path)
        if found is None:
            return 404, {"error": {"code": 404, "message": f"{path}: no such project, region or request"}}
        if found["id"] is None:
            return 200, self.create(body).show() if method == "POST" else self._list(query)
        try:
            job = self.find(found["id"])
        except StopIteration:
            return 404, {"error": {"code": 404, "message": f"{found['id']}: no such job"}}
        if method == "PUT":
            self._update(job, body)
        if found["of"] == "messages":
            return 200, self._list_messages(job)
        return 200, self._measure(job) if found["of"] == "metrics" else job.show()

    def create(self, submitted: dict[str, Any]) -> FakeJob:
        """Start a job, as it is submitted; if one of that name is alive, that one."""
        for job in self.jobs:  # the client sees it by the other clientRequestId
            if job.name == submitted["name"] and job.state not in _ENDED:
                return job
        assert re.fullmatch(r"[a-z]([-a-z0-9]{0,1022}[a-z0-9])?", submitted["name"])
        job = FakeJob(f"{time.strftime('%Y-%m-%d_%H_%M_%S')}-{len(self.jobs):05d}", submitted)
        self.jobs.append(job)
        threading.Thread(target=self._run, args=(job,), daemon=True).start()
        return job

    def _list(self, query: dict[str, str]) -> dict[str, Any]:
        if self.num_blind:
            self.num_blind -= 1
            return {"jobs": []}
        active = query.get("filter") in ("ACTIVE", "3")
        return {"jobs": [job.show() for job in self.jobs if not (active and job.state in _ENDED)]}

    def _update(self, job: FakeJob, body: dict[str, Any]) -> None:
        wanted = _WISHES[body["requestedState"]]
        if job.state not in _ENDED:
            job.state = wanted

    def _list_messages(self, job: FakeJob) -> dict[str, Any]:
        texts = enumerate(job.messages)
        return {
            "jobMessages": [
                {"id": f"m{n:04d}", "messageImportance": f"JOB_MESSAGE_{how}", "messageText": text}
                for n, (how, text) in texts
            ]
        }

    def _measure(self, job: FakeJob) -> dict[str, Any]:
        """The sums of each step, tentative and committed, as the service tells them: numbers are JSON numbers."""
        told = PortableMetrics(self._prism.GetJobMetrics(beam_job_api_pb2.GetJobMetricsRequest(job_id=job.prism_id)))
        metrics = []
        for one in told.query()["counters"]:
            context = {"namespace": one.key.metric.namespace, "step": one.key.step or ""}
            for more in ({}, {"tentative": "true"}):
                name = {"origin": "user", "name": one.key.metric.name, "context": {**context, **more}}
                metrics.append({"name": name, "scalar": float(one.result or 0)})
        # The service's own are among them.
        metrics.append({"name": {"origin": "dataflow/v1b3", "name": "TotalVcpuTime", "context": {}}, "scalar": 17.0})
        return {"metrics": metrics}

    # ------------------------------------------------------------------------------------------------------------ jobs

    def _run(self, job: FakeJob) -> None:
        try:
            self._start(job)
            while job.state not in _ENDED:
                self._follow(job)
                time.sleep(_POLL_S)
        except Exception as error:
            job.messages.append(("ERROR", f"Workflow failed. Causes: {error!r}"))
            job.state = "FAILED"

    def _start(self, job: FakeJob) -> None:
        data = read(self._store, job.options["pipelineUrl"])
        assert hashlib.sha256(data).hexdigest() == job.options["pipelineProtoHash"]
        job.graph_bytes = len(data)
        graph = beam_runner_api_pb2.Pipeline.FromString(data)
        for environment in graph.components.environments.values():
            self._replace_container(job, environment)
        told = json_format.ParseDict(job.submitted["environment"]["sdkPipelineOptions"], struct_pb2.Struct())
        prepared = self._prism.Prepare(
            beam_job_api_pb2.PrepareJobRequest(job_name=job.name, pipeline=graph, pipeline_options=told)
        )
        request = beam_job_api_pb2.RunJobRequest(preparation_id=prepared.preparation_id)
        job.prism_id = self._prism.Run(request).job_id
        if job.state == "PENDING":
            job.state = "RUNNING"

    def _replace_container(self, job: FakeJob, environment: Any) -> None:
        assert environment.urn == common_urns.environments.DOCKER.urn
        assert not environment.dependencies, "workers would have to fetch something"
        job.image = beam_runner_api_pb2.DockerPayload.FromString(environment.payload).container_image
        assert job.image == job.pool["workerHarnessContainerImage"]
        environment.urn = common_urns.environments.PROCESS.urn
        environment.payload = beam_runner_api_pb2.ProcessPayload(command=str(self.worker)).SerializeToString()

    def _follow(self, job: FakeJob) -> None:
        if job.state == "CANCELLING":
            self._prism.Cancel(beam_job_api_pb2.CancelJobRequest(job_id=job.prism_id))
            job.state = "CANCELLED"
            return
        state = _States.Name(self._prism.GetState(beam_job_api_pb2.GetJobStateRequest(job_id=job.prism_id)).state)
        if state == "FAILED":
            job.messages += [("ERROR", text) for text in self._read_errors(job)]
            job.messages.append(("ERROR", "Workflow failed. Causes: S01:SpreadItems/ReadPart+CountItem failed."))
        if state == "DONE" and job.state == "DRAINING":  # Prism cannot drain: the stream sees that it is told to end
            state = "DRAINED"
        job.state = state if state in _ENDED else job.state

    def _read_errors(self, job: FakeJob) -> list[str]:
        found = []
        with contextlib.suppress(grpc.RpcError):
            for one in self._prism.GetMessageStream(
                beam_job_api_pb2.JobMessagesRequest(job_id=job.prism_id), timeout=5
            ):
                if one.message_response.importance >= _Message.JOB_MESSAGE_ERROR:
                    found.append(one.message_response.message_text)
        return found


def _make_handler(service: FakeDataflow) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            place = urllib.parse.urlsplit(self.path)
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
            status, told = service.answer(self.command, place.path, dict(urllib.parse.parse_qsl(place.query)), body)
            data = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = _answer  # noqa: N815 - the names that http.server looks for

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@contextlib.contextmanager
def start_dataflow(store: Store, log: Path) -> Iterator[FakeDataflow]:
    """The fake, whose jobs' files are in that store. log: gets what Prism and the workers say."""
    port = find_free_port()
    with (
        log.open("wb") as said,
        running([find_prism(), "--serve_http=false", f"--job_port={port}"], port, said, store.variables()),
    ):
        service = FakeDataflow(store, port)
        try:
            yield service
        finally:
            service.close()
