"""`make mutants`: seed one defect at a time into a copy of the tree, and see whether the test it names fails.

make mutants                            all of them, on all cores
make mutants MUTANTS="--only cut-gzip"  one of them; several names may follow
make mutants MUTANTS="--sample 20"      every 20th, for a quick look; --seed N gives others
make mutants MUTANTS="--jobs 1"

The copies are kept in out/mutants, so that the kernel is compiled whole only once. Prints a Markdown table, and writes
out/mutants.json: the verdict on each defect, and how many seconds it took. Exit code 1 unless every defect was caught.
The named tests run without the defects first. Where one fails, or would be skipped because a server is missing, its
defects are not played, and not caught.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from mutants.anchors import AnchorError, Definition, find_definitions, locate, replace_code
from mutants.defect import Defect
from mutants.defects import DEFECTS

ROOT = Path(__file__).parents[2]
BUILT = "_native*.so"
NATIVE = "tokcore/native/"
PACKAGES = ("tokcore", "schemas", "pipelines", "tests")


class Outcome(NamedTuple):
    """The outcome of one defect. verdict: caught; or MISSED, TOO SLOW, DID NOT BUILD, DID NOT RUN
    or FAILS WITHOUT IT."""

    defect: Defect
    path: str  # of the file that it changes
    verdict: str
    seconds: float


class KernelError(Exception):
    """The kernel does not compile."""


class Copy:
    """A copy of the tree, into which defects are put, with its own kernel and interpreter."""

    def __init__(self, folder: Path, time_limit: float) -> None:
        self.tree = folder / "tree"
        self._build = folder / "build"
        self._sound = folder / "sound.so"
        self._scratch = folder / "scratch"
        self._time_limit = time_limit
        self.tree.mkdir(parents=True, exist_ok=True)
        self._copy_tree()
        self._python = self._make_interpreter(folder / "venv")
        self._compile_python()
        self._make_kernel()
        shutil.copyfile(self._kernel, self._sound)

    def run(self, tests: Sequence[str], *options: str) -> tuple[int | None, str]:
        """(exit code of pytest, None if a test took too long; what it printed)."""
        shutil.rmtree(self.tree / ".hypothesis", ignore_errors=True)  # no example is remembered
        # No new bytecode files: Python reuses one if the source has the same size and, to the second, the same time.
        # A test that is skipped would see no defect, so it fails; and the copy has no servers of its own.
        servers = {"TOKCORE_TEST_SERVERS": "required", "TOKCORE_SERVERS": os.environ.get("TOKCORE_SERVERS", sys.prefix)}
        environment = {**os.environ, **servers, "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("PYTHONPATH", None)
        command = [
            self._python,
            "-m",
            "pytest",
            "-q",
            *options,
            "-p",
            "no:cacheprovider",
            f"--basetemp={self._scratch}",
        ]
        process = subprocess.Popen(
            [*command, *tests],
            cwd=self.tree,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            printed, _ = process.communicate(timeout=self._time_limit * len(tests))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None, ""
        return process.returncode, printed

    def try_out(self, defect: Defect, place: Definition) -> str:
        """The verdict on one defect; afterwards the copy is without it again."""
        path = self.tree / place.path
        sound = path.read_text()
        is_native = place.path.startswith(NATIVE)
        path.write_text(replace_code(sound, place, defect.new))
        try:
            if is_native:
                self._make_kernel()
            code, printed = self.run(defect.tests, "-x")
        except KernelError:
            return "DID NOT BUILD"
        finally:
            path.write_text(sound)
            if is_native:
                self._install(self._sound)
        if code is None or code == 0:
            return "MISSED" if code == 0 else "TOO SLOW"
        # 1: a test failed. Below 0: it crashed. With a higher code, no test ran.
        if code == 1 or code < 0 or "Fatal Python error" in printed:
            return "caught"
        print(printed[-2000:], file=sys.stderr)
        return "DID NOT RUN"

    def _copy_tree(self) -> None:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        names = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
        links = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_symlink()}
        for path in [path for path in self.tree.rglob("*") if path.is_file() and not path.is_symlink()]:
            if path.relative_to(self.tree).as_posix() not in names:
                path.unlink()
        for name in links:  # by which packages are imported
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            if not (self.tree / name).is_symlink():
                (self.tree / name).symlink_to((ROOT / name).readlink())
        for name in names - links:
            source, target = ROOT / name, self.tree / name
            # Unchanged files keep their time, or all of the kernel would be compiled again.
            if target.is_file() and target.read_bytes() == source.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
            os.utime(target)

    def _make_interpreter(self, folder: Path) -> str:
        """An environment with the packages of this one, and with the copy's tokcore and its programs."""
        if not (folder / "bin" / "python").exists():
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
        # Folders in a .pth file are searched, and their own .pth files are not run.
        others = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
        ours = dict.fromkeys([str(self.tree), str(self.tree / ".packages"), *others])
        (packages / "mutants.pth").write_text("".join(f"{place}\n" for place in ours))
        python = folder / "bin" / "python"
        scripts = tomllib.loads((self.tree / "pyproject.toml").read_text())["project"]["scripts"]
        for name, entry in scripts.items():
            module, function = entry.split(":")
            program = python.with_name(name)
            program.write_text(f"#!{python}\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n")
            program.chmod(0o755)
        return str(python)

    def _compile_python(self) -> None:
        """Bytecode that holds the hash of its source, not the time: whatever a defect changes is compiled anew."""
        command = [self._python, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash"]
        subprocess.run([*command, *(self.tree / package for package in PACKAGES)], check=True)

    @property
    def _kernel(self) -> Path:
        (built,) = self._build.glob(BUILT)
        return built

    def _make_kernel(self) -> None:
        import nanobind

        tools = Path(sys.executable).parent
        if not (self._build / "build.ninja").exists():
            subprocess.run(
                [
                    tools / "cmake",
                    *("-S", self.tree / NATIVE, "-B", self._build, "-G", "Ninja"),
                    f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}",
                    "-DCMAKE_BUILD_TYPE=Release",
                    "-DSKBUILD=ON",
                    f"-DPython_EXECUTABLE={sys.executable}",
                    f"-Dnanobind_DIR={nanobind.cmake_dir()}",
                ],
                check=True,
                stdout=subprocess.DEVNULL,
            )
        made = subprocess.run([tools / "ninja", "-C", self._build], check=False, capture_output=True, text=True)
        if made.returncode:
            print(made.stdout[-2000:], file=sys.stderr)
            raise KernelError
        self._install(self._kernel)

    def _install(self, kernel: Path) -> None:
        target = self.tree / "tokcore" / self._kernel.name
        new = target.with_suffix(".new")
        shutil.copyfile(kernel, new)
        new.replace(target)


