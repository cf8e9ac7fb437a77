"""What a compiler made once is taken from a cache, in any folder, until anything that it read is another."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support import compile_once

# Stands for a compiler, in milliseconds: writes down that it was called, and puts its sources together.
COMPILER = """
import sys
from pathlib import Path
with open("calls", "a") as calls:
    print("once", file=calls)
arguments = sys.argv[1:]
if "--version" in arguments:
    sys.exit(print("compiler 1"))
if "--fail" in arguments:
    sys.exit(3)
sources = [one for one in arguments if one.endswith(".cpp")]
made = Path(arguments[arguments.index("-o") + 1])
made.write_text("".join(map(str, arguments)) + "".join(Path(one).read_text() for one in sources))
made.chmod(0o755)
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder to compile in."""
    monkeypatch.setenv("TOKCORE_TEST_CACHE", str(tmp_path / "cache"))
    (tmp_path / "compiler.py").write_text(COMPILER)
    return make_project(tmp_path / "project")


def make_project(folder: Path) -> Path:
    folder.mkdir()
    (folder / "a.cpp").write_text('#include "part.h"\n#include <vector>\nint a;\n')
    (folder / "include").mkdir()
    (folder / "include" / "part.h").write_text('  #  include "deeper.h"\n')
    (folder / "include" / "deeper.h").write_text("#pragma once\n")
    return folder


def compile_in(folder: Path, *more: str) -> tuple[int, int]:
    """(exit code, how often the compiler has been called to compile in this folder)."""
    compiler = [sys.executable, str(folder.parent / "compiler.py")]
    told = ["-Iinclude", "-MF", "a.d", "-MT", "a.o", "-o", "a.o", "-c", "a.cpp"]
    launcher = compile_once.make_launcher([sys.executable, "-c", "print('compiler 1')"])
    done = subprocess.run([*launcher, *compiler, *more, *told], cwd=folder)
    calls = folder / "calls"
    return done.returncode, len(calls.read_text().splitlines()) if calls.exists() else 0


def test_the_same_is_compiled_once(project):
    assert compile_in(project) == (0, 1)
    made = (project / "a.o").read_bytes()
    (project / "a.o").unlink()
    assert compile_in(project) == (0, 1)
    assert (project / "a.o").read_bytes() == made
    assert os.access(project / "a.o", os.X_OK)
    # What ninja must know to compile again.
    assert (project / "a.d").read_text().split()[:4] == ["a.o:", "a.cpp", "include/part.h", "include/deeper.h"]
    other = make_project(project.parent / "other")
    assert compile_in(other) == (0, 0)
    assert (other / "a.o").read_bytes() == made


@pytest.mark.parametrize("name", ["a.cpp", "include/part.h", "include/deeper.h"])
def test_what_was_read_is_part_of_the_key(project, name):
    assert compile_in(project) == (0, 1)
    with (project / name).open("a") as file:
        file.write("// other\n")
    assert compile_in(project) == (0, 2)


def test_arguments_and_compiler_are_part_of_the_key(project, monkeypatch):
    assert compile_in(project) == (0, 1)
    assert compile_in(project, "-O2") == (0, 2)
    monkeypatch.setenv("CPATH", "/elsewhere")
    assert compile_in(project) == (0, 3)


def test_the_place_of_the_clone_is_no_part_of_the_key():
    root = str(Path(compile_once.__file__).parents[2])
    keys = {
        compile_once.make_key("id", ["c++", f"-I{place}/kernel", "-o", f"{place[1:]}/x.o"], [])
        for place in (root, f"{root}/")
    }
    assert compile_once.make_key("id", ["c++", "-I/kernel", "-o", "x.o"], []) in keys


def test_what_fails_is_not_kept(project):
    assert compile_in(project, "--fail") == (3, 1)
    assert compile_in(project, "--fail") == (3, 2)


def test_a_cache_that_cannot_be_written_is_none(project):
    (project.parent / "cache").write_text("a file")
    assert compile_in(project) == (0, 1)
    assert compile_in(project) == (0, 2)


def test_processes_may_compile_at_the_same_time(project):
    folders = [make_project(project.parent / f"p{i}") for i in range(4)]
    with ThreadPoolExecutor() as threads:
        done = list(threads.map(compile_in, folders))
    assert all(code == 0 for code, _ in done)
    assert len({(folder / "a.o").read_bytes() for folder in folders}) == 1
    assert len(list((project.parent / "cache").iterdir())) == 1


def test_what_was_not_used_for_longest_is_deleted(tmp_path):
    for number, name in enumerate("abcd"):
        (tmp_path / name).write_bytes(b"x" * 10)
        os.utime(tmp_path / name, (number, number))
    compile_once.prune(tmp_path, 25)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "d"]
    compile_once.prune(tmp_path / "absent", 25)
