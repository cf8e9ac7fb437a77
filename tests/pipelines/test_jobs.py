"""Jobs of an engine: measured, cancelled, left, found again; and errors that cross processes as they are."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc
from support.builds import ON_BEAM, build_file, jsonl, texts, tokcore, tree, write
from support.drivers import Driver, wait_for
from support.engines import find_free_port, find_prism, running

from tokcore.errors import FormatError, LedgerError, StageError
from tokcore_pipelines.local.engines import find_worker_program
from tokcore_pipelines.run.engines.across import find_error, run_here
from tokcore_pipelines.run.engines.jobs import make_job_name
from tokcore_pipelines.store.attempts import Attempts

NUM_FILES = 3
SOURCE = '[[source]]\nlang = "en"\nfiles = "*.jsonl"\n'
SETTINGS = "[plan]\nrange_bytes = 2000\n[learn]\nvocab_size = 300\n"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    for number in range(NUM_FILES):
        documents = jsonl([{"text": text} for text in texts("en", 20, number)])
        write(tmp_path / f"{number}.jsonl", documents + b"no json\n")
    build_file(tmp_path, SOURCE, SETTINGS, build="max_rejected = 0.5")
    return tmp_path


@pytest.fixture(scope="module")
def prism() -> Iterator[int]:
    port = find_free_port()
    with running([find_prism(), "--serve_http=false", f"--job_port={port}"], port):
        yield port


def on_prism(port: int, corpus: Path, *more: str) -> list[str]:
    arguments = ("build", corpus / "build.toml", "--output", corpus / "out", "--engine=prism", "--shared-filesystem")
    return [str(one) for one in (*arguments, "--set", f"engine.endpoint=127.0.0.1:{port}", *more)]


class Job(NamedTuple):
    """What the driver says of the job of the count stage."""

    id: str
    name: str


def list_jobs(port: int, job: Job) -> Counter[str]:
    """State -> number of jobs of that name."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        found = beam_job_api_pb2_grpc.JobServiceStub(channel).GetJobs(beam_job_api_pb2.GetJobsRequest()).job_info
    states = [one.state for one in found if one.job_name == job.name]
    return Counter(beam_job_api_pb2.JobState.Enum.Name(state) for state in states)


def wait_for_job(driver: Driver) -> Job:
    found = re.match(r"count: job (\S+) \((\S+)\) at ", driver.wait_for_line("count: job "))
    return Job(found[1], found[2])


def make_slow_worker(corpus: Path, seconds: int) -> str:
    """A worker program that takes long to start, so that a job lasts."""
    path = corpus / "slow-worker"
    path.write_text(f'#!/bin/sh\nsleep {seconds}\nexec {find_worker_program()} "$@"\n')
    path.chmod(0o755)
    return f"engine.worker={path}"


# ------------------------------------------------------------------------------------------------------------- metrics


def list_expected(done: dict) -> dict[str, int]:
    """What the counters of a stage add up to, as the manifest has it."""
    records = done["totals"]["records"]
    assert (records["read"], records["documents"]) == (NUM_FILES * 21, NUM_FILES * 20)
    return {
        "records": NUM_FILES * 21,
        "documents": NUM_FILES * 20,
        "rejected": NUM_FILES,
        "rejected:bad_json": NUM_FILES,
        "stored_bytes": done["totals"]["files"]["stored_bytes_planned"],
        "text_bytes": done["totals"]["text_bytes"],
    }


def check_metrics(done: dict, is_counted_before: bool) -> None:
    for stage in ("count", "encode"):
        measured = done["metrics"][stage]
        for name, number in list_expected(done).items():
            assert measured[name] == number, name
        assert measured["items"] > NUM_FILES
        num_hits = measured["items"] if is_counted_before and stage == "count" else 0
        assert measured.get("cache_hits", 0) == num_hits
    assert done["metrics"]["encode"]["tokens"] == done["totals"]["tokens"]


@pytest.mark.parametrize("options", [(), ("--", *ON_BEAM)], ids=["without Beam", "on Beam"])
def test_what_is_measured_locally(corpus, options):
    """The counters are the sums of the ledgers; work that an earlier run did counts as found."""
    arguments = ("build", corpus / "build.toml", "--json")
    done = tokcore(*arguments, "--output", corpus / "a", *options)
    assert done.returncode == 0, done.stderr
    check_metrics(json.loads(done.stdout), is_counted_before=False)
    crashing = {**os.environ, "TOKCORE_CRASH": "stage.worked"}
    assert tokcore("build", corpus / "build.toml", *options, env=crashing).returncode == -signal.SIGKILL
    check_metrics(json.loads(tokcore(*arguments, *options).stdout), is_counted_before=True)


def check_processes(output: Path) -> None:
    """No work is done in the driver, or in a process that it started."""
    for stage in ("counts", "shards"):
        told = json.loads((output / stage / "run.json").read_bytes())
        assert sum(worker["items"] for worker in told["processes"]) > NUM_FILES
        for worker in told["processes"]:
            assert told["process"] not in (worker["process"], *worker["ancestors"])
            assert worker["ancestors"]
            assert Path(worker["executable"]).name.startswith("python")
            assert worker["started"] > 0