def table(outcomes: Sequence[Outcome]) -> str:
    """All outcomes as Markdown, in the order of the list."""
    rows = ["| defect | in | test | |", "|---|---|---|---|"]
    for defect, path, verdict, _ in in_order(outcomes):
        tests = ", ".join(test.removeprefix("tests/") for test in defect.tests)
        rows.append(f"| {defect.name}: {defect.what} | {path} | {tests} | {verdict} |")
    return "\n".join(rows)


def in_order(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """In the order of the list of defects, whichever was played first."""
    return sorted(outcomes, key=lambda one: DEFECTS.index(one.defect))


def as_json(outcomes: Sequence[Outcome]) -> str:
    """One line for each defect, by its name, so that two files compare line by line."""
    found = {one.defect.name: {"verdict": one.verdict, "seconds": round(one.seconds, 1)} for one in in_order(outcomes)}
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in found.items()) + "\n}\n"


def choose(only: Sequence[str] | None, sample: int, seed: int) -> list[Defect]:
    """The defects of these names, or every sample-th, from one that the seed says; the rooms all have their share."""
    if only:
        return [defect for defect in DEFECTS if defect.name in only]
    return list(DEFECTS[seed % sample :: sample])


def deal(tests: Sequence[str], jobs: int) -> list[list[str]]:
    """The tests in as many parts. Those of one file stay together where they can: they share what it sets up.

    >>> deal(["b::1", "a::1", "b::2", "a::2"], 2)
    [['a::1', 'a::2'], ['b::1', 'b::2']]
    """
    ordered = sorted(set(tests))
    return [ordered[len(ordered) * job // jobs : len(ordered) * (job + 1) // jobs] for job in range(jobs)]


def find_failed(tests: Sequence[str], printed: str) -> set[str]:
    """Those of the tests that a run of pytest names as failed; all of them if it ended without naming any.

    >>> printed = "FAILED a.py::test_b[1] - it\\nERROR d.py::test_e - so"
    >>> sorted(find_failed(["a.py::test_b", "a.py::test_bc", "d.py"], printed))
    ['a.py::test_b', 'd.py']
    """
    named = re.findall(r"^(?:FAILED|ERROR) ([^\s\[]+)", printed, re.MULTILINE)
    failed = {test for test in tests for name in named if name == test or name.startswith(f"{test}::")}
    return failed or set(tests)


def main() -> int:
    """Exit code 1 unless every defect was caught, 2 if one does not apply."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these defects")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="only every Nth defect")
    parser.add_argument("--seed", type=int, default=0, help="which of each N the sample takes")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--time-limit", type=float, default=300, help="seconds for the tests of one defect")
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "mutants", help="where the copies are")
    parser.add_argument("--json", type=Path, default=ROOT / "out" / "mutants.json", help="where the verdicts go")
    options = parser.parse_args()
    if options.only and (unknown := sorted(set(options.only) - {defect.name for defect in DEFECTS})):
        parser.error(f"no defect is named {', '.join(unknown)}")
    if options.sample < 1:
        parser.error(f"--sample {options.sample}: must be at least 1")
    chosen = choose(options.only, options.sample, options.seed)
    definitions = find_definitions(ROOT)
    try:
        places = {defect.name: locate(ROOT, definitions, defect.where, defect.old) for defect in chosen}
    except AnchorError as error:
        print(f"{error}\n`make lint` lists all defects that do not apply.", file=sys.stderr)
        return 2
    options.json.parent.mkdir(parents=True, exist_ok=True)
    # Sorted by file: a file is compiled for each defect, and once more only after its last one.
    waiting = iter(sorted(chosen, key=lambda defect: places[defect.name].path))
    parts = deal([test for defect in chosen for test in defect.tests], options.jobs)
    outcomes: list[Outcome] = []
    unsound: set[str] = set()
    lock = threading.Lock()

    def made(number: int) -> Copy:
        return Copy(options.folder / str(number), options.time_limit)

    def check(number: int) -> None:
        mine = parts[number]
        for start in range(0, len(mine), 50):
            tests = mine[start : start + 50]
            code, printed = copies[number].run(tests)
            if code != 0:
                print(printed[-2000:] or "it takes too long", file=sys.stderr)
                unsound.update(find_failed(tests, printed))

    def work(number: int) -> None:
        while True:
            with lock:
                defect = next(waiting, None)
            if defect is None:
                return
            started = time.monotonic()
            place = places[defect.name]
            is_sound = not unsound.intersection(defect.tests)
            verdict = copies[number].try_out(defect, place) if is_sound else "FAILS WITHOUT IT"
            with lock:
                seconds = time.monotonic() - started
                outcomes.append(Outcome(defect, place.path, verdict, seconds))
                print(f"{len(outcomes)}/{len(chosen)} {defect.name}: {verdict} ({seconds:.0f} s)", flush=True)
                options.json.write_text(as_json(outcomes))  # each time, so that a run that is ended says what it found

    started = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as threads:
        copies = list(threads.map(made, range(options.jobs)))
        print(f"the copies are made ({time.monotonic() - started:.0f} s)", flush=True)
        list(threads.map(check, range(options.jobs)))
        print(f"without defects, their tests ran ({time.monotonic() - started:.0f} s)", flush=True)
        list(threads.map(work, range(options.jobs)))
    print("", table(outcomes), "", sep="\n")
    caught = sum(outcome.verdict == "caught" for outcome in outcomes)
    print(f"{caught} of {len(outcomes)} defects caught")
    return 0 if caught == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
