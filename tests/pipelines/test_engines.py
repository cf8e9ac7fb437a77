"""Engines with hosts of their own: their settings, what their hosts cannot see, and workers in other processes."""

from __future__ import annotations

import dataclasses
import http.server
import importlib.metadata
import json
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions
from support.builds import build_file, jsonl, run, texts, tokcore, tree, write
from support.engines import (
    find_boot,
    find_free_port,
    find_prism,
    make_job_server,
    running,
    write_boot_starter,
    write_program,
)

from tokcore.errors import ConfigError, StageError
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.local.engines import find_web, find_worker_program, make_engine_options
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.run.engines import engine_jobs, flink_jobs
from tokcore_pipelines.run.engines.beam_warnings import tell_warnings
from tokcore_pipelines.run.engines.driver_options import DRIVER_OPTION, describe_version, follow_driver
from tokcore_pipelines.run.engines.engine_jobs import give_slots_processes
from tokcore_pipelines.run.engines.shorten_failure import shorten_failure
from tokcore_pipelines.work.worker_notes import greet
from tokcore_schemas.build_tables import EngineTable
from tokcore_schemas.config import load_config


def test_options_of_an_engine():
    assert make_engine_options(EngineTable()) == ()
    command = '{"command": "/opt/tokcore-worker"}'
    assert make_engine_options(EngineTable(name="prism", parallelism=8, worker="/opt/tokcore-worker")) == (
        "--runner=PortableRunner",
        "--job_endpoint=127.0.0.1:8073",
        "--experiments=disable_logging_submission_environment",
        "--environment_type=PROCESS",
        f"--environment_config={command}",
        "--parallelism=8",
    )
    assert make_engine_options(EngineTable(name="flink", processes=4))[-1] == "--sdk_worker_parallelism=4"
    external = EngineTable(name="portable", endpoint="[::1]:9", environment="external", worker="pool:10")
    assert make_engine_options(external)[1:] == (
        "--job_endpoint=[::1]:9",
        "--experiments=disable_logging_submission_environment",
        "--environment_type=EXTERNAL",
        "--environment_config=pool:10",
    )


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (EngineTable(endpoint="localhost:9"), "engine.endpoint: the local engine has none"),
        (EngineTable(parallelism=2), "engine.parallelism: the local engine has none.*--workers"),
        (EngineTable(processes=2), "engine.processes: the local engine has none"),
        (EngineTable(web="a:1"), "engine.web: the local engine has none"),
        (EngineTable(name="portable"), "engine.endpoint: missing"),
        (EngineTable(name="prism", endpoint="localhost"), "engine.endpoint = 'localhost': expected HOST:PORT"),
        (EngineTable(name="prism", endpoint="localhost:70000"), "expected HOST:PORT"),
        (EngineTable(name="prism", environment="external"), "engine.worker: missing"),
        (EngineTable(name="prism", environment="external", worker="pool"), "engine.worker = 'pool': expected HOST"),
    ],
)
def test_settings_that_do_not_fit(engine, message):
    with pytest.raises(ConfigError, match=message):
        make_engine_options(engine)


@pytest.fixture
def corpus(tmp_path):
    write(tmp_path / "en.jsonl", jsonl([{"text": text} for text in texts("en", 20)]))
    build_file(tmp_path, '[[source]]\nlang = "en"\nfiles = "en.jsonl"\n', "[learn]\nvocab_size = 300\n")
    return tmp_path


