"""Builds on Dataflow: on a fake of the service that runs them, with workers in processes and files in a store."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from stores.files import put, read, tree
from stores.servers import Store
from support.builds import ROOT, jsonl, texts, tokcore, write
from support.dataflow import IMAGE, PROJECT, REGION, FakeDataflow, FakeJob, start_dataflow
from support.drivers import Driver, telling, wait_for
from support.forging import require_each_once

from tokcore_pipelines.local.engines import find_worker_program

BUILD = """
version = 1
[build]
output = "out"
max_rejected = 0.5
[[source]]
lang = "en"
files = "*.jsonl"
[plan]
range_bytes = 3000
[learn]
vocab_size = 300
"""
DOCUMENTS = jsonl([{"text": text} for text in texts("en", 40)]) + b"no json\n"


@pytest.fixture(scope="module")
def _dataflow(_gcs: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeDataflow]:
    with start_dataflow(_gcs, tmp_path_factory.mktemp("dataflow") / "prism.log") as service:
        yield service


@pytest.fixture
def dataflow(_dataflow: FakeDataflow, gcs: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDataflow]:
    for name, value in gcs.environment.items():
        monkeypatch.setenv(name, value)
    _dataflow.jobs.clear()
    _dataflow.requests.clear()
    _dataflow.worker = find_worker_program()
    yield _dataflow
    _dataflow.refusals.clear()


@pytest.fixture
def folder(gcs: Store) -> str:
    """URL of a corpus and its build file."""
    folder = gcs.fresh()
    put(gcs, f"{folder}/en.jsonl", DOCUMENTS)
    engine = (
        f'name = "dataflow"\nproject = "{PROJECT}"\nregion = "{REGION}"\nimage = "{IMAGE}"\nlabels = ["team=nlp"]\n'
    )
    settings = f'[engine]\n{engine}staging = "{gcs.root}/staging"\nmax_workers = 7\nsubnetwork = "{SUBNETWORK}"\n'
    put(gcs, f"{folder}/build.toml", f"{BUILD}{settings}".encode())
    return folder


SUBNETWORK = f"regions/{REGION}/subnetworks/workers"


def on(service: FakeDataflow, folder: str, *more: str, command: str = "count") -> list[str]:
    return [command, f"{folder}/build.toml", *more, "--", *service.options]


def build_here(tmp_path: Path) -> dict[str, object]:
    """The manifest that the same files give on this machine."""
    write(tmp_path / "en.jsonl", DOCUMENTS)
    (tmp_path / "build.toml").write_text(BUILD)
    done = tokcore("build", tmp_path / "build.toml")
    assert done.returncode == 0, done.stderr
    return dict(json.loads((tmp_path / "out" / "manifest.json").read_bytes()))


def make_slow_worker(tmp_path: Path, seconds: int) -> Path:
    """A worker program that takes long to start, so that a job lasts."""
    path = tmp_path / "slow-worker"
    path.write_text(f'#!/bin/sh\nsleep {seconds}\nexec {find_worker_program()} "$@"\n')
    path.chmod(0o755)
    return path


def test_a_build(dataflow: FakeDataflow, gcs: Store, folder: str, tmp_path: Path) -> None:
    """Equal bytes; what was asked of the service; what it measured; nothing for workers to fetch."""
    done = tokcore(*on(dataflow, folder, "--json", command="build"), timeout=600)
    assert done.returncode == 0, done.stderr
    assert json.loads(read(gcs, f"{folder}/out/manifest.json"))["root"] == build_here(tmp_path)["root"]
    told = json.loads(done.stdout)
    for stage in ("count", "encode"):
        # Prism may miss what a bundle adds to a counter that is new to it; it never adds too much.
        assert 0 < told["metrics"][stage]["documents"] <= 40
    count, learn, encode = dataflow.jobs
    for job in dataflow.jobs:
        assert job.image == IMAGE
        assert job.pool["ipConfiguration"] in ("WORKER_IP_PRIVATE", 2)
        assert (job.pool["subnetwork"], job.submitted["labels"]) == (SUBNETWORK, {"team": "nlp"})
        assert not job.pool.get("packages")
        assert job.graph_bytes < 100_000
    assert [job.name.split("-")[1] for job in dataflow.jobs] == ["count", "learn", "encode"]
    assert {(job.pool["machineType"], job.pool["autoscalingSettings"]["maxNumWorkers"]) for job in (count, encode)} == {
        ("n2-standard-4", 7)
    }
    assert (learn.pool["machineType"], learn.pool["numWorkers"]) == ("n2-highmem-2", 1)
    assert "no_use_multiple_sdk_containers" in learn.submitted["environment"]["experiments"]
    assert "learn: needs about 0.4 GB of memory, on one n2-highmem-2" in done.stderr
    page = f"https://console.cloud.google.com/dataflow/jobs/{REGION}/{count.id}?project={PROJECT}"
    assert f"job {count.id}: {page}" in done.stderr
    assert re.search(rf"count: job {count.id} \(tokcore-count-[0-9a-f]{{16}}\) at Dataflow \({PROJECT}", done.stderr)


def test_verification(dataflow: FakeDataflow, gcs: Store, folder: str, tmp_path: Path) -> None:
    """Of what is sound, and of what is not. Nothing but the engine is set: an output has no build file."""
    put(gcs, f"{folder}/local.toml", BUILD.encode())
    done = tokcore("build", f"{folder}/local.toml", timeout=600)
    assert done.returncode == 0, done.stderr
    settings = {"project": PROJECT, "region": REGION, "image": IMAGE, "staging": f"{gcs.root}/staging"}
    engine = ("--engine=dataflow", *(f"--set=engine.{key}={value}" for key, value in settings.items()))
    verify = ("verify", f"{folder}/out", "--work", f"{folder}/work", "--json", *engine, "--", *dataflow.options)
    done = tokcore(*verify, timeout=600)
    assert done.returncode == 0, done.stderr
    assert {job.name.split("-")[1] for job in dataflow.jobs} == {"verify"}
    path = min(name for name in tree(gcs, f"{folder}/out") if name.endswith(".arrow"))
    data = bytearray(read(gcs, f"{folder}/out/{path}"))
    data[len(data) // 2] ^= 1
    put(gcs, f"{folder}/out/{path}", bytes(data))
    done = tokcore(*verify, timeout=600)
    assert done.returncode == 1, done.stderr
    require_each_once(json.loads(done.stdout)["problems"], [path])


# ------------------------------------------------------------------------------------------- jobs that outlive drivers


def wait_for_job(driver: Driver) -> str:
    found = re.match(r"count: job (\S+) \(tokcore-count-\w+\) at ", driver.wait_for_line("count: job "))
    assert found
    return found[1]


@pytest.mark.parametrize("num_blind", [0, 1], ids=["found", "submitted-at-the-same-time"])
def test_a_job_that_a_killed_driver_left_is_gone_on_with(dataflow, folder, tmp_path, num_blind):
    """Also if it shows only when another is submitted: the service has one job of a name."""
    dataflow.worker = make_slow_worker(tmp_path, 10)
    with Driver(tmp_path / "driver.log", *on(dataflow, folder)) as driver:
        job = wait_for_job(driver)
    assert dataflow.find(job).state in ("PENDING", "RUNNING")
    dataflow.num_blind = num_blind
    again = tokcore(*on(dataflow, folder), timeout=600)
    assert again.returncode == 0, again.stderr
    assert f"count: goes on with job {job} (tokcore-count-" in again.stderr
    assert [job.state for job in dataflow.jobs] == ["DONE"], "a second job was started"


@pytest.mark.parametrize(("signal_number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_cancels_the_job(dataflow, folder, tmp_path, signal_number, code):
    dataflow.worker = make_slow_worker(tmp_path, 60)
    with Driver(tmp_path / "driver.log", *on(dataflow, folder)) as driver:
        job = wait_for_job(driver)
        driver.process.send_signal(signal_number)
        assert driver.finish() == code, driver.told
    assert f"cancels job {job} at Dataflow" in driver.told
    assert [job.state for job in dataflow.jobs] == ["CANCELLED"]


def test_detached_jobs_go_on(dataflow, folder, tmp_path):
    dataflow.worker = make_slow_worker(tmp_path, 10)
    with Driver(tmp_path / "driver.log", *on(dataflow, folder, "--detach")) as driver:
        job = wait_for_job(driver)
        driver.process.send_signal(signal.SIGTERM)
        assert driver.finish() == 143, driver.told
    assert f"job {job} goes on at Dataflow" in driver.told
    told = dataflow.find(job)
    wait_for(lambda: told.state == "DONE", "the end of the job", lambda: told.state)


# -------------------------------------------------------------------------------------------------------------- errors


def test_what_goes_wrong_is_said_in_lines(dataflow, gcs, folder, tmp_path):
    """A worker of another release; then a job that fails, after warnings. Each error is one line, and a rerun heals."""
    other = tmp_path / "other-release"
    other.write_text(
        f"#!{sys.executable}\nimport tokcore\ntokcore.__version__ = '0.0.1'\n"
        "from tokcore_pipelines.run.engines.boot_worker import main\nmain()\n"
    )
    other.chmod(0o755)
    dataflow.worker = other
    done = tokcore(*on(dataflow, folder), timeout=600)
    assert done.returncode == 2, done.stderr
    assert "error: a worker refused to start on host" in done.stderr
    assert "this worker is tokcore 0.0.1" in done.stderr
    dataflow.worker = make_slow_worker(tmp_path, 10)
    with Driver(tmp_path / "driver.log", *on(dataflow, folder)) as driver:
        job = dataflow.find(wait_for_job(driver))
        job.messages.append(("WARNING", "Worker pool: quota of CPUS exceeded"))
        driver.wait_for_line(f"warning: job {job.id}: Worker pool: quota of CPUS exceeded")
        job.messages.append(("ERROR", "Traceback (most recent call last):\n  File 'x'\nOSError: disk is full\n"))
        job.state = "FAILED"
        assert driver.finish() == 3, driver.told
    last = driver.told.splitlines()[-1]
    assert last.startswith(f"error: job {job.id} at Dataflow ({PROJECT}, {REGION}) ended FAILED: OSError: disk is full")
    kept = re.search(r"all of it: (\S+)\)", last)
    assert kept
    assert "File 'x'" in read(gcs, kept[1]).decode()
    dataflow.worker = find_worker_program()
    assert tokcore(*on(dataflow, folder), timeout=600).returncode == 0


def test_a_refusal_of_the_service_names_the_fix(dataflow, folder):
    dataflow.refusals.append((403, "no, because of reasons"))
    done = tokcore(*on(dataflow, folder), timeout=600)
    assert done.returncode == 2, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"error: Dataflow ({PROJECT}, {REGION}) refuses (403 ")
    assert "no, because of reasons" in last
    assert "Enable the Dataflow API; the account that runs this needs roles/dataflow.developer" in last
    assert not dataflow.jobs


@pytest.mark.parametrize("command", ["build", "count", "learn", "encode"])
def test_a_bucket_for_staging_that_is_not_there(dataflow, folder, command):
    """Said at once, by each command that submits a job."""
    done = tokcore(*on(dataflow, folder, "--set", "engine.staging=gs://not-there/staging", command=command))
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: engine.staging = gs://not-there/staging: ")
    assert done.stderr.endswith("Make the bucket, or name one that is there\n")
    assert not dataflow.jobs


@pytest.mark.usefixtures("dataflow")
def test_check_looks_at_the_bucket_for_staging(folder):
    assert tokcore("check", f"{folder}/build.toml").returncode == 0
    done = tokcore("check", f"{folder}/build.toml", "--set", "engine.staging=gs://not-there/staging")
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: engine.staging = gs://not-there/staging: ")


# -------------------------------------------------------------------------------------------------------------- streams


def test_a_stream(dataflow, gcs, folder, tmp_path):
    """Workers commit what lands; SIGTERM has Dataflow drain the job."""
    build_here(tmp_path)
    watch = [f"--set=watch.{key}" for key in ("poll_seconds=0.5", "settle_seconds=0", "batch_seconds=1", "listen=")]
    begin = ["--streaming", f"--tokenizer={tmp_path}/out/tokenizer/tokcore.json", "--set=watch.drain_seconds=300"]
    command = on(dataflow, folder, *begin, *watch, command="watch")
    with Driver(tmp_path / "driver.log", *command) as driver, telling(driver.describe):
        assert driver.wait_for_line("commit 1: ").startswith("commit 1: files 1 new, 40 documents")
        put(gcs, f"{folder}/en.jsonl", jsonl([{"text": text} for text in texts("en", 50, 2)]))
        assert driver.wait_for_line("commit 2: ").startswith("commit 2: files 1 changed, 50 documents")
        driver.process.terminate()
        assert driver.finish() == 0
    (job,) = dataflow.jobs
    assert job.state == "DRAINED"
    assert re.fullmatch(r"tokcore-stream-[0-9a-f]{16}", job.name)
    assert job.submitted["type"] in ("JOB_TYPE_STREAMING", 2)
    assert json.loads(read(gcs, f"{folder}/out/log/2.json"))["totals"]["documents"] == 50


def find_commit(store: Store, folder: str, number: int) -> dict | None:
    """A commit of the output, None until it is there."""
    with contextlib.suppress(FileNotFoundError):
        return json.loads(read(store, f"{folder}/out/log/{number}.json"))
    return None


# ----------------------------------------------------------------------------------------------------------- templates


def launch(dataflow: FakeDataflow, gcs: Store, folder: str, stage: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run our launcher as Google's does: parameters of the template, then options for Beam."""
    parameters = [f"--stage={stage}", f"--build_file={folder}/build.toml", f"--sdk_container_image={IMAGE}", *more]
    for_launcher = [
        *("--runner=DataflowRunner", f"--project={PROJECT}", f"--region={REGION}", f"--temp_location={gcs.root}/temp"),
        *("--job_name=my-own-name", f"--template_location={folder}/{stage}.json", *dataflow.options),
    ]
    command = [sys.executable, str(ROOT / "deploy" / "dataflow" / "launch.py"), *parameters, *for_launcher]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)


