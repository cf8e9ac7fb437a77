"""A process that has imported everything and forks a child for each requested build, so that a build takes a fifth of a
second. `Warm` is the client. A request and a reply are a line of JSON each.

At its crash point a child dies as if by kill -9, and leaves its open files as they are.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import logging
import os
import selectors
import signal
import subprocess
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions
from chaos import faultfs
from chaos.commands import run_command
from support import eager
from support.builds import ON_BEAM

from tokcore.errors import ConfigError, TokError
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.check.gc import gc
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.commands.fail import EXIT_STAGE, EXIT_USAGE
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store import crashpoints, retries
from tokcore_pipelines.work import merge_tree
from tokcore_schemas.config import load_config

TESTS = Path(__file__).parent.parent
# What a build imports late, to start faster; here it is imported once, for all children.
LATE = (
    "fsspec.implementations.local",
    "tokcore_pipelines.run.beam",
    "tokcore_pipelines.run.engines.runner",
    "tokcore_pipelines.reading.columns",
    "tokcore_pipelines.work.measure_items",
    "pyarrow.dataset",
    "tokcore._native",
)


class Warm:
    """The client: start builds, wait for their outcomes."""

    def __init__(self) -> None:
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(TESTS.parent), str(TESTS)]))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "chaos.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=TESTS.parent,
            text=True,
        )
        self._number = 0
        self._replies: dict[int, dict[str, Any]] = {}
        self.pids: dict[int, int] = {}  # number of a build -> process id of its child, once reported

    def start(self, build_file: Path, output: str | Path, **how: Any) -> int:
        """Start a build; returns its number. how: see _child."""
        self._number += 1
        request = {"number": self._number, "build_file": str(build_file), "output": str(output), **how}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        while self._number not in self.pids:
            self._receive()
        return self._number

    def wait(self, number: int) -> dict[str, Any]:
        """The outcome of a build: {"killed": signal}, {"root": ...}, {"error": class, "message": ..., "code": ...}."""
        while number not in self._replies:
            self._receive()
        return self._replies.pop(number)

    def build(self, build_file: Path, output: str | Path, **how: Any) -> dict[str, Any]:
        return self.wait(self.start(build_file, output, **how))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def _receive(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server of builds ended with exit code {self._process.wait()}")
        reply = json.loads(line)
        if "pid" in reply:
            self.pids[reply["number"]] = reply["pid"]
        else:
            self._replies[reply["number"]] = reply


def serve() -> None:
    """Fork a child per line of standard input; end when it ends and all children have."""
    _prepare()
    waiting = selectors.DefaultSelector()
    waiting.register(0, selectors.EVENT_READ, None)
    buffered = b""
    children = 0
    while children or 0 in waiting.get_map():
        for key, _ in waiting.select():
            if key.data is None:
                data = os.read(0, 1 << 16)
                if not data:
                    waiting.unregister(0)
                *lines, buffered = (buffered + data).split(b"\n")
                for line in lines:
                    request = json.loads(line)
                    pid, pipe = _fork(request, waiting)
                    waiting.register(pipe, selectors.EVENT_READ, (pid, request["number"], bytearray()))
                    children += 1
                    _say({"number": request["number"], "pid": pid})
            else:
                pid, number, said = key.data
                data = os.read(key.fd, 1 << 16)
                said += data
                if not data:
                    waiting.unregister(key.fd)
                    os.close(key.fd)
                    _, status = os.waitpid(pid, 0)
                    children -= 1
                    killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
                    _say({"number": number, **({"killed": killed} if killed else json.loads(bytes(said)))})


def _say(reply: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


def _prepare() -> None:
    logging.disable(logging.CRITICAL)
    for name in LATE:
        importlib.import_module(name)
    # A language of more than two runs has a merge of its own, as larger builds have from 17 runs on.
    merge_tree.FAN_IN = 2
    # Beam parses the same options again for every transform, which is half the cost of a small build.
    view_as = PipelineOptions.view_as

    views: dict[tuple[int, Any], Any] = {}  # each with its options, so that no other options can get their id

    def remembered(self: Any, cls: Any) -> Any:
        if (id(self), cls) not in views:
            views[id(self), cls] = self, view_as(self, cls)
        return views[id(self), cls][1]

    PipelineOptions.view_as = remembered


def _fork(request: dict[str, Any], waiting: selectors.BaseSelector) -> tuple[int, int]:
    read, write = os.pipe()
    if pid := os.fork():
        os.close(write)
        return pid, read
    os.close(read)
    waiting.close()
    os.setpgid(0, 0)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, *(() if request.get("loud") else (2,))):
        os.dup2(null, descriptor)
    try:
        reply = _child(request)
    except BaseException:
        reply = {"error": "bug", "message": traceback.format_exc(), "code": 1}
    with os.fdopen(write, "w") as pipe:
        json.dump(reply, pipe)
    os._exit(0)


def _child(request: dict[str, Any]) -> dict[str, Any]:
    """Run one build.

    crash: [point, visit]. stop: the same, but the child only stops, until SIGCONT. faults: of faultfs. seed,
    hostility, concurrent: of the eager runner. workers: use processes of this machine instead;
    beam: through Beam, as large builds do. inputs: "faultfs" reads them from there. verify: check the output
    afterwards. only: "verify" or "gc". command: what chaos.commands runs, in place of a build.
    """
    retries.FIRST_PAUSE_SECONDS = 0
    schedule = faultfs.install([faultfs.Fault(*fault) for fault in request.get("faults", ())])
    visits: Counter[str] = Counter()
    if crash := request.get("crash"):
        crashpoints.watch(crashpoints.make_killer(*crash))
    elif stop := request.get("stop"):
        crashpoints.watch(crashpoints.make_killer(*stop, signal.SIGSTOP))
    else:
        crashpoints.watch(lambda name: visits.update([name]))
    workers = request.get("workers")
    if workers:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        options = RunOptions(workers, ON_BEAM if request.get("beam") else ())
    else:
        eager.seed(request.get("seed", 0), request.get("hostility", 0.3), request.get("concurrent", False))
        options = RunOptions(1, eager.RUNNER)
    facts: dict[str, Any] = {"visits": visits, "calls": schedule.calls, "fired": schedule.fired}
    try:
        if request.get("only") == "verify":
            return {"problems": verify(request["output"], options=RunOptions(here=True)).problems}
        if request.get("only") == "gc":
            return {"removed": gc(request["output"], older_than="0").removed}
        config = load_config(request["build_file"])
        if request.get("inputs") == "faultfs":
            config = dataclasses.replace(config, base=f"faultfs://{config.base}")
        if command := request.get("command"):
            return {**run_command(command, config, request["output"], options), **facts}
        root = Build(config, options, request["output"]).run().root
        facts["visits"] = visits.copy()  # verification makes parts of mixtures again, and comes there, too
        here = RunOptions(here=True)
        problems = verify(request["output"], options=here).problems if request.get("verify") else ()
        return {"root": root, "problems": problems, **facts}
    except TokError as error:
        code = EXIT_USAGE if isinstance(error, ConfigError) else EXIT_STAGE
        return {"error": type(error).__name__, "message": str(error), "code": code, **facts}


if __name__ == "__main__":
    serve()
