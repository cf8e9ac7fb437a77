"""Too little address space, and threads that cannot start: exit code 2 or 3 with a sentence, never a wait for ever."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from support.builds import ROOT, build_file, jsonl, write

from tokcore.errors import FormatError
from tokcore.files.shortage import raise_shortage
from tokcore_pipelines.local.threads import describe_shortage, limit_thread_starts

MIB = 1 << 20
PATIENCE_SECONDS = 60
COMMAND = ["build", "build.toml", "--workers", "1", "--output"]


# A process of its own, since a test's process has threads, whose locks a forked child would wait for. It has imported
# all that commands import before its limits are lowered.
LIMITED = """
import resource, sys, threading
from pathlib import Path
from support.command_server import import_all
from tokcore_pipelines import cli
from tokcore_pipelines.local import threads

def limit_space(left):
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + left, used + left))

def refuse(*_):
    raise RuntimeError("can't start new thread")

def die(*_):
    return 1  # as if it had died before its first step

import_all()
prepare, sys.argv = sys.argv[1], ["tokcore", *sys.argv[2:]]
exec(prepare)
cli.main()
"""


def run_limited(prepare: str, output: Path, folder: Path) -> tuple[int, str]:
    """The exit code of a build after these statements, and what it said on stderr; fails if it does not end in time."""
    command = [sys.executable, "-c", LIMITED, prepare, *COMMAND, str(output)]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"{prepare}: waits for ever: {error.stderr!r}") from None
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    write(folder / "a.jsonl", jsonl([{"text": f"{i} little words of a little fox"} for i in range(20)]))
    build_file(folder, '[[source]]\nlang = "en"\nfiles = "a.jsonl"\n', "[learn]\nvocab_size = 265\n")
    return folder


@pytest.mark.parametrize("left", [0, 8 * MIB, 300 * MIB])
def test_a_small_address_space_is_refused_before_anything_begins(corpus, tmp_path, left):
    code, said = run_limited(f"limit_space({left})", tmp_path / "out", corpus)
    assert code == 2
    assert said.startswith("error: this process may use ")
    assert "`ulimit -v`" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("left", [0, 4 * MIB, 16 * MIB])
def test_what_no_look_ahead_finds_ends_with_a_sentence(corpus, tmp_path, left):
    prepare = f"threads._LEAST_BYTES = 0; threads.START_SECONDS = 3.0; limit_space({left})"
    code, said = run_limited(prepare, tmp_path / "out", corpus)
    assert code == 3, said
    last = said.splitlines()[-1]
    assert last.startswith("error: ")
    assert "Traceback" not in last


@pytest.mark.parametrize("how", ["refuse", "die"])
def test_a_thread_that_does_not_begin_is_no_wait_for_ever(corpus, tmp_path, how):
    prepare = f"threads.START_SECONDS = 0.1; threading._start_new_thread = {how}"
    code, said = run_limited(prepare, tmp_path / "out", corpus)
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


def test_arrow_takes_no_address_space_ahead():
    """Its own allocator reserved 1 GiB at once, so that 1.4 GB were too little where 0.9 GB were enough."""
    names = ["import os, pyarrow", "from tokcore_pipelines.local.threads import spare_address_space"]
    lines = [names[1], "spare_address_space()", names[0], "print(pyarrow.default_memory_pool().backend_name)"]
    code = "; ".join(lines)
    limited = ["bash", "-c", 'ulimit -v 4000000; exec "$@"', "bash"]
    found = [
        subprocess.run([*command, sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for command in ([], limited)
    ]
    assert [pool.strip() == "system" for pool in found] == [False, True]


@pytest.mark.parametrize("raised", ["pyarrow.ArrowMemoryError('malloc of size 9 failed')", "OSError(12, 'no')"])
def test_too_little_memory_to_read_a_table_is_not_blamed_on_it(corpus, tmp_path, raised):
    """`learn` said "not a count table: malloc of size 9 failed"."""
    fail = f"def fail(*_, **__): raise {raised}\n"
    code, said = run_limited(
        f"import pyarrow, pyarrow.parquet\n{fail}pyarrow.parquet.ParquetFile = fail", tmp_path, corpus
    )
    assert code == 3
    assert "the system gave this process no memory" in said.splitlines()[-1]
    assert "not a" not in said
    assert "Traceback" not in said


def _list_handlers(name: str) -> Iterator[tuple[str, bool]]:
    """(place of a try whose handlers name an error, whether MemoryError passes before it)."""
    for room in ("tokcore", "pipelines", "schemas"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                handlers = [one for one in getattr(node, "handlers", ()) if one.type is not None]
                for one in handlers:
                    if name in ast.unparse(one.type):
                        first = ast.unparse(handlers[0].type), ast.unparse(one.body[0])
                        yield f"{path}:{one.lineno}", first[0] == "MemoryError" or first[1] == "raise_shortage(error)"


def test_arrow_errors_about_bytes_are_not_those_about_memory():
    """An ArrowMemoryError is an ArrowException: each place that takes one for damage lets MemoryError pass first."""
    found = dict(_list_handlers("ArrowException"))
    assert len(found) > 7
    assert [place for place, passes in found.items() if not passes] == []


def test_damaged_bytes_ask_for_more_than_a_machine_has():
    for asked in (9, 1 << 30):
        with pytest.raises(MemoryError):
            raise_shortage(pa.ArrowMemoryError(f"malloc of size {asked} failed"))
    raise_shortage(pa.ArrowMemoryError(f"malloc of size {1 << 54} failed"))
    raise_shortage(pa.ArrowInvalid("not an Arrow file"))


def test_which_errors_are_of_too_little_memory():
    assert "no memory, or no thread (MemoryError)" in describe_shortage(MemoryError())
    assert describe_shortage(OSError(12, "Cannot allocate memory"))
    assert describe_shortage(ImportError("lib.so: failed to map segment from shared object"))
    blamed = FormatError("not a table")
    blamed.__cause__ = OSError(12, "Cannot allocate memory")
    assert describe_shortage(blamed)
    assert describe_shortage(RuntimeError("another")) == describe_shortage(OSError(2, "No such file")) == ""