def start_template(dataflow: FakeDataflow, gcs: Store, folder: str, stage: str, *more: str) -> FakeJob:
    """The job that Google's launcher starts from what ours wrote, under a name of its own."""
    num_jobs = len(dataflow.jobs)
    done = launch(dataflow, gcs, folder, stage, *more)
    assert done.returncode == 0, done.stderr
    assert f": wrote {folder}/{stage}.json; nothing was started" in done.stderr
    assert len(dataflow.jobs) == num_jobs
    job = dataflow.create(json.loads(read(gcs, f"{folder}/{stage}.json")))
    assert (job.name, job.pool["machineType"]) == ("my-own-name", "n2-standard-4")
    return job


def test_templates_write_jobs_that_a_driver_goes_on_with(dataflow, gcs, folder, tmp_path):
    """The runbook's order: a template of each stage and its command, with `tokcore learn` between; the root is ours."""
    for stage in ("count", "encode"):
        dataflow.worker = make_slow_worker(tmp_path, 15)
        job = start_template(dataflow, gcs, folder, stage)
        done = tokcore(*on(dataflow, folder, command=stage), timeout=600)
        assert done.returncode == 0, done.stderr
        assert f"{stage}: goes on with job {job.id} (my-own-name)" in done.stderr
        assert job.state == "DONE"
        done = launch(dataflow, gcs, folder, stage)
        assert done.returncode == 2, done.stderr
        assert done.stderr.endswith(f"error: {stage}: is done already, so there is nothing to start\n")
        if stage == "count":
            done = launch(dataflow, gcs, folder, "encode")
            assert (done.returncode, "tokcore learn" in done.stderr) == (2, True), done.stderr
            dataflow.worker = find_worker_program()
            assert tokcore(*on(dataflow, folder, command="learn"), timeout=600).returncode == 0
    assert [one.name.split("-")[1] for one in dataflow.jobs] == ["own", "learn", "own"]
    done = tokcore(*on(dataflow, folder, command="build"), timeout=600)
    assert done.returncode == 0, done.stderr
    assert len(dataflow.jobs) == 3, "the stages are made"
    assert json.loads(read(gcs, f"{folder}/out/manifest.json"))["root"] == build_here(tmp_path)["root"]


