"""Builds on a Flink cluster of several processes: equal bytes, work in the TaskManagers' workers, faults of each part.

By default each fault hits one step; `make flink-faults` has each hit all.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psutil
import pytest
from golden.test_demo import DEMO_ROOT
from support.builds import ROOT, build_file, jsonl, run, texts, tokcore, tree, write
from support.documents_together import CODE, leave_by_hand, list_texts, write_build
from support.drivers import LIMIT_S, Driver, telling
from support.flink import (
    JOB_MANAGER,
    JOB_SERVER,
    ONE_PROCESS,
    TASK_MANAGERS,
    FlinkCluster,
    find_flink,
    list_listeners,
)
from support.forging import damage, require_each_once
from support.gates import Gate

from tokcore_pipelines.local.engines import find_worker_program

NUM_FILES = 8


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with a local build of it, in `local`."""
    folder = tmp_path_factory.mktemp("corpus")
    for number in range(NUM_FILES):
        lang = ("en", "ru")[number % 2]
        write(folder / f"{lang}-{number}.jsonl", jsonl([{"text": text} for text in texts(lang, 20, number)]))
    sources = "".join(f'[[source]]\nlang = "{lang}"\nfiles = "{lang}-*.jsonl"\n' for lang in ("en", "ru"))
    build_file(folder, sources, "[plan]\nrange_bytes = 2000\n[learn]\nvocab_size = 300\n")
    run(folder / "build.toml", folder / "local")
    return folder


def read_processes(output: Path, stage: str) -> dict:
    return json.loads((output / stage / "run.json").read_bytes())


# ---------------------------------------------------------------------------------------------------- where the work is


def check_where_the_work_was(cluster: FlinkCluster, told: dict) -> None:
    """No worker is the driver or its descendant; each TaskManager's workers did at least a quarter of the items."""
    items: Counter[int] = Counter()
    for worker in told["processes"]:
        assert told["process"] not in (worker["process"], *worker["ancestors"])
        assert Path(worker["executable"]).name.startswith("python")
        assert worker["started"] > 0
        assert re.fullmatch(r"(localhost|127\.0\.0\.1):\d+", worker["serves"])
        (served,) = [one for one in TASK_MANAGERS if cluster.processes[one].pid in worker["ancestors"]]
        items[served] += worker["items"]
    assert set(items) == set(TASK_MANAGERS)
    assert min(items.values()) >= sum(items.values()) // 4, items  # the demo has few work items


def test_the_demo(cluster, tmp_path):
    num_before = {stage: len(cluster.list_jobs(stage)) for stage in ("count", "encode")}
    done = tokcore("build", "deploy/demo/build.toml", "--output", tmp_path / "out", *cluster.options, timeout=LIMIT_S)
    assert done.returncode == 0, f"{done.stderr}{cluster.describe()}"
    assert json.loads((tmp_path / "out/manifest.json").read_bytes())["root"] == DEMO_ROOT
    for stage, folder in (("count", "counts"), ("encode", "shards")):
        check_where_the_work_was(cluster, read_processes(tmp_path / "out", folder))
        (job,) = cluster.list_jobs(stage)[num_before[stage] :]
        assert cluster.read_parallelism(job["jid"]) >= 2
        assert cluster.count_task_managers(job["jid"]) == 2
        assert f"http://127.0.0.1:{cluster.rest}/#/job/{job['jid']}/overview" in done.stderr
    assert "5 work items, 477 records" in done.stdout, "what Beam measured"


def test_verification(cluster, corpus, tmp_path):
    """Sound; then with damaged files, each of which is named once, by a run that reads no more than these again."""
    output = Path(shutil.copytree(corpus / "local", tmp_path / "out"))
    base = ("--base", corpus, "--decode", "all")
    verify = ("verify", output, "--work", tmp_path / "work", "--json", *base, *cluster.options)
    done = tokcore(*verify, timeout=LIMIT_S)
    assert done.returncode == 0, f"{done.stderr}{cluster.describe()}"
    assert json.loads(done.stdout)["num_decoded"] == 20 * NUM_FILES
    damaged = damage(output, ["shards/arrow/*.arrow", "counts/*.parquet", "tokenizer/tokcore.json"])
    done = tokcore(*verify, timeout=LIMIT_S)
    assert done.returncode == 1, f"{done.stderr}{cluster.describe()}"
    require_each_once(json.loads(done.stdout)["problems"], damaged)


