"""`tokcore-worker`: starts a worker process of an engine, as engines start any Beam worker.

An engine with PROCESS environments runs it for each slot, and Beam's worker pool does with `--container_executable`.
It keeps Beam's contract for such a program: the flags below say who the worker is and where it gets its options. It
does what Beam's own starter for containers does, without installing or downloading anything: what a worker needs is
where this program is. A driver of another version is refused before any work starts. Where an engine wants several
workers of a container, as Dataflow wants one for each core, each gets a process.

`tokcore-worker --pool PORT` is a pool for EXTERNAL environments: it starts such a worker, in a process of its own,
whenever an engine asks. It listens on the loopback interface, unless --host names another: anyone who reaches it can
run code on this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import grpc
from apache_beam.portability.api import beam_provision_api_pb2, beam_provision_api_pb2_grpc, endpoints_pb2
from google.protobuf import json_format, text_format

from tokcore.errors import TokError
from tokcore_pipelines.local.say import say
from tokcore_pipelines.run.engines.bind import LOOPBACK, bind_to
from tokcore_pipelines.run.engines.driver_options import answer_driver, describe_version
from tokcore_pipelines.run.engines.serve_engine import serve_engine
from tokcore_pipelines.work.worker_notes import SERVES

_TIMEOUT_S = 60
_POLL_S = 0.2
SDK_WORKER = "tokcore_pipelines.run.engines.serve_engine"
# Field of the engine's answer -> the variable in which Beam's worker expects it.
_ENDPOINTS = {
    "logging_endpoint": "LOGGING_API_SERVICE_DESCRIPTOR",
    "control_endpoint": "CONTROL_API_SERVICE_DESCRIPTOR",
    "status_endpoint": "STATUS_API_SERVICE_DESCRIPTOR",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Ask the engine for the worker's options, check them, and serve until the engine ends the worker; or be a pool."""
    given = _parse_arguments(arguments)
    if given.pool is not None:
        serve_pool(given.host, given.pool)
        return
    if not (given.id and given.provision_endpoint):
        sys.exit("tokcore-worker: engines start it, with --id and --provision_endpoint; --pool PORT makes a pool")
    told = _ask_for_options(given.id, given.provision_endpoint)
    options = restore_whole_numbers(json_format.MessageToDict(told.pipeline_options))
    os.environ |= {
        "WORKER_ID": given.id,
        "PIPELINE_OPTIONS": json.dumps(options),
        "RUNNER_CAPABILITIES": " ".join(told.runner_capabilities),
        "OPENBLAS_NUM_THREADS": "1",
    }
    for field, variable in _ENDPOINTS.items():
        url = getattr(given, field, None) or getattr(told, field).url
        if url:
            os.environ[variable] = text_format.MessageToString(endpoints_pb2.ApiServiceDescriptor(url=url))
            if field == "control_endpoint":
                os.environ[SERVES] = url
    try:
        answer_driver(options)
    except TokError as error:
        sys.exit(f"tokcore-worker: {error}")
    if told.sibling_worker_ids:
        sys.exit(run_workers([given.id, *told.sibling_worker_ids]))
    serve_engine()


def restore_whole_numbers(value: Any) -> Any:
    """The value, with 1 for 1.0: a protobuf Struct has floats alone, and Beam's options refuse them where 1 is meant.

    >>> restore_whole_numbers({"a": [1.0, 0.5], "b": True})
    {'a': [1, 0.5], 'b': True}
    """
    if isinstance(value, dict):
        return {name: restore_whole_numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [restore_whole_numbers(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def run_workers(worker_ids: Sequence[str]) -> int:
    """Run a worker process for each name, until all have ended; their exit code.

    If one fails, the others are ended, so that the engine sees it and starts all of them again.
    """
    command = [sys.executable, "-P", "-m", SDK_WORKER]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    running = [subprocess.Popen(command, env={**os.environ, "WORKER_ID": one}) for one in worker_ids]
    try:
        while any(process.poll() is None for process in running):
            if any(process.poll() for process in running):
                return 1
            time.sleep(_POLL_S)
        return int(any(process.returncode for process in running))
    finally:
        for process in running:
            process.kill()
            process.wait()


def serve_pool(host: str, port: int) -> None:
    """Start a worker process for each request of an engine, until SIGTERM or Ctrl-C; then end all of them."""
    from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that workers are ended by what Beam leaves for the exit
    with bind_to(host):
        BeamFnExternalWorkerPoolServicer.start(use_process=True, port=port, container_executable=sys.argv[0])
    say(f"tokcore-worker: a pool of {describe_version()} listens on {host}:{port}", err=True)
    threading.Event().wait()


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tokcore-worker", description=__doc__, allow_abbrev=False)
    parser.add_argument("--pool", type=int, metavar="PORT", help="start workers whenever an engine asks this port")
    parser.add_argument("--host", default=LOOPBACK, help="of the pool: where it listens (default: %(default)s)")
    parser.add_argument("--id", default="", type=_unquote, help="name that the engine gave the worker")
    parser.add_argument("--provision_endpoint", default="", help="where the worker gets its options")
    for name in ("--control_endpoint", "--logging_endpoint", "--status_endpoint"):
        parser.add_argument(name, default="", help="else the options say it")
    for name in ("--artifact_endpoint", "--semi_persist_dir"):
        parser.add_argument(name, default="", help="accepted; nothing is staged")
    return parser.parse_args(arguments)


def _unquote(value: str) -> str:
    """The name itself: Prism puts quotes round it, though no shell takes them away."""
    return value.strip("'")


def _ask_for_options(worker_id: str, endpoint: str) -> Any:
    with grpc.insecure_channel(endpoint) as channel:
        grpc.channel_ready_future(channel).result(timeout=_TIMEOUT_S)
        service = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        request = beam_provision_api_pb2.GetProvisionInfoRequest()
        answer = service.GetProvisionInfo(request, metadata=(("worker_id", worker_id),), timeout=_TIMEOUT_S)
        return answer.info


if __name__ == "__main__":
    main()
