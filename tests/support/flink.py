"""A Flink cluster on the loopback interface: a JobManager, TaskManagers and Beam's job server, each a process.

The jars are what tests/engines/flink/pom.xml names, which `make servers` fetches from Maven Central.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from support.documents_together import CODE
from support.drivers import wait_for
from support.installed_servers import find_server, give_up

JOB_MANAGER, JOB_SERVER = "jobmanager", "jobserver"
# A job's two pieces of work at a time are on two TaskManagers; a worker less for each keeps tests short.
ONE_PROCESS = "engine.processes=1"
TASK_MANAGERS = ("taskmanager-0", "taskmanager-1")
_MAINS = {
    JOB_MANAGER: "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint",
    JOB_SERVER: "org.apache.beam.runners.flink.FlinkJobServerDriver",
    **dict.fromkeys(TASK_MANAGERS, "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"),
}
# Flink 1.19 is for Java 11; Java 17 has to be told what it may look into.
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
    # A job may begin again several times before it is known that a TaskManager is gone.
    "restart-strategy.fixed-delay.attempts": "30",
    "restart-strategy.fixed-delay.delay": "1 s",
    # That a process is dead shows after two heartbeats. The limits are for machines with much other work.
    "heartbeat.interval": "2000",
    "heartbeat.timeout": "60000",
    # A slot of a job whose JobManager is gone is free so long after that was noticed.
    "taskmanager.slot.timeout": "10 s",
    "pekko.ask.timeout": "60 s",
    # How long the job server waits for a JobManager that is gone.
    "rest.retry.max-attempts": "5",
    "rest.retry.delay": "1000",
}
_START_S = 600
_RECOVER_S = 120
_ANSWER_S = 60
_SHOWN = 3000  # characters of a log
_ENDED = ("FINISHED", "FAILED", "CANCELED")
# Below those that systems give to outgoing connections: a part that was killed finds its port free again.
_PORTS = range(15_000, 32_000)


def find_flink() -> tuple[str, Path]:
    """The class path of Flink, and what its processes load first. Without one of them or Java, the test is skipped."""
    jars, overlay, loopback = (
        find_server(name, "Flink") for name in ("flink.classpath", "flink-overlay", "loopback.so")
    )
    for program in ("java", "ss"):
        if shutil.which(program) is None:
            give_up(f"{program} is missing")
    return f"{overlay}:{jars.read_text().strip()}", loopback


class FlinkCluster:
    """Use it as a context: all processes end with the block."""

    def __init__(self, folder: Path) -> None:
        self._classpath, self._loopback = find_flink()
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._orphaned: list[int] = []  # process groups of parts that were killed; their workers may be alive
        self.rest, self.job_port, port = _find_ports(3)
        settings = {**_SETTINGS, "rest.port": self.rest, "jobmanager.rpc.port": port}
        settings["io.tmp.dirs"] = folder / "tmp"
        for name in ("conf", "tmp"):
            (folder / name).mkdir(parents=True)
        lines = "".join(f"{key}: {value}\n" for key, value in settings.items())
        (folder / "conf" / "flink-conf.yaml").write_text(lines)

    def __enter__(self) -> FlinkCluster:
        try:
            self._start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        self._orphaned += [process.pid for process in self.processes.values()]
        self._end_orphans()
        for process in self.processes.values():
            process.wait()

    def _start_all(self) -> None:
        for name in (JOB_MANAGER, *TASK_MANAGERS, JOB_SERVER):
            self.start(name)
        self.wait()

    def _end_orphans(self) -> None:
        for group in self._orphaned:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self._orphaned.clear()

    def recover(self) -> None:
        """Make it as it was at first, whatever a test left: all parts run, no job does, and all slots are free."""
        self._end_orphans()
        self.start_dead_parts()
        try:
            self._wait(self._cancel_jobs, _RECOVER_S)
            self.wait(_RECOVER_S)
        except AssertionError:
            self.__exit__()
            self._start_all()

    def start_dead_parts(self) -> None:
        """Start the parts that have ended."""
        for name, process in list(self.processes.items()):
            if process.poll() is not None:
                self.start(name)

    def _cancel_jobs(self) -> bool:
        alive = [job["jid"] for job in self.ask("/jobs/overview")["jobs"] if job["state"] not in _ENDED]
        for job in alive:
            self.ask(f"/jobs/{job}?mode=cancel", "PATCH")
        return not alive

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
                # Its workers find the step of [[map]] that a test has.
                env={**os.environ, "LD_PRELOAD": str(self._loopback), "PYTHONPATH": str(CODE)},
            )

    def kill(self, name: str) -> None:
        """Kill that part with -9, and nothing else."""
        self.processes[name].kill()
        self.processes[name].wait()
        self._orphaned.append(self.processes[name].pid)

    def wait(self, limit_s: float = _START_S) -> None:
        """Return when the job server listens and all slots of both TaskManagers are free."""
        self._wait(lambda: self._count_free() == (len(TASK_MANAGERS), 2 * len(TASK_MANAGERS)), limit_s)
        self.wait_for_job_server(limit_s)

    def wait_for_job_server(self, limit_s: float = _START_S) -> None:
        """Return when the job server listens."""
        self._wait(lambda: any(one.endswith(f":{self.job_port}") for one in list_listeners()), limit_s)

    def _count_free(self) -> tuple[int, int]:
        told = self.ask("/overview")
        return told["taskmanagers"], told["slots-available"]

    def _wait(self, is_ready: Callable[[], bool], limit_s: float) -> None:
        def find() -> bool:
            for name, process in self.processes.items():
                assert process.poll() is None, f"{name} has ended. {self.describe()}"
            with contextlib.suppress(OSError):
                return is_ready()
            return False

        wait_for(find, "the cluster", self.describe, limit_s)

    def describe(self) -> str:
        """For messages: its parts, slots and jobs, why jobs failed, and the end of each log."""
        lines = []
        for name, process in self.processes.items():
            code = process.poll()
            lines.append(f"{name}: {'runs' if code is None else f'ended with exit code {code}'}")
        try:
            lines.append(f"taskmanagers, free slots: {self._count_free()}")
            for job in self.ask("/jobs/overview")["jobs"]:
                lines.append(f"job {job['jid']} ({job['name']}): {job['state']}")
                if job["state"] != "FINISHED":
                    failure = self.ask(f"/jobs/{job['jid']}/exceptions").get("root-exception")
                    lines.append(f"its last failure: {str(failure)[:_SHOWN]}")
        except (OSError, LookupError) as error:
            lines.append(f"Flink does not say more ({error})")
        lines += [f"--- end of the log of {name}:\n{self.read_log(name)[-_SHOWN:]}" for name in self.processes]
        return "\n".join(["the cluster:", *lines])

    def read_log(self, name: str) -> str:
        """What that part has said."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def ask(self, path: str, method: str = "GET", body: Any = None) -> Any:
        """What Flink's REST interface answers. body: to be sent as JSON."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.rest}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:
            return json.loads(answer.read() or b"{}")

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
        return ["engine.name=flink", "engine.shared_filesystem=true", "engine.parallelism=2", ONE_PROCESS, *places]

    @property
    def options(self) -> list[str]:
        """The same, for a command line."""
        return [f"--set={one}" for one in self.assignments]


def _find_ports(num: int) -> list[int]:
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == num:
            return found
    raise AssertionError("no free ports")


def list_listeners(processes: set[int] | None = None) -> list[str]:
    """ADDRESS:PORT of each TCP listener; only those of these processes, if any are named."""
    told = subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=True).stdout
    found = []
    for line in told.splitlines():
        ids = {int(one) for one in re.findall(r"pid=(\d+)", line)}
        if processes is None or ids & processes:
            found.append(line.split()[3])
    return found
