"""Runs command lines in children of a process that has imported everything: that takes a fifth of the time of a new
process.

`run_command` is the client. It connects to a socket, over which it sends the arguments and the files that are the
child's standard input, output and error. A reply is a line: the child's process id, and then how it ended.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
# What commands import late, to start faster.
_LATE = (
    "fsspec.implementations.local",
    "pipelines.commands.build_commands",
    "pipelines.commands.look_commands",
    "pipelines.commands.output_commands",
    "pipelines.commands.shard_commands",
    "pipelines.commands.tokenizer_commands",
    "pipelines.commands.watch_commands",
    "pipelines.graph.beam_passes",
    "pyarrow.dataset",
    "tokcore._native",
)
_LENGTH = struct.Struct("<Q")
_ENVIRONMENT = dict(os.environ)  # before any test changes it


def run_command(arguments: Sequence[str], cwd: str | Path, given: str, timeout: float | None) -> tuple[int, str, str]:
    """The exit code of the command line, and what it wrote to standard output and to standard error.

    given: its standard input. Raises subprocess.TimeoutExpired. Any number of threads may call it.
    """
    with tempfile.TemporaryFile() as read, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        read.write(given.encode())
        read.seek(0)
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(_start())
            request = json.dumps({"arguments": arguments, "cwd": str(cwd), "environment": dict(os.environ)}).encode()
            files = [read.fileno(), out.fileno(), error.fileno()]
            socket.send_fds(server, [_LENGTH.pack(len(request))], files)
            server.sendall(request)
            with server.makefile("r") as replies:
                pid = int(replies.readline())
                server.settimeout(timeout)
                try:
                    code = int(replies.readline())
                except TimeoutError:
                    os.kill(pid, signal.SIGKILL)
                    raise subprocess.TimeoutExpired([*arguments], timeout or 0) from None
        said = []
        for file in (out, error):
            file.seek(0)
            said.append(file.read().decode())
    return code, said[0], said[1]


def is_like_this(environment: Mapping[str, str]) -> bool:
    """Whether a child finds everything as a new process would: some variables count when modules are imported."""
    changed = environment.items() ^ _ENVIRONMENT.items()
    return all(name == "PYTEST_CURRENT_TEST" for name, _ in changed)


@functools.cache
def _start() -> str:
    """Start the server, which ends with this process. The path of its socket."""
    folder = Path(tempfile.mkdtemp())
    path = str(folder / "socket")
    environment = {**_ENVIRONMENT, "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])}
    command = [sys.executable, "-m", "support.command_server", path]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"

    def end() -> None:
        process.communicate()
        folder.rmdir()

    atexit.register(end)
    return path


def serve(path: str) -> None:
    """Fork a child for each connection; end when standard input ends."""
    importlib.import_module("pipelines.cli")  # first: it sets what numpy reads
    for name in _LATE:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    read, write = os.pipe()  # a child's end is seen here
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
                client.sendall(b"%d\n" % pid)
                children[pid] = client
    Path(path).unlink()


def _tell_ends(children: dict[int, socket.socket]) -> None:
    for pid in list(children):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with children.pop(pid) as client:
                client.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _fork(client: socket.socket) -> int:
    header, files, *_ = socket.recv_fds(client, _LENGTH.size, 3)
    with client.makefile("rb") as sent:
        request = json.loads(sent.read(*_LENGTH.unpack(header)))
    if pid := os.fork():
        for file in files:
            os.close(file)
        return pid
    client.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _run(**request)
    raise AssertionError("a command ends its process")


def _run(arguments: list[str], cwd: str, environment: dict[str, str]) -> Any:
    import pipelines.cli

    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.argv = [pipelines.cli.__file__, *arguments]
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    pipelines.cli.main()


if __name__ == "__main__":
    serve(sys.argv[1])
