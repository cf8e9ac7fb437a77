"""Servers of engines, as processes on the loopback interface."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

from support.installed_servers import find_server


def make_job_server(port):
    """The command of Beam's own job server, a stand-in for an engine with workers of its own."""
    return [sys.executable, "-m", "apache_beam.runners.portability.local_job_service_main", f"--port={port}"]


@contextlib.contextmanager
def running(command, port, log=subprocess.DEVNULL, env=None):
    """The process, once something listens on that port; its group is killed when the block ends."""
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=log, env=env)
    try:
        _wait_for(port, process)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for(port, process):
    for _ in range(600):
        assert process.poll() is None
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise AssertionError(f"nothing listens on {port}")


def write_program(path, text):
    """The path of a program with that text."""
    path.write_text(text)
    path.chmod(0o755)
    return path


def write_boot_starter(folder, boot):
    """A program that starts Beam's boot, as Prism would but for the quotes that Prism puts round a worker's name."""
    return write_program(
        folder / "boot-starter",
        f"#!{sys.executable}\nimport os, sys\nflags = [one.replace(chr(39), '') for one in sys.argv[1:]]\n"
        f"os.chdir('{folder}')\n"  # where boot writes the options of the job
        f"os.execv('{boot}', ['boot', '--semi_persist_dir={folder}/boot-kept', *flags])\n",
    )


def find_boot():
    """The starter of Beam's own images, as `make servers` builds it."""
    return find_server("boot", "Beam's boot")


def find_prism():
    """The program that `make servers` builds; without it the test is skipped, where it may be."""
    return find_server("prism", "Prism")


def find_free_port():
    """A port of the loopback interface that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
