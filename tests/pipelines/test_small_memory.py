"""Too little address space, and threads that cannot start: exit code 2 or 3 with a sentence, never a wait for ever."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.builds import build_file, jsonl, write

from pipelines import cli
from pipelines.local import threads
from pipelines.local.threads import describe_shortage, limit_thread_starts

MIB = 1 << 20
PATIENCE_SECONDS = 60


def run_in_child(arguments: list[str], folder: Path, prepare: Callable[[], None]) -> tuple[int, str]:
    """The exit code of a command in a forked child, and what it said on stderr; fails if it does not end in time."""
    said = folder / "said"
    if not (child := os.fork()):
        os.environ["TOKCORE_TEST_OF_LIMITS"] = "1"  # so that workers are new processes, which have the limits
        os.chdir(folder)
        file = os.open(said, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        cli.sys.argv = ["tokcore", *arguments]
        cli.sys.stdout, cli.sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115
        prepare()
        cli.main()
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), said.read_text()
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError(f"tokcore {arguments} waits for ever: {said.read_text()}")


def limit_space(left: int) -> None:
    """Let this process use so many bytes more of address space than it does."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + left, used + left))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    write(folder / "a.jsonl", jsonl([{"text": f"{i} little words of a little fox"} for i in range(20)]))
    build_file(folder, '[[source]]\nlang = "en"\nfiles = "a.jsonl"\n', "[learn]\nvocab_size = 265\n")
    return folder


COMMAND = ["build", "build.toml", "--workers", "1", "--output"]


@pytest.mark.parametrize("left", [0, 8 * MIB, 300 * MIB])
def test_a_small_address_space_is_refused_before_anything_begins(corpus, tmp_path, left):
    code, said = run_in_child([*COMMAND, str(tmp_path / "out")], corpus, lambda: limit_space(left))
    assert code == 2
    assert said.startswith("error: this process may use ")
    assert "`ulimit -v`" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("left", [0, 4 * MIB, 16 * MIB])
def test_what_no_look_ahead_finds_ends_with_a_sentence(corpus, tmp_path, left):
    def prepare() -> None:
        threads._LEAST_BYTES = 0
        threads.START_SECONDS = 3.0
        limit_space(left)

    code, said = run_in_child([*COMMAND, str(tmp_path / "out")], corpus, prepare)
    assert code == 3, said
    last = said.splitlines()[-1]
    assert last.startswith("error: ")
    assert "Traceback" not in last


@pytest.mark.parametrize("how", ["refused", "dies"])
def test_a_thread_that_does_not_begin_is_no_wait_for_ever(corpus, tmp_path, how):
    def start(*_: object) -> int:
        if how == "refused":
            raise RuntimeError("can't start new thread")
        return 1  # as if it had died before its first step

    def prepare() -> None:
        threads.START_SECONDS = 0.1
        threading._start_new_thread = start

    code, said = run_in_child([*COMMAND, str(tmp_path / "out")], corpus, prepare)
    assert code == 3
    assert "can't start new thread" in said
    assert "Try fewer --workers" in said.splitlines()[-1]
    assert "Traceback" not in said


def test_threads_start_as_before(monkeypatch):
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)
    limit_thread_starts()
    done = threading.Event()
    thread = threading.Thread(target=done.set)
    thread.start()
    thread.join()
    assert done.is_set()
    with pytest.raises(RuntimeError, match="threads can only be started once"):
        thread.start()


def test_which_errors_are_of_too_little_memory():
    assert "no memory, or no thread (MemoryError)" in describe_shortage(MemoryError())
    assert describe_shortage(OSError(12, "Cannot allocate memory"))
    assert describe_shortage(ImportError("lib.so: failed to map segment from shared object"))
    assert describe_shortage(RuntimeError("another")) == describe_shortage(OSError(2, "No such file")) == ""
