"""Runs commands in children of a server that has imported everything. A small build takes a quarter of the time that a
new process takes. The workers of a command and of a test's own builds are children of the server, too.

`run_command` is the client, `start_command` one that does not wait. Over a socket, they send the arguments and the
files that become the child's standard input, output and error. They get two lines: the child's process id, and then its
exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import itertools
import json
import os
import pkgutil
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

TESTS = Path(__file__).parents[1]
# What commands import only when they need it, so that they start faster. Of the folders: all their modules.
_MODULES = (
    "encodings.utf_8_sig",
    "fsspec.implementations.local",
    "tokcore_pipelines.run.beam",
    "tokcore_pipelines.run.engines.runner",
    "pyarrow.dataset",
    "tokcore._native",
)
_FOLDERS = (
    "",
    "begin",
    "build",
    "check",
    "commands",
    "history",
    "local",
    "look",
    "look.report",
    "look.view",
    "reading",
    "run.slices",
    "store",
    "watch",
    "work",
)
_LENGTH = struct.Struct("<Q")
# A child heeds TOKCORE_CRASH, nothing of ours reads pytest's, and whoever opens a gs:// URL sets the rest.
_HARMLESS = {"TOKCORE_CRASH", "PYTEST_CURRENT_TEST", "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "NO_GCE_CHECK"}
# What says where a store is, and with which keys -> the library that reads it, when a store is opened, not when it is
# imported. The server imports it before it forks the first child that has the variable.
_OF_STORES = {
    "AWS_ACCESS_KEY_ID": "s3fs",
    "AWS_CONFIG_FILE": "s3fs",
    "AWS_DEFAULT_REGION": "s3fs",
    "AWS_EC2_METADATA_DISABLED": "s3fs",
    "AWS_ENDPOINT_URL": "s3fs",
    "AWS_SECRET_ACCESS_KEY": "s3fs",
    "AWS_SHARED_CREDENTIALS_FILE": "s3fs",
    "AZURE_STORAGE_CONNECTION_STRING": "adlfs",
    "GOOGLE_CLOUD_PROJECT": "gcsfs",
    "STORAGE_EMULATOR_HOST": "gcsfs",
}
_environment = dict(os.environ)  # of the server
_servers: list[int] = []  # the process, once it runs
_led = 0  # in a child: its process group, if it leads one


def run_command(
    arguments: Sequence[str], cwd: str | Path, given: str, environment: Mapping[str, str], timeout: float | None
) -> tuple[int, str, str]:
    """The exit code of the command line, and what it wrote to standard output and to standard error.

    given: its standard input. environment: one that can_serve() allows. Raises subprocess.TimeoutExpired. Any number of
    threads may call it.
    """
    with tempfile.TemporaryFile() as read, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        read.write(given.encode())
        read.seek(0)
        request = {"role": "command", "arguments": arguments, "cwd": str(cwd), "environment": dict(environment)}
        child = _Child(_start(), request, [read.fileno(), out.fileno(), error.fileno()])
        try:
            code = child.wait(timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise
        said = []
        for file in (out, error):
            file.seek(0)
            said.append(file.read().decode())
    return code, said[0], said[1]


def start_command(
    arguments: Sequence[str], cwd: str | Path, environment: Mapping[str, str], out: int, error: int
) -> subprocess.Popen[Any] | Command:
    """The command line as a process that leads a group, in which its workers are, too.

    out, error: files, which the caller may close afterwards.
    """
    if can_serve(environment):
        return Command(arguments, cwd, environment, out, error)
    command = [sys.executable, "-m", "tokcore_pipelines.cli", *arguments]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=out, stderr=error, cwd=cwd, env=environment, start_new_session=True
    )


class _Child:
    """A child of the server, used as subprocess.Popen is for a new process."""

    def __init__(self, server: str, request: Mapping[str, Any], files: Sequence[int]) -> None:
        """files: for the child. The caller may close them afterwards."""
        sent = json.dumps(request).encode()
        self._told = request
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(server)
        socket.send_fds(self._server, [_LENGTH.pack(len(sent))], files)
        self._server.sendall(sent)
        self._read = b""
        self._waiting = threading.Lock()
        self.pid = self._read_number(None)
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it ends at this moment, and the server has not said so yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises subprocess.TimeoutExpired."""
        with self._waiting:
            if self.returncode is None:
                self.returncode = self._read_number(timeout)
                self._server.close()
            return self.returncode

    def _read_number(self, timeout: float | None) -> int:
        """The next line of the server's."""
        until = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self._read:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not select.select([self._server], [], [], left)[0]:
                raise subprocess.TimeoutExpired(str(self._told), timeout or 0)
            if not (data := self._server.recv(64)):
                raise RuntimeError("the server of commands has ended")
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        return int(line)


class Command(_Child):
    """A command that runs while a test goes on; see start_command()."""

    def __init__(
        self, arguments: Sequence[str], cwd: str | Path, environment: Mapping[str, str], out: int, error: int
    ) -> None:
        told = {"role": "command", "arguments": arguments, "cwd": str(cwd), "environment": dict(environment)}
        with Path(os.devnull).open() as given:
            super().__init__(_start(), {**told, "leads": True}, [given.fileno(), out, error])