def test_documents_as_a_loop_leaves_them(cluster, tmp_path):
    """Metadata, attributes, [[map]], [mask], [[filter]] and [dedup] together: the bytes of a local build."""
    path = write_build(tmp_path, "text")
    environment = {**os.environ, "PYTHONPATH": str(CODE)}
    build = ("build", path, "--allow-code", "--output")
    done = tokcore(*build, tmp_path / "out", *cluster.options, timeout=LIMIT_S, env=environment)
    assert done.returncode == 0, f"{done.stderr}{cluster.describe()}"
    assert list_texts(tmp_path / "out") == leave_by_hand("text")[0]
    local = tokcore(*build, tmp_path / "local", env=environment)
    assert local.returncode == 0, local.stderr
    mine, theirs = (json.loads((tmp_path / name / "manifest.json").read_bytes()) for name in ("out", "local"))
    assert mine["root"] == theirs["root"]


def test_a_slot_has_a_worker_of_its_own(cluster, corpus, tmp_path):
    settings = [f"--set={one}" for one in cluster.assignments if one != ONE_PROCESS]
    command = ("count", corpus / "build.toml", "--output", tmp_path / "out", *settings, "--set=engine.parallelism=4")
    done = tokcore(*command, timeout=LIMIT_S)
    assert done.returncode == 0, f"{done.stderr}{cluster.describe()}"
    workers = Counter(worker["ancestors"][0] for worker in read_processes(tmp_path / "out", "counts")["processes"])
    # Of one worker for each TaskManager both would serve two slots. A slot that got no item has no worker to show.
    assert max(workers.values()) == 2, workers
    assert sum(workers.values()) > 2, workers