def test_a_template_of_a_stream(dataflow, gcs, folder, tmp_path):
    """The launcher begins the output; the job commits what lands until it is drained, and a driver finds it."""
    build_here(tmp_path)
    put(gcs, f"{folder}/tokcore.json", (tmp_path / "out" / "tokenizer" / "tokcore.json").read_bytes())
    text = read(gcs, f"{folder}/build.toml").decode().replace("[learn]\nvocab_size = 300\n", "")
    named = f'[tokenizer]\nfrom = "{folder}/tokcore.json"\n'
    watch = '[watch]\npoll_seconds = 0.5\nsettle_seconds = 0\nbatch_seconds = 1\nlisten = ""\ndrain_seconds = 300\n'
    put(gcs, f"{folder}/build.toml", f"{text}{named}{watch}".encode())
    job = start_template(dataflow, gcs, folder, "watch")
    assert job.submitted["type"] in ("JOB_TYPE_STREAMING", 2)
    command = on(dataflow, folder, "--streaming", command="watch")
    with Driver(tmp_path / "driver.log", *command) as driver, telling(driver.describe):
        driver.wait_for_line("stream: goes on with job")
        # The job may have made it before there was a driver to tell it.
        assert wait_for(lambda: find_commit(gcs, folder, 1), "commit 1", driver.describe)["totals"]["documents"] == 40
        put(gcs, f"{folder}/en.jsonl", jsonl([{"text": text} for text in texts("en", 50, 2)]))
        assert driver.wait_for_line("commit 2: ").startswith("commit 2: files 1 changed, 50 documents")
        driver.process.terminate()
        assert driver.finish() == 0
    assert [(one.id, one.state) for one in dataflow.jobs] == [(job.id, "DRAINED")]
