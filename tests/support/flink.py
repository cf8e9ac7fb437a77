"""A Flink cluster on the loopback interface: a JobManager, TaskManagers and Beam's job server, each a process.

The jars are what tests/engines/flink/pom.xml names, which `make servers` fetches from Maven Central.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from support.engines import find_free_port
from support.installed_servers import find_server

JOB_MANAGER, JOB_SERVER = "jobmanager", "jobserver"
TASK_MANAGERS = ("taskmanager-0", "taskmanager-1")
_MAINS = {
    JOB_MANAGER: "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint",
    JOB_SERVER: "org.apache.beam.runners.flink.FlinkJobServerDriver",
    **dict.fromkeys(TASK_MANAGERS, "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"),
}
# Flink 1.16 is for Java 11; Java 17 has to be told what it may look into.
_OPENED = ("lang", "lang.reflect", "net", "io", "nio", "text", "time", "util", "util.concurrent")
_JAVA = [
    "java",
    *("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
    *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED),
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
]
# A TaskManager that is started without Flink's own scripts wants every size. There are twice as many slots as a job of
# parallelism 2 takes, so one TaskManager can go on alone.
_SETTINGS = {
    "jobmanager.rpc.address": "127.0.0.1",
    "jobmanager.bind-host": "127.0.0.1",
    "jobmanager.memory.process.size": "1g",
    "rest.address": "127.0.0.1",
    "rest.bind-address": "127.0.0.1",
    "taskmanager.host": "127.0.0.1",
    "taskmanager.bind-host": "127.0.0.1",
    "taskmanager.numberOfTaskSlots": "2",
    "taskmanager.cpu.cores": "2",
    "taskmanager.memory.task.heap.size": "384m",
    "taskmanager.memory.task.off-heap.size": "0",
    "taskmanager.memory.framework.heap.size": "64m",
    "taskmanager.memory.framework.off-heap.size": "64m",
    "taskmanager.memory.managed.size": "64m",
    "taskmanager.memory.network.min": "64m",
    "taskmanager.memory.network.max": "64m",
    "taskmanager.memory.jvm-metaspace.size": "128m",
    "taskmanager.memory.jvm-overhead.min": "64m",
    "taskmanager.memory.jvm-overhead.max": "64m",
    "cluster.evenly-spread-out-slots": "true",
    "restart-strategy": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "5",
    "restart-strategy.fixed-delay.delay": "1 s",
    "heartbeat.interval": "2000",
    "heartbeat.timeout": "20000",
    # How long the job server waits for a JobManager that is gone.
    "rest.retry.max-attempts": "5",
    "rest.retry.delay": "1000",
}
_START_S = 240


class FlinkCluster:
    """Use it as a context: all processes end with the block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.rest, self.job_port = find_free_port(), find_free_port()
        settings = {**_SETTINGS, "rest.port": self.rest, "jobmanager.rpc.port": find_free_port()}
        settings["io.tmp.dirs"] = folder / "tmp"
        for name in ("conf", "tmp"):
            (folder / name).mkdir(parents=True)
        lines = "".join(f"{key}: {value}\n" for key, value in settings.items())
        (folder / "conf" / "flink-conf.yaml").write_text(lines)
        jars = find_server("flink.classpath", "Flink").read_text().strip()
        self._classpath = f"{find_server('flink-overlay', 'Flink')}:{jars}"
        self._loopback = find_server("loopback.so", "Flink")

    def __enter__(self) -> FlinkCluster:
        try:
            for name in (JOB_MANAGER, *TASK_MANAGERS, JOB_SERVER):
                self.start(name)
            self.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def start(self, name: str) -> None:
        """Start that part of the cluster; one that was killed may be started again."""
        if name == JOB_SERVER:
            arguments = [f"--flink-master=127.0.0.1:{self.rest}", f"--flink-conf-dir={self.folder / 'conf'}"]
            arguments += ["--job-host=127.0.0.1", f"--job-port={self.job_port}", "--artifact-port=0"]
            arguments += ["--expansion-port=0", f"--artifacts-dir={self.folder / 'tmp'}"]
        else:
            arguments = ["--configDir", str(self.folder / "conf")]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*_JAVA, "-cp", self._classpath, _MAINS[name], *arguments],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "LD_PRELOAD": str(self._loopback)},
            )

    def kill(self, name: str) -> None:
        """Kill that part with -9, and nothing else."""
        self.processes[name].kill()
        self.processes[name].wait()

    def wait(self) -> None:
        """Return when the job server listens and all slots of both TaskManagers are free."""
        self._wait(lambda: self._count_free() == (len(TASK_MANAGERS), 2 * len(TASK_MANAGERS)))
        self.wait_for_job_server()

    def wait_for_job_server(self) -> None:
        """Return when the job server listens."""
        self._wait(lambda: any(one.endswith(f":{self.job_port}") for one in list_listeners()))

    def _count_free(self) -> tuple[int, int]:
        told = self.ask("/overview")
        return told["taskmanagers"], told["slots-available"]

    def _wait(self, is_ready: Callable[[], bool]) -> None:
        end = time.monotonic() + _START_S
        while time.monotonic() < end:
            for name, process in self.processes.items():
                assert process.poll() is None, f"{name} has ended: {self.read_log(name)[-3000:]}"
            with contextlib.suppress(OSError):
                if is_ready():
                    return
            time.sleep(0.3)
        raise AssertionError(f"no cluster: {self.read_log(JOB_MANAGER)[-3000:]}")

    def read_log(self, name: str) -> str:
        """What that part has said."""
        return (self.folder / f"{name}.log").read_text()

    def ask(self, path: str) -> Any:
        """What Flink's REST interface answers."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.rest}{path}", timeout=20) as answer:
            return json.load(answer)

    def list_jobs(self, stage: str) -> list[dict[str, Any]]:
        """The jobs of a stage of ours, the first one first."""
        found = [job for job in self.ask("/jobs/overview")["jobs"] if job["name"].startswith(f"tokcore-{stage}-")]
        return sorted(found, key=lambda job: job["start-time"])

    def read_attempts(self, job: str) -> int:
        """The number of the last attempt of any piece of the job; 0 if none was repeated."""
        return max(one["attempt"] for one in self._list_subtasks(job))

    def count_task_managers(self, job: str) -> int:
        """How many TaskManagers the job's subtasks ran on."""
        return len({one["taskmanager-id"] for one in self._list_subtasks(job)})

    def read_parallelism(self, job: str) -> int:
        """The most subtasks that a vertex of the job has."""
        return max(vertex["parallelism"] for vertex in self.ask(f"/jobs/{job}")["vertices"])

    def _list_subtasks(self, job: str) -> Iterator[dict[str, Any]]:
        for vertex in self.ask(f"/jobs/{job}")["vertices"]:
            yield from self.ask(f"/jobs/{job}/vertices/{vertex['id']}")["subtasks"]

    @property
    def assignments(self) -> list[str]:
        """KEY=VALUE of a build file, for builds on this cluster."""
        places = [f"engine.endpoint=127.0.0.1:{self.job_port}", f"engine.web=127.0.0.1:{self.rest}"]
        return ["engine.name=flink", "engine.shared_filesystem=true", "engine.parallelism=2", *places]

    @property
    def options(self) -> list[str]:
        """The same, for a command line."""
        return [f"--set={one}" for one in self.assignments]


def list_listeners(processes: set[int] | None = None) -> list[str]:
    """ADDRESS:PORT of each TCP listener; only those of these processes, if any are named."""
    told = subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=True).stdout
    found = []
    for line in told.splitlines():
        ids = {int(one) for one in re.findall(r"pid=(\d+)", line)}
        if processes is None or ids & processes:
            found.append(line.split()[3])
    return found