def test_transforms_in_a_pipeline_of_ones_own(cluster, tmp_path):
    """ReadDocuments, CountPretokens, EncodeDocuments and WriteShards, as the reader of the example runs them."""
    for number in range(2):
        lines = [line for text in texts("en", 10, number) for line in text.splitlines() if line]
        (tmp_path / f"{number}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    example = [sys.executable, str(ROOT / "deploy" / "examples" / "own_pipeline.py"), str(tmp_path / "*.txt")]
    environment = json.dumps({"command": find_worker_program()})
    engine = ["--runner=PortableRunner", f"--job_endpoint=127.0.0.1:{cluster.job_port}", "--parallelism=2"]
    engine += ["--environment_type=PROCESS", f"--environment_config={environment}"]
    for name, options in (("a", ["--runner=FnApiRunner"]), ("b", engine)):
        done = subprocess.run([*example, str(tmp_path / name), *options], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    for part in ("counts", "shards", "tokenizer"):
        assert tree(tmp_path / "a" / part) == tree(tmp_path / "b" / part)
    encoded = [
        sorted(line for path in (tmp_path / name).glob("tokens-*") for line in path.read_text().splitlines())
        for name in "ab"
    ]
    assert encoded[0] == encoded[1] != []


def test_sigterm_ends_the_cluster_of_make_flink():
    find_flink()
    command = [sys.executable, "tests/engines/flink/run.py", "--megabytes=1"]
    environment = {**os.environ, "PYTHONPATH": "tests"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment) as ran:
        try:
            assert any("a job server run" in line for line in ran.stdout)
            started = {one.pid for one in psutil.Process(ran.pid).children() if one.name() == "java"}
            assert len(started) == 4
        finally:
            ran.terminate()
        try:
            assert ran.wait(LIMIT_S) == 143
        finally:
            ran.kill()  # Popen's block waits for it without a limit
    assert not started & set(psutil.pids())


# --------------------------------------------------------------------------------------------------------------- faults


def kill_task_manager(cluster: FlinkCluster, driver: Driver, worker: int) -> None:
    above = psutil.Process(worker).ppid()
    served = [one for one in TASK_MANAGERS if cluster.processes[one].pid == above]
    assert served, f"worker {worker} is a process of {above}"
    cluster.kill(served[0])


def kill_worker(cluster: FlinkCluster, driver: Driver, worker: int) -> None:
    os.kill(worker, signal.SIGKILL)


def kill_job_manager(cluster: FlinkCluster, driver: Driver, worker: int) -> None:
    cluster.kill(JOB_MANAGER)


def kill_job_server(cluster: FlinkCluster, driver: Driver, worker: int) -> None:
    cluster.kill(JOB_SERVER)


def kill_driver(cluster: FlinkCluster, driver: Driver, worker: int) -> None:
    driver.process.kill()


FAULTS = (kill_task_manager, kill_worker, kill_job_manager, kill_job_server, kill_driver)
STEPS = ("count", "merge", "encode")
IS_REPEATED_BY_FLINK = (kill_task_manager, kill_worker)
if os.environ.get("TOKCORE_FLINK_FAULTS") == "all":
    CASES = tuple(itertools.product(FAULTS, STEPS))
else:
    CASES = tuple(zip(FAULTS, itertools.cycle(STEPS), strict=False))


@pytest.mark.parametrize(("fault", "step"), CASES, ids=lambda one: getattr(one, "__name__", one))
def test_a_fault(cluster, corpus, tmp_path, fault, step):
    """The bytes are those of a local build, and what is done again is at most what workers had in hand."""
    output = tmp_path / "out"
    stage, folder = ("encode", "shards") if step == "encode" else ("count", "counts")
    if stage == "encode":
        for command in ("count", "learn"):
            made = tokcore(command, corpus / "build.toml", "--output", output)
            assert made.returncode == 0, made.stderr
    num_before = len(cluster.list_jobs(stage))
    with contextlib.ExitStack() as ends:
        gate = ends.enter_context(Gate(tmp_path / "gate"))
        command = (stage, corpus / "build.toml", "--output", output, *cluster.options, "--set", gate.option)
        gate.hold(step, after=0 if step == "merge" else 2)
        driver = ends.enter_context(Driver(tmp_path / "driver.log", *command))
        ends.enter_context(telling(driver.describe, gate.describe, cluster.describe))
        worker = gate.wait_until_held(step, driver)
        check_listeners(cluster, driver)
        fault(cluster, driver, worker)
        if fault in IS_REPEATED_BY_FLINK:
            gate.release()
            assert driver.finish() == 0
        else:
            code = driver.finish()
            if fault is not kill_driver:
                assert code == 3
                assert "run the same command again" in driver.told
            cluster.start_dead_parts()
            if fault is kill_job_manager:
                gate.release()
                cluster.wait()
            else:
                cluster.wait_for_job_server()
                (left,) = cluster.list_jobs(stage)[num_before:]
                assert left["state"] == "RUNNING", left
            again = ends.enter_context(Driver(tmp_path / "again.log", *command))
            ends.enter_context(telling(again.describe))
            if fault is not kill_job_manager:
                line = again.wait_for_line(f"{stage}: ")
                assert line.startswith(f"{stage}: goes on with job ")
                assert fault is kill_driver or left["jid"] in line
                gate.release()
            assert again.finish() == 0
        jobs = cluster.list_jobs(stage)[0 if fault is kill_job_manager else num_before :]  # a new one knows no old jobs
        assert [job["state"] for job in jobs] == ["FINISHED"], "of several jobs, or of none"
        assert (cluster.read_attempts(jobs[0]["jid"]) >= 1) == (fault in IS_REPEATED_BY_FLINK)
    done = [worker["items"] for worker in read_processes(output, folder)["processes"]]
    assert abs(sum(done) - count_items(output)) <= 2, f"done again or lost, beyond what two workers had in hand: {done}"
    finished = tokcore("build", corpus / "build.toml", "--output", output)
    assert finished.returncode == 0, finished.stderr
    assert tree(output) == tree(corpus / "local")


def test_sigterm_cancels_the_job(cluster, corpus, tmp_path):
    """At Flink, too: its slots are free when the driver has ended, or soon after."""
    with Gate(tmp_path / "gate") as gate:
        gate.hold("count", after=2)
        command = ("count", corpus / "build.toml", "--output", tmp_path / "out", *cluster.options, "--set", gate.option)
        num_before = len(cluster.list_jobs("count"))
        with Driver(tmp_path / "driver.log", *command) as driver, telling(driver.describe, cluster.describe):
            gate.wait_until_held("count", driver)
            driver.process.terminate()
            assert driver.finish() == 143
            (job,) = cluster.list_jobs("count")[num_before:]
            assert job["state"] in ("CANCELLING", "CANCELED")


def check_listeners(cluster: FlinkCluster, driver: Driver) -> None:
    """What the driver, the cluster and its workers listen on is loopback: Python, and Java."""
    watched = {driver.process.pid}
    for part in cluster.processes.values():
        watched.add(part.pid)
        with contextlib.suppress(psutil.NoSuchProcess):
            watched.update(one.pid for one in psutil.Process(part.pid).children(True))
    found = list_listeners(watched)
    assert found
    others = [one for one in found if not re.match(r"127\.0\.0\.1:|\[?::ffff:127\.0\.0\.1\]?:|\[?::1\]?:", one)]
    assert not others, f"not on loopback: {others}"


def count_items(output: Path) -> int:
    return json.loads((output / "plan/manifest.json").read_bytes())["totals"]["items"]
