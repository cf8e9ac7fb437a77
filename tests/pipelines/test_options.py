"""Where pipelines run: runner options, and which ports are open meanwhile."""

from __future__ import annotations

import os
import socket
import sys
from concurrent import futures

import grpc
import pytest
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from support.builds import ROOT, build_file, jsonl, run, small_corpus, texts, tokcore, tree, write
from support.listening import is_loopback, watched

from tokcore.errors import ConfigError
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.run.engines.bind import bind_to_loopback
from tokcore_pipelines.run.engines.runner import check_runner_options, complete_options

# ------------------------------------------------------------------------------------------------------ runner options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--no_such_option"], "--no_such_option: Beam's own runner has no such option"),
        (["--direct_num_worker=2"], "Did you mean --direct_num_workers?"),
        (["--runner=FnApiRunner", "--no_such_option", "7"], "--no_such_option: FnApiRunner has no such option"),
        (["word"], "word: Beam's own runner"),
        (["--runner=Fnord"], "--runner=Fnord: no such runner. Expected one of .*FlinkRunner"),
        (["--runner", "Fnord"], "--runner=Fnord"),
        (["--runner=nothing.Like.This"], "ModuleNotFoundError"),
        (["--runner=os.getcwd"], "not a PipelineRunner"),
        (["--runner"], "expected one argument"),
        (["--direct_num_workers=many"], "direct_num_workers.*'many'"),
        (["--direct_running_mode=multi_processing"], "--workers N"),
    ],
)
def test_options_that_no_runner_has(options, message):
    with pytest.raises(ConfigError, match=message):
        check_runner_options(tuple(options))


@pytest.mark.parametrize("option", ["--s3_secret_access_key", "--s3_session_token", "--azure_connection_string"])
def test_secrets_are_not_taken_from_a_command_line(option):
    for words in ((f"{option}=CANARY",), (option, "CANARY")):
        with pytest.raises(ConfigError, match=f"{option}: no secrets") as error:
            check_runner_options(words)
        assert "CANARY" not in str(error.value)


def test_options_that_are_fine():
    for options in (
        ("--direct_runner_bundle_repeat=1",),
        ("--runner=FnApiRunner",),
        ("--runner", "direct"),
        ("--runner=FlinkRunner", "--what_only_the_job_server_knows=7"),
    ):
        check_runner_options(options)
        assert not RunOptions(1, options).is_local


def test_beams_own_runner_is_never_one_that_it_downloads():
    for options in (("--runner=DirectRunner",), ("--runner", "direct"), ("--direct_num_workers=7",)):
        completed = PipelineOptions(complete_options(RunOptions(3, options)))
        assert completed.view_as(StandardOptions).runner == "FnApiRunner"
        direct = completed.view_as(DirectOptions)
        assert direct.direct_running_mode == "in_memory"
        assert direct.direct_num_workers == (7 if "=7" in options[0] else 3)
    assert complete_options(RunOptions(3, ("--runner=FlinkRunner",))) == ["--runner=FlinkRunner"]


def test_the_command_line_says_so(tmp_path):
    small_corpus(tmp_path)
    for option in ("--no_such_option", "--runner=Fnord"):
        done = tokcore("build", build_file(tmp_path), "--", option)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"error: {option}: ")
        assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


# --------------------------------------------------------------------------------------------------------------- ports


@pytest.fixture
def corpus(tmp_path):
    write(tmp_path / "en.jsonl", jsonl([{"text": text} for text in texts("en", 20)]))
    build_file(tmp_path, '[[source]]\nlang = "en"\nfiles = "en.jsonl"\n', "[learn]\nvocab_size = 300\n")
    return tmp_path


def test_the_local_runner_opens_no_port(corpus):
    with watched() as seen:
        run(corpus / "build.toml", corpus / "out")
    assert seen == set()


@pytest.mark.parametrize(
    "options",
    [
        ("--direct_running_mode=multi_threading",),
        ("--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK"),
    ],
)
def test_other_modes_listen_on_loopback_alone(corpus, options):
    before = grpc.server
    with watched() as seen:
        run(corpus / "build.toml", corpus / "out", 2, options)
    assert seen
    assert all(map(is_loopback, seen)), seen
    assert grpc.server is before


def test_workers_in_processes_of_a_portable_runner(corpus, monkeypatch):
    """Nothing but names and refs reaches them; they find our coders, and build the same bytes."""
    run(corpus / "build.toml", corpus / "local")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    with watched() as seen:
        options = (
            "--runner=PortableRunner",
            "--job_endpoint=embed",
            "--environment_type=beam:env:harness_subprocess_python:v1",
            f"--environment_config={sys.executable} -m apache_beam.runners.worker.sdk_worker_main",
        )
        run(corpus / "build.toml", corpus / "out", 1, options)
    assert tree(corpus / "out") == tree(corpus / "local")
    assert seen
    assert all(map(is_loopback, seen)), seen


def test_a_worker_pool_is_bound_to_loopback():
    """Beam would listen on every interface, and such a pool unpickles what it receives."""
    with watched() as seen, bind_to_loopback():
        address, server = BeamFnExternalWorkerPoolServicer.start()
        with socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1]))):
            pass
    server.stop(None).wait()
    assert seen
    assert all(map(is_loopback, seen)), seen


@pytest.mark.parametrize("address", ["[::]:0", "0.0.0.0:0", "*:0", "localhost:0", "127.0.0.1:0"])
def test_whatever_address_a_server_is_given(address):
    with watched() as seen, bind_to_loopback():
        server = grpc.server(futures.ThreadPoolExecutor(1))
        server.add_insecure_port(address)
        server.start()
    server.stop(None).wait()
    assert seen
    assert all(map(is_loopback, seen)), seen


def test_two_at_once_do_not_lift_each_others_guard():
    first, second = bind_to_loopback(), bind_to_loopback()
    with first:
        guarded = grpc.server
        second.__enter__()
    assert grpc.server is guarded
    second.__exit__(None, None, None)
    assert grpc.server is not guarded