class _Worker(_Child):
    """A worker of the pool, as tokcore_pipelines.local.pool starts it."""

    def __init__(
        self, server: str, command: Sequence[str], pass_fds: tuple[int], env: Mapping[str, str], **_: Any
    ) -> None:
        (lifeline,) = pass_fds
        (read, write), (answers, answer) = os.pipe(), os.pipe()
        modules = command[command.index(str(lifeline)) + 1 :]
        request = {"role": "worker", "modules": modules, "cwd": str(Path.cwd()), "environment": dict(env)}
        super().__init__(server, {**request, "group": _led}, [read, answer, 2, lifeline])
        os.close(read)
        os.close(answer)
        self.stdin, self.stdout = os.fdopen(write, "wb", 0), os.fdopen(answers, "rb", 0)


def can_serve(environment: Mapping[str, str]) -> bool:
    """Whether a child of the server does what a new process would do."""
    return not find_changes(environment)


def find_changes(environment: Mapping[str, str]) -> set[str]:
    """The variables that differ from the server's. Its modules may have read them when they were imported."""
    return {name for name, _ in environment.items() ^ _environment.items()} - _HARMLESS - _OF_STORES.keys()


def take_environment() -> None:
    """Let the server, which has not started, have the environment as it is now."""
    _environment.clear()
    _environment.update(os.environ)


@contextlib.contextmanager
def serving_workers() -> Iterator[None]:
    """While the block runs, the workers of this process's pools are children of the server if can_serve() allows it."""
    from tokcore_pipelines.local import pool

    def start(command: Sequence[str], **told: Any) -> Any:
        return _Worker(_start(), command, **told) if can_serve(os.environ) else subprocess.Popen(command, **told)

    with mock.patch.object(pool, "subprocess", SimpleNamespace(Popen=start, PIPE=subprocess.PIPE)):
        yield


def read_cpu_seconds() -> float:
    """What the server and its children that have ended have used; 0 where the system does not say."""
    try:
        told = [Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[11:15] for server in _servers]
    except OSError:
        return 0.0
    return sum(map(int, itertools.chain.from_iterable(told))) / os.sysconf("SC_CLK_TCK")


@functools.cache
def _start() -> str:
    """Start the server, which ends with this process. Returns the path of its socket."""
    folder = Path(tempfile.mkdtemp())
    path = str(folder / "socket")
    environment = {**_environment, "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])}
    command = [sys.executable, "-m", "support.command_server", path]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    _servers.append(process.pid)

    def end() -> None:
        process.communicate()
        folder.rmdir()

    atexit.register(end)
    return path


def import_all() -> None:
    """Import what any command does."""
    importlib.import_module("tokcore_pipelines.cli")  # first: it sets what numpy reads
    for name in _MODULES:
        importlib.import_module(name)
    for folder in (importlib.import_module(f"tokcore_pipelines.{name}".rstrip(".")) for name in _FOLDERS):
        for found in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
            importlib.import_module(found.name)


def serve(path: str) -> None:
    """Fork a child for each connection; end when standard input ends."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # a pool starts its first worker, and so this, with some blocked
    import_all()
    gc.collect()
    gc.freeze()
    read, write = os.pipe()  # SIGCHLD writes a byte, which wakes select()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: dict[int, socket.socket] = {}
    with socket.socket(socket.AF_UNIX) as listening, selectors.DefaultSelector() as waiting:
        listening.bind(path)
        listening.listen()
        for one in (0, listening, read):
            waiting.register(one, selectors.EVENT_READ)
        print("ready", flush=True)
        while True:
            ready = {key.fileobj for key, _ in waiting.select()}
            if read in ready:
                os.read(read, 1 << 16)
                _tell_ends(children)
            if 0 in ready and not os.read(0, 1 << 16):
                break
            if listening in ready:
                client, _ = listening.accept()
                pid = _fork(client)
                children[pid] = client
                _tell(client, pid)
    Path(path).unlink()


def _tell_ends(children: dict[int, socket.socket]) -> None:
    for pid in list(children):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with children.pop(pid) as client:
                _tell(client, os.waitstatus_to_exitcode(status))


def _tell(client: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # a command may end before its workers
        client.sendall(b"%d\n" % number)


def _fork(client: socket.socket) -> int:
    header, files, *_ = socket.recv_fds(client, _LENGTH.size, 4)
    with client.makefile("rb") as sent:
        request = json.loads(sent.read(*_LENGTH.unpack(header)))
    for module in {_OF_STORES[name] for name in request["environment"].keys() & _OF_STORES.keys()}:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    if pid := os.fork():
        for file in files:
            os.close(file)
        return pid
    from tokcore_pipelines.store import crashpoints

    client.close()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    crashpoints.obey_environment()
    if request.get("leads"):
        os.setpgid(0, 0)
        global _led
        _led = os.getpid()
    elif request.get("group"):
        with contextlib.suppress(OSError):  # the command has ended already, and this worker will
            os.setpgid(0, request["group"])
    try:
        if request["role"] == "command":
            _be_command(request["arguments"])
        else:
            _be_worker(request["modules"], files[3])
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def _be_command(arguments: list[str]) -> None:
    from tokcore_pipelines import cli
    from tokcore_pipelines.local import pool

    processes = SimpleNamespace(Popen=functools.partial(_Worker, sys.argv[1]), PIPE=subprocess.PIPE)
    with mock.patch.object(pool, "subprocess", processes):
        sys.argv = [cli.__file__, *arguments]
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        cli.main()


def _be_worker(modules: list[str], lifeline: int) -> None:
    from tokcore_pipelines.local import lifeline as entry
    from tokcore_pipelines.local import worker

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    threading.Thread(target=entry._end_with_parent, args=(lifeline,), daemon=True).start()
    sys.path[:] = os.environ["PYTHONPATH"].split(os.pathsep)  # the pool may ask for a function of a test file
    worker.main(modules)
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
