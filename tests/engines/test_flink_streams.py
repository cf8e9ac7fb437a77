"""`tokcore watch --streaming` on a Flink cluster of several processes, while parts of it are killed and it is stopped.

It takes minutes, so `make flink-faults` runs it; the short test of a stream is that on Prism.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.drivers import Driver, telling, wait_for
from support.flink import JOB_MANAGER, JOB_SERVER, TASK_MANAGERS, FlinkCluster
from support.streams import begin, land, require_exactly_once, wait_until_held

from tokcore_pipelines.build.read_log import read_log

pytestmark = pytest.mark.skipif(
    os.environ.get("TOKCORE_FLINK_FAULTS") != "all", reason="takes minutes: make flink-faults"
)

NUM_LANDED = 300
SEED = 17


class Following:
    """A stream of a small corpus, whose driver may be started again."""

    def __init__(self, cluster: FlinkCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.path = begin(folder)
        self.drivers: list[Driver] = []
        self._ends = contextlib.ExitStack()

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def drive(self) -> Driver:
        """Start a driver, and wait until it has a job."""
        checkpoints = f"--set=engine.checkpoints={self.folder / 'checkpoints'}"
        command = ("watch", self.path, "--output", self.folder / "out", "--streaming", checkpoints)
        driver = Driver(self.folder / f"driver-{len(self.drivers)}.log", *command, *self.cluster.options)
        self.drivers.append(self._ends.enter_context(driver))
        self._ends.enter_context(telling(driver.describe, self.cluster.describe))
        driver.wait_for_line("stream: ")
        wait_for(self._has_job, "a job of the stream", self.cluster.describe)  # not one of an earlier test
        return driver

    def _has_job(self) -> bool:
        return any(job["state"] == "RUNNING" for job in self.cluster.list_jobs("stream"))

    def land(self, *names: str, version: int = 0) -> None:
        for name in names:
            land(self.folder, name, version)

    def wait(self, *names: str) -> None:
        wait_until_held(self.path, self.drivers[-1], *names)

    def read_job(self) -> dict:
        """The newest job of the stream, as Flink shows it."""
        return self.cluster.list_jobs("stream")[-1]

    def count_commits(self) -> int:
        return read_log(str(self.folder / "out")).newest

    def wait_for_checkpoint(self) -> None:
        """Return when there is a checkpoint of the job, from now on."""
        job = self.read_job()["jid"]
        counts = lambda: self.cluster.ask(f"/jobs/{job}/checkpoints")["counts"]["completed"]  # noqa: E731
        before = counts()
        wait_for(lambda: counts() > before, "a checkpoint", self.cluster.describe)


@pytest.fixture
def following(cluster, tmp_path) -> Iterator[Following]:
    with Following(cluster, tmp_path) as one:
        yield one


def kill_task_managers(following: Following) -> None:
    """One after the other, while it works: Flink itself goes on from the last checkpoint."""
    before = len(following.drivers)
    for number, name in enumerate(TASK_MANAGERS):
        following.land(f"killed-{number}")
        following.cluster.kill(name)
        following.cluster.start(name)
        following.wait()
    assert len(following.drivers) == before
    assert following.drivers[-1].process.poll() is None


def kill_job_manager(following: Following) -> None:
    """Its jobs are lost with it: the same command begins one from the checkpoint that was retained."""
    following.cluster.kill(JOB_MANAGER)
    assert following.drivers[-1].finish() == 3
    assert "run the same command again" in following.drivers[-1].told
    following.cluster.start_dead_parts()
    following.cluster.wait()
    again = following.drive()
    assert "/chk-" in again.wait_for_line("stream: job ")


def kill_job_server(following: Following) -> None:
    """The job goes on, and the same command finds it."""
    job = following.read_job()["jid"]
    following.cluster.kill(JOB_SERVER)
    assert following.drivers[-1].finish() == 3
    following.cluster.start_dead_parts()
    following.cluster.wait_for_job_server()
    again = following.drive()
    assert f"stream: goes on with job {job}" in again.told


def kill_driver(following: Following) -> None:
    """The stream goes on without it."""
    following.drivers[-1].process.kill()
    following.drivers[-1].finish()
    following.land("alone")
    log = following.folder / "out" / "log"
    before = len(list(log.glob("*.json")))
    wait_for(lambda: len(list(log.glob("*.json"))) > before, "a commit without a driver", following.cluster.describe)
    again = following.drive()
    assert "stream: goes on with job " in again.told


def stop_with_savepoint(following: Following) -> None:
    """By Flink's own interface; the same command goes on from the savepoint."""
    (runs,) = (following.folder / "checkpoints").iterdir()
    run = max(runs.iterdir())
    body = {"targetDirectory": f"file://{run}/stopped", "drain": False}
    following.cluster.ask(f"/jobs/{following.read_job()['jid']}/stop", "POST", body)
    assert following.drivers[-1].finish() == 0
    assert following.read_job()["state"] == "FINISHED"
    following.land("between")
    again = following.drive()
    assert "/stopped/savepoint-" in again.wait_for_line("stream: job ")


FAULTS = (kill_task_managers, kill_job_manager, kill_job_server, kill_driver, stop_with_savepoint)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: one.__name__)
def test_a_fault(following: Following, fault: Callable[[Following], None]):
    """Nothing is lost or doubled, and the last drain ends cleanly."""
    following.drive()
    following.land(*"defghi")
    following.wait("d")
    following.wait_for_checkpoint()
    following.land("d", version=2)
    following.land("k", "l")
    time.sleep(1)  # so that they are somewhere on their way
    fault(following)
    following.land("a", version=3)
    following.land("m")
    following.wait()
    following.land("n")
    following.wait("n")
    driver = following.drivers[-1]
    driver.process.terminate()
    assert driver.finish() == 0
    assert "nothing is half done" in driver.told
    assert following.read_job()["state"] == "FINISHED"
    require_exactly_once(following.path)


def test_a_soak(following: Following):
    """Files that land for a while, late, twice and in new versions, while everything is killed, some of it twice."""
    chance = random.Random(SEED)
    following.drive()
    following.wait_for_checkpoint()
    faults = [kill_task_managers, kill_driver, kill_job_manager, kill_job_server, kill_job_manager]
    landed: list[str] = []
    stretch = NUM_LANDED // len(faults)
    for number in range(NUM_LANDED):
        name = f"soak-{number:04d}"
        following.land(name)
        landed.append(name)
        if chance.random() < 0.2:
            following.land(chance.choice(landed), version=number)
        if chance.random() < 0.1:
            os.utime(following.folder / f"en/{name}.jsonl", (number + 1, number + 1))  # it says that it is old
        if chance.random() < 0.1:
            path = following.folder / f"en/{chance.choice(landed)}.jsonl"
            path.write_bytes(path.read_bytes())
        time.sleep(0.1)
        if number % stretch == stretch // 2:
            faults.pop()(following)
    assert not faults
    following.wait()
    following.drivers[-1].process.terminate()
    assert following.drivers[-1].finish() == 0
    require_exactly_once(following.path)
    print(f"{NUM_LANDED} files, {len(following.drivers)} drivers, {following.count_commits()} commits")