def test_paths_that_other_hosts_cannot_see(corpus):
    arguments = ("--engine", "prism", "--set", f"engine.endpoint=127.0.0.1:{find_free_port()}")
    done = tokcore("build", corpus / "build.toml", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: build.output = ")
    assert "--shared-filesystem" in done.stderr
    done = tokcore("build", corpus / "build.toml", *arguments, "--output", "s3://bucket/out")
    assert done.returncode == 2
    assert done.stderr.startswith("error: source[0].files = ")
    done = tokcore("build", corpus / "build.toml", *arguments, "--shared-filesystem")
    assert done.returncode == 2
    assert "no job server of prism answers" in done.stderr
    assert not (corpus / "out").exists()


def test_one_place_names_the_engine(corpus):
    done = tokcore(
        "build", corpus / "build.toml", "--engine=prism", "--shared-filesystem", "--", "--runner=FnApiRunner"
    )
    assert (done.returncode, done.stderr.split(":")[1].strip()) == (2, "--runner")
    done = tokcore("build", corpus / "build.toml", "--engine=prism", "--shared-filesystem", "--workers=2")
    assert (done.returncode, done.stderr.split(":")[1].strip()) == (2, "--workers")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--detach",), "--detach: the local engine ends with this command"),
        (("--", "--runner=PortableRunner", "--environment_type=LOOPBACK"), "--environment_type=LOOPBACK: threads of"),
        (
            ("--", "--runner=PortableRunner", "--environment_type", "loopback"),
            "--environment_type=LOOPBACK: threads of",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(corpus, arguments, message):
    done = tokcore("build", corpus / "build.toml", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {message}")
    assert not (corpus / "out").exists()


def test_workers_of_another_release_refuse_to_work():
    follow_driver({f"beam:option:{DRIVER_OPTION}:v1": describe_version()})
    for driver in ("tokcore 0.0.1 (semantics 0)", None):
        with pytest.raises(ConfigError, match=r"the driver is .*this worker is tokcore"):
            follow_driver({f"beam:option:{DRIVER_OPTION}:v1": driver} if driver else {})


def test_a_job_server_with_workers_in_processes_of_a_pool(corpus):
    """Beam's own job server, as a stand-in for an engine: no work is done in the driver, and the bytes are equal."""
    run(corpus / "build.toml", corpus / "local")
    pool, server = find_free_port(), find_free_port()
    with (
        (corpus / "pool.log").open("wb") as log,
        running([find_worker_program(), f"--pool={pool}"], pool, log),
        running(make_job_server(server), server) as engine,
    ):
        done = tokcore(
            *("build", corpus / "build.toml", "--output", corpus / "out", "--engine=portable", "--shared-filesystem"),
            *("--set", f"engine.endpoint=127.0.0.1:{server}"),
            *("--set", "engine.environment=external", "--set", f"engine.worker=127.0.0.1:{pool}"),
        )
        assert done.returncode == 0, done.stderr
        assert engine.poll() is None
    assert tree(corpus / "out") == tree(corpus / "local")
    told = json.loads((corpus / "out" / "counts" / "run.json").read_bytes())
    assert [worker["items"] for worker in told["processes"]] == [1]
    assert told["process"] not in (told["processes"][0]["process"], *told["processes"][0]["ancestors"])
    started = (corpus / "pool.log").read_text()
    assert f"listens on 127.0.0.1:{pool}" in started
    assert started.count("Starting worker with command") == 3, "for counting, for learning and for encoding"


def test_a_shuffled_build_on_a_job_server(corpus):
    """Both passes run on the engine; the bytes are those of a local build."""
    with (corpus / "build.toml").open("a") as file:
        file.write("[shuffle]\nseed = 7\n[shards]\ntarget_tokens = 200\n")
    run(corpus / "build.toml", corpus / "local")
    pool, server = find_free_port(), find_free_port()
    with (
        running([find_worker_program(), f"--pool={pool}"], pool),
        running(make_job_server(server), server) as engine,
    ):
        done = tokcore(
            *("build", corpus / "build.toml", "--output", corpus / "out", "--engine=portable", "--shared-filesystem"),
            *("--set", f"engine.endpoint=127.0.0.1:{server}"),
            *("--set", "engine.environment=external", "--set", f"engine.worker=127.0.0.1:{pool}"),
        )
        assert done.returncode == 0, done.stderr
        assert engine.poll() is None
    assert tree(corpus / "out") == tree(corpus / "local")


@pytest.mark.proof
def test_prism_starts_workers_as_processes(corpus):
    """A real engine, with one of its own worker processes for each job; the bytes are equal."""
    run(corpus / "build.toml", corpus / "local")
    port = find_free_port()
    with (
        (corpus / "prism.log").open("wb") as log,
        running([find_prism(), "--serve_http=false", f"--job_port={port}"], port, log),
    ):
        done = tokcore(
            *("build", corpus / "build.toml", "--output", corpus / "out", "--engine=prism", "--shared-filesystem"),
            *("--set", f"engine.endpoint=127.0.0.1:{port}"),
        )
        listening = subprocess.run(["ss", "-ltnH", f"sport = :{port}"], capture_output=True, text=True, check=True)
    assert done.returncode == 0, done.stderr
    assert tree(corpus / "out") == tree(corpus / "local")
    assert f"127.0.0.1:{port}" in listening.stdout
    assert len(listening.stdout.splitlines()) == 1


RELEASE = importlib.metadata.version("tokcore")


@pytest.mark.proof
@pytest.mark.parametrize("release", [RELEASE, "0.0.1"])
def test_beams_own_starter_starts_workers(corpus, release):
    """`boot`, the entry point of Beam's images: its workers answer the driver; one of another release is refused."""
    run(corpus / "build.toml", corpus / "local")
    scripts = corpus / "scripts"  # boot starts the program python of its PATH, with -m
    scripts.mkdir()
    write_program(
        scripts / "python",
        f"#!{sys.executable}\nimport runpy, sys, tokcore\ntokcore.__version__ = {release!r}\ndel sys.argv[:2]\n"
        "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\n",
    )
    starter = write_boot_starter(corpus, find_boot())
    environment = {
        **os.environ,
        "PATH": f"{scripts}:{os.environ['PATH']}",
        "RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT": "1",
    }
    port = find_free_port()
    command = [find_prism(), "--serve_http=false", f"--job_port={port}"]
    with (corpus / "prism.log").open("wb") as log, running(command, port, log, environment):
        done = on_prism(corpus, port, starter)
    if release == RELEASE:
        assert done.returncode == 0, done.stderr
        assert tree(corpus / "out") == tree(corpus / "local")
    else:
        assert done.returncode == 2, done.stderr
        assert f"this worker is tokcore {release}" in done.stderr


@pytest.fixture(scope="module")
def prism():
    port = find_free_port()
    with running([find_prism(), "--serve_http=false", f"--job_port={port}"], port):
        yield port


def on_prism(corpus, port, worker):
    return tokcore(
        *("build", corpus / "build.toml", "--engine=prism", "--shared-filesystem"),
        *("--set", f"engine.endpoint=127.0.0.1:{port}", "--set", f"engine.worker={worker}"),
        timeout=300,
    )


def test_a_worker_of_another_release_ends_the_build_by_name(corpus, prism):
    """Prism itself would wait for ever. With the right worker the same command goes on."""
    other = corpus / "other-release"
    write_program(
        other,
        f"#!{sys.executable}\nimport tokcore\ntokcore.__version__ = '0.0.1'\n"
        "from tokcore_pipelines.run.engines.boot_worker import main\nmain()\n",
    )
    done = on_prism(corpus, prism, other)
    assert done.returncode == 2, done.stderr
    assert "error: a worker refused to start on host" in done.stderr
    assert "the driver is tokcore" in done.stderr
    assert "this worker is tokcore 0.0.1" in done.stderr
    done = on_prism(corpus, prism, find_worker_program())
    assert done.returncode == 0, done.stderr


def test_a_worker_that_never_starts_ends_the_build(corpus, prism, monkeypatch):
    monkeypatch.setattr(engine_jobs, "SILENCE_S", 3.0)
    engine = EngineTable(name="prism", endpoint=f"127.0.0.1:{prism}", worker="/bin/false", shared_filesystem=True)
    config = dataclasses.replace(load_config(str(corpus / "build.toml")), engine=engine)
    with pytest.raises(ConfigError, match=r"(?i)no worker ha[sd] started.*log of prism; engine.worker names"):
        Build(config, output=str(corpus / "out")).run()


PANIC = """pipeline panicked: send on closed channel
Stacktrace: goroutine 57 [running]:
runtime/debug.Stack()
\t/usr/local/go/src/runtime/debug/stack.go:26 +0x5e
stage-007 pending 1 upstream watermark -inf
"""


class FailedJob:
    """A job that failed as Prism's do, before or after its worker had started."""

    id = "job-1"
    endpoint = "127.0.0.1:9"

    def __init__(self, output, is_greeted):
        if is_greeted:
            (stage,) = (output / "_attempts").glob("counts-*")
            greet(str(stage / "greetings"), describe_version())

    def listen(self):
        pass

    def read_state(self):
        return "FAILED"

    def read_failure(self):
        return PANIC

    def read_warnings(self):
        return []


HINT = (
    " No worker had started. Look into the log of {}; engine.worker names the program that starts workers on its hosts"
)
AGAIN = " Finished work is kept: run the same command again"


@pytest.mark.parametrize(
    ("name", "is_greeted", "error", "rest"),
    [
        ("prism", False, ConfigError, HINT.format("prism")),
        ("prism", True, StageError, AGAIN),
        ("portable", False, StageError, f"{HINT.format('portable')}.{AGAIN}"),
    ],
    ids=["no-worker-on-prism", "a-worker-on-prism", "no-worker-elsewhere"],
)
def test_a_failed_job_is_told_in_a_line(corpus, monkeypatch, name, is_greeted, error, rest):
    """All that the engine said is in a file. Without a worker, the setting that starts them is named."""
    monkeypatch.setattr(engine_jobs, "find_job", lambda *_: None)
    monkeypatch.setattr(engine_jobs, "submit_job", lambda *_: FailedJob(corpus / "out", is_greeted))
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = f"127.0.0.1:{server.getsockname()[1]}"
        engine = EngineTable(name=name, endpoint=endpoint, worker="/bin/false", shared_filesystem=True)
        config = dataclasses.replace(load_config(str(corpus / "build.toml")), engine=engine)
        with pytest.raises(error) as raised:
            Build(config, output=str(corpus / "out")).run()
    (kept,) = (corpus / "out" / "_attempts").glob("counts-*/failure-*.txt")
    why = f"pipeline panicked: send on closed channel (all of it: {kept})"
    assert str(raised.value) == f"job job-1 at 127.0.0.1:9 ended FAILED: {why}.{rest}"
    assert kept.read_text() == PANIC


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("pipeline panicked: no\nStacktrace: goroutine 1 [running]:\nmain.main()\n", "pipeline panicked: no"),
        ("a.B: failed\n\tat c.D(D.java)\nCaused by: e.F: g\nCaused by: h.I: gone\n\t... 8 more\n", "h.I: gone"),
        (
            "a.B: Error received from SDK harness: Traceback (most recent call last):\n  File 'x', line 1\n    f()\n"
            "Traceback (most recent call last):\n  File 'y'\nOSError: disk\n\n\tat c.D(D.java)\nCaused by: e.F: g",
            "OSError: disk",
        ),
        ("a.B: Traceback (most recent call last):\n  cut", "a.B: Traceback (most recent call last):"),
        ("x" * 1000, "x" * 300 + " ..."),
        ("\n \n", ""),
    ],
)
def test_the_line_that_names_the_cause(text, line):
    assert shorten_failure(text) == line


class _TaskManagers(http.server.BaseHTTPRequestHandler):
    """Flink's answer about two TaskManagers."""

    def do_GET(self) -> None:
        told = json.dumps({"taskmanagers": [{"slotsNumber": 3}, {"slotsNumber": 4}]}).encode()
        self.send_response(200 if self.path == "/taskmanagers" else 404)
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def flink() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), _TaskManagers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_what_builds_parts_takes_over_the_engine_of_its_command():
    """An update hands its options to the build of a part, which has the same build file."""
    engine = EngineTable(name="prism")
    told = make_engine_options(engine)
    run = RunOptions().with_engine("prism", "", told)
    assert run.with_engine("prism", "", told) == run
    with pytest.raises(ConfigError, match="names an engine already"):
        run.with_engine("flink", "", make_engine_options(EngineTable(name="flink")))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({}, "4"), ({"parallelism": 9}, "4"), ({"parallelism": 2}, "2"), ({"processes": 7}, "7")],
)
def test_each_slot_of_flink_gets_a_process(flink, settings, expected):
    engine = EngineTable(name="flink", web=flink, **settings)
    run = RunOptions().with_engine("flink", find_web(engine), make_engine_options(engine))
    options = PipelineOptions(list(run.runner))
    give_slots_processes(run, options, pytest.fail)
    assert options.view_as(PortableOptions).sdk_worker_parallelism == expected


