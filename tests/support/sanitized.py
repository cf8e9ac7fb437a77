"""Builds the programs of tests/native and tests/fuzz with sanitizers; the kernel is compiled once for all of them.

Several processes may build in one folder: they do so one after the other. Other folders, of this clone or another, get
what was compiled before (compile_once.py).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

from support.compile_once import find_cache, make_launcher, prune

NATIVE = Path(__file__).parents[1] / "native"
CACHE_BYTES = 1 << 30  # at most


class NotPossibleError(Exception):
    """There is no compiler, no CMake or no such sanitizer here."""


class Programs:
    """Programs under sanitizers, built when they are asked for, in one folder."""

    def __init__(self, folder: Path, compiler: str = "", sanitizers: str = "address,undefined") -> None:
        """folder: created if it does not exist. compiler: a command; the usual one if "".

        Raises NotPossibleError.
        """
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        cmake, ninja = shutil.which("cmake", path=path), shutil.which("ninja", path=path)
        compiler = compiler or os.environ.get("CXX") or shutil.which("c++") or ""
        if not cmake or not compiler:
            raise NotPossibleError("no C++ compiler" if cmake else "no CMake")
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f"probe-{os.getpid()}"
        flags = [f"-fsanitize={sanitizers}", "-x", "c++", "-", "-o", str(probe)]
        built = subprocess.run([compiler, *flags], input=b"int main() {}", stderr=subprocess.DEVNULL)
        if built.returncode != 0 or subprocess.run([probe], stderr=subprocess.DEVNULL).returncode != 0:
            raise NotPossibleError(f"{compiler} or this system has no sanitizers {sanitizers}")
        self._folder, self._cmake = folder, cmake
        make = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if ninja else []
        settings = [f"-DCMAKE_CXX_COMPILER={compiler}", f"-DTOKCORE_SANITIZERS={sanitizers}"]
        launcher = ";".join(make_launcher([compiler]))
        settings += [f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}", f"-DCMAKE_CXX_LINKER_LAUNCHER={launcher}"]
        self._run([cmake, "-S", str(NATIVE), "-B", str(folder), *make, *settings])

    def __call__(self, *names: str) -> list[Path]:
        """Paths of the programs of these names."""
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count() or 1)
        self._run([self._cmake, "--build", str(self._folder), "--parallel", jobs, "--target", *names])
        prune(find_cache(), CACHE_BYTES)
        return [self._folder / "bin" / name for name in names]

    def _run(self, command: list[str]) -> None:
        with (self._folder / "lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # given up when the file is closed
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}")