def test_what_is_measured_on_an_engine(corpus, prism):
    """Prism may miss what a bundle adds to a counter that is new to it; it never adds too much."""
    done = tokcore(*on_prism(prism, corpus, "--json"))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    for stage in ("count", "encode"):
        measured = told["metrics"][stage]
        assert measured["items"] > 0
        for name, number in list_expected(told).items():
            assert 0 < measured[name] <= number, name
    check_processes(corpus / "out")
    assert re.search(r"count: job job-\d+ \(tokcore-count-[0-9a-f]{16}\) at 127.0.0.1:\d+", done.stderr)


# ------------------------------------------------------------------------------------------------- jobs that are alive


def test_a_job_that_a_killed_driver_left_is_gone_on_with(corpus, prism):
    local = tokcore("build", corpus / "build.toml", "--output", corpus / "local")
    assert local.returncode == 0, local.stderr
    arguments = on_prism(prism, corpus, "--set", make_slow_worker(corpus, 30))
    with Driver(corpus / "driver.log", *arguments) as driver:
        job = wait_for_job(driver)
    assert list_jobs(prism, job) == {"RUNNING": 1}
    make_slow_worker(corpus, 0)  # for the next stage
    again = tokcore(*arguments)
    assert again.returncode == 0, again.stderr
    assert f"count: goes on with job {job.id} " in again.stderr
    assert list_jobs(prism, job) == {"DONE": 1}, "a second job was started"
    assert tree(corpus / "out") == tree(corpus / "local")


@pytest.mark.parametrize(("signal_number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_cancels_the_job(corpus, prism, signal_number, code):
    with Driver(corpus / "driver.log", *on_prism(prism, corpus, "--set", make_slow_worker(corpus, 30))) as driver:
        job = wait_for_job(driver)
        driver.process.send_signal(signal_number)
        assert driver.finish() == code, driver.told
    assert f"cancels job {job.id}" in driver.told
    assert list_jobs(prism, job) == {"CANCELLED": 1}


def test_detached_jobs_go_on(corpus, prism):
    arguments = on_prism(prism, corpus, "--detach", "--set", make_slow_worker(corpus, 20))
    with Driver(corpus / "driver.log", *arguments) as driver:
        job = wait_for_job(driver)
        driver.process.send_signal(signal.SIGTERM)
        assert driver.finish() == 143, driver.told
    assert f"job {job.id} goes on" in driver.told
    assert list_jobs(prism, job) == {"RUNNING": 1}
    wait_for(lambda: list_jobs(prism, job) == {"DONE": 1}, "the end of the job", lambda: str(list_jobs(prism, job)))


def test_jobs_are_named_by_output_and_identity():
    names = {
        make_job_name(Attempts(output, "shards", identity), step)
        for output in ("/a", "/b")
        for step in ("scatter", "gather")
        for identity in ("0" * 64, "1" * 64)
    }
    assert len(names) == 8


# -------------------------------------------------------------------------------------------------------------- errors


def test_an_error_keeps_its_class_in_a_traceback():
    def fail() -> None:
        raise LedgerError("b.runs: at byte 0: not the rows\nthat were written: é")

    with contextlib.suppress(LedgerError):
        run_here(fail)
    try:
        try:
            run_here(fail)
        except LedgerError as error:
            raise RuntimeError("an engine's own") from error
    except RuntimeError:
        text = traceback.format_exc()
    found = find_error(f"bundle failed:\n{text}\nand more")
    assert type(found) is LedgerError
    assert str(found) == "b.runs: at byte 0: not the rows\nthat were written: é"
    assert find_error("RuntimeError: no error of ours") is None
    assert type(find_error("tokcore-error FormatError eA==")) is FormatError
    assert type(find_error("tokcore-error Unknown eA==")) is StageError


def test_a_damaged_intermediate_file_heals_on_an_engine(corpus, prism):
    """As it does locally: nothing is committed, all records of the stage go, and the next run makes them again."""
    local = tokcore("build", corpus / "build.toml", "--output", corpus / "local")
    assert local.returncode == 0, local.stderr
    killed = tokcore("build", corpus / "build.toml", env={**os.environ, "TOKCORE_CRASH": "stage.worked"})
    assert killed.returncode == -signal.SIGKILL
    (attempts,) = (corpus / "out" / "_attempts").glob("counts-*")
    for record in (attempts / "done").glob("*"):
        if not record.name.startswith("counted-"):
            record.unlink()
    damaged = min((attempts / "files").glob("item-*.runs.*"))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    failed = tokcore(*on_prism(prism, corpus))
    assert failed.returncode == 3, failed.stderr
    assert f"{damaged.name}: at byte" in failed.stderr
    assert "Nothing was committed; run the command again to redo this stage" in failed.stderr
    healed = tokcore(*on_prism(prism, corpus))
    assert healed.returncode == 0, healed.stderr
    assert tree(corpus / "out") == tree(corpus / "local")