def test_a_flink_that_does_not_answer_costs_a_warning(monkeypatch):
    monkeypatch.setattr(flink_jobs, "PAUSE_S", 0)
    engine = EngineTable(name="flink", web=f"127.0.0.1:{find_free_port()}")
    run = RunOptions().with_engine("flink", find_web(engine), make_engine_options(engine))
    said: list[str] = []
    options = PipelineOptions([])
    give_slots_processes(run, options, said.append)
    assert "engine.processes" in said[0]
    assert options.view_as(PortableOptions).sdk_worker_parallelism == 1


def test_where_the_pages_of_an_engine_are():
    assert find_web(EngineTable(name="flink")) == "127.0.0.1:8081"
    assert find_web(EngineTable(name="flink", endpoint="[::1]:9")) == "[::1]:8081"
    assert find_web(EngineTable(name="prism")) == ""
    assert find_web(EngineTable(name="prism", web="localhost:8074")) == "localhost:8074"
    with pytest.raises(ConfigError, match=r"engine.web = 'localhost': expected HOST:PORT"):
        find_web(EngineTable(name="prism", web="localhost"))


def test_what_beam_warns_of_is_said_once():
    said = []
    logger = logging.getLogger("apache_beam.somewhere")
    with tell_warnings(said.append):
        for _ in range(2):
            logger.warning("key %s of s3://me:secret@bucket", "1")
        logger.error("raised anyway")
        logger.info("of no interest")
    logger.warning("later")
    assert said == ["warning: Beam: key 1 of s3://***@bucket"]
