"""`make test` and `make proof`: two runs of pytest beside each other, of tests that work and of tests that wait.

python tests/run.py test             what needs no server
python tests/run.py proof            servers, engines, a browser, sanitizers, chaos and histories
python tests/run.py proof --full     the same, then the programs that take hours; out/proof.md says how each ended
python tests/run.py record           write the costs of the last runs into tests/costs.json, as the budgets from now on

What each file cost is in out/costs/SET.json. A file that costs more CPU than its budget ends the run with exit code 1.
A test that fails is run again, alone. If it passes then, it is named as unsteady: two of these are let pass, not more.
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
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from support import proof

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
COSTS = ROOT / "out" / "costs"
BUDGETS = TESTS / "costs.json"
SETS = {"test": "not proof", "proof": "proof"}

# Their processes wait for others most of the time: for engines, for a server's answer, for a file that settles.
WAITING = (
    "engines/test_flink.py",
    "engines/test_flink_streams.py",
    "engines/test_prism.py",
    "pipelines/test_engines.py",
    "pipelines/test_jobs.py",
    "pipelines/test_stream.py",
    "pipelines/test_watch.py",
    "stores/test_bad_days.py",
    "stores/test_dataflow_jobs.py",
    "stores/test_notifications.py",
    "stores/test_soak.py",
    "stores/test_trouble.py",
)
# A test that hangs for 15 minutes ends the run, which shows where it hung. Files in the order of folders, so that no
# slow one comes last, when only one process would still work.
_PYTEST = ["-q", "--dist=loadfile", "--no-loadscope-reorder", "--max-worker-restart=0", "--durations=30"]
_PYTEST += ["-o", "faulthandler_timeout=900", "-o", "faulthandler_exit_on_timeout=true"]
_FAILED, _NO_TESTS = 1, 5  # exit codes of pytest
# Two cores that do everything at once find what nobody can repeat. It is to be looked into, and it stops no landing.
_MOST_UNSTEADY = 2
_END_BYTES = 1 << 12  # of what pytest says, more than its last line

# A budget is exceeded only by a half more and five seconds, on a machine whose speed is taken from the other files, and
# only if the file is as expensive again when it runs alone: what runs beside it may have taken its processor's caches.
_TOLERANCE, _SLACK_S = 1.5, 5.0
# What these compile is kept for later runs. Which of them compiles what they share depends on who comes first.
_COMPILING = {f"tests/{name}.py" for name in ("fuzz/test_fuzz", "native/test_sanitized", "native/test_fingerprints")}
_COMPILING_S = 400.0

# What `make proof FULL=1` runs after the tests: hours.
FULL = (
    "chaos",
    "history",
    "soak",
    "flink-faults",
    "fuzz FUZZ_SECONDS=200",
    "fingerprints",
    "prism",
    "flink",
    "budgets",
    "mutants",
)

Costs = Mapping[str, Mapping[str, float]]


class Ended(NamedTuple):
    """How one run of pytest ended. counts: passed, failed, skipped and others, as its last line has them."""

    code: int
    counts: dict[str, int]


def run_tests(name: str, processes: int) -> int:
    """Run a set; the exit code."""
    places = find_places(name)
    COSTS.mkdir(parents=True, exist_ok=True)
    # The tests that wait begin first and take a processor only now and then.
    runs = {
        "waits": [place for place in places if place in WAITING],
        "works": [place for place in places if place not in WAITING],
    }
    with tempfile.TemporaryFile() as said:
        started = {}
        for run, chosen in runs.items():
            command = [sys.executable, "-m", "pytest", *_PYTEST, f"--numprocesses={processes}", f"-m={SETS[name]}"]
            failed_before = COSTS / f"{name}-{run}.cache"
            shutil.rmtree(failed_before, ignore_errors=True)
            started[run] = subprocess.Popen(
                [*command, f"--override-ini=cache_dir={failed_before}", *(str(TESTS / place) for place in chosen)],
                cwd=ROOT,
                env={**os.environ, "TOKCORE_TEST_COSTS": str(COSTS / f"{name}-{run}.json")},
                stdout=subprocess.PIPE if run == "works" else said,
                stderr=subprocess.STDOUT,
            )
        try:
            works = _follow(started["works"])
            code = started["waits"].wait()
        except BaseException:
            for process in started.values():
                process.send_signal(signal.SIGINT)
            raise
        said.seek(0)
        text = said.read().decode(errors="replace")
    print("--- the tests that wait:", text, sep="\n", flush=True)
    ended = {"waits": Ended(code, _count(text)), "works": works}
    costs = {file: cost for run in runs for file, cost in _read(COSTS / f"{name}-{run}.json").items()}
    (COSTS / f"{name}.json").write_text(json.dumps(costs, indent=1) + "\n")
    pace = measure_pace(costs, _read(BUDGETS))
    exceeded = confirm(find_exceeded(costs, _read(BUDGETS), pace), name, pace)
    print(*exceeded.values(), sep="\n")
    total = {key: sum(one.counts.get(key, 0) for one in ended.values()) for key in ("passed", "failed", "skipped")}
    failed = total["failed"] + sum(one.counts.get("error", 0) + one.counts.get("errors", 0) for one in ended.values())
    codes = {run: one.code for run, one in ended.items()}
    if 0 < failed <= _MOST_UNSTEADY:
        codes = {run: run_again(name, run, runs[run]) if code == _FAILED else code for run, code in codes.items()}
        if _are_good(codes):
            print(f"{failed} failed, and passed when run again: unsteady. Look into what FAILED above.")
            total["passed"], failed = total["passed"] + failed, 0
    print(f"{total['passed']} passed, {failed} failed, {total['skipped']} skipped", flush=True)
    return 0 if _are_good(codes) and total["passed"] and not exceeded else 1


def _are_good(codes: Mapping[str, int]) -> bool:
    return all(code in (0, _NO_TESTS) for code in codes.values())


def run_again(name: str, run: str, places: Sequence[str]) -> int:
    """Run those tests that failed, alone; the exit code."""
    command = [sys.executable, "-m", "pytest", "-q", "--last-failed", "--last-failed-no-failures=none"]
    command += [f"--override-ini=cache_dir={COSTS / f'{name}-{run}.cache'}", f"-m={SETS[name]}"]
    print("--- those that failed, once more:", flush=True)
    return subprocess.run([*command, *(str(TESTS / place) for place in places)], cwd=ROOT).returncode


def count_processes() -> int:
    """One more than there are cores, because tests of builds also wait; 8 at most."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores + 1, 8)


def find_places(name: str) -> list[str]:
    """The files below tests/ that hold tests of a set, in order. A file that has none costs seconds to import."""
    files = [path.relative_to(TESTS).as_posix() for path in sorted(TESTS.rglob("test_*.py"))]
    folders = proof.find_folders()
    marks = ("mark.proof", *proof.FIXTURES)
    if name == "proof":
        return [
            file
            for file in files
            if file.partition("/")[0] in folders or any(mark in (TESTS / file).read_text() for mark in marks)
        ]
    return [file for file in files if file.partition("/")[0] not in folders]


def _follow(process: subprocess.Popen[bytes]) -> Ended:
    """Print what it says at once."""
    assert process.stdout is not None
    end = b""
    with process.stdout as stdout:
        while said := os.read(stdout.fileno(), 1 << 16):  # not by lines: dots are progress
            sys.stdout.buffer.write(said)
            sys.stdout.buffer.flush()
            end = (end + said)[-_END_BYTES:]
    return Ended(process.wait(), _count(end.decode(errors="replace")))


def _count(text: str) -> dict[str, int]:
    """The numbers of pytest's last line: 3 failed, 120 passed, 2 skipped in 71.03s (0:01:11)."""
    last = text.strip().rpartition("\n")[2]
    return {word: int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", last.partition(" in ")[0])}


def confirm(exceeded: Mapping[str, str], name: str, pace: float) -> dict[str, str]:
    """Those of these files of a set that are too expensive alone, too."""
    found = {}
    for file in exceeded:
        print(f"{file} once more, alone, for what it costs", flush=True)
        told = COSTS / "again.json"
        told.unlink(missing_ok=True)
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"-m={SETS[name]}", file],
            cwd=ROOT,
            env={**os.environ, "TOKCORE_TEST_COSTS": str(told)},
            stdout=subprocess.DEVNULL,
        )
        found |= find_exceeded(_read(told), _read(BUDGETS), pace)
    return found


def measure_pace(costs: Costs, budgets: Costs) -> float:
    """CPU seconds here for one second of the budgets: the median of all files, at least 1, more on a slow machine."""
    paces = sorted(
        costs[file]["cpu_s"] / budgets[file]["cpu_s"] for file in costs.keys() & budgets if budgets[file]["cpu_s"] >= 2
    )
    return max(1.0, paces[(len(paces) - 1) // 2]) if paces else 1.0


def find_exceeded(costs: Costs, budgets: Costs, pace: float) -> dict[str, str]:
    """What to say of each file that costs much more CPU than its budget, or has none.

    >>> find_exceeded({"a.py": {"cpu_s": 30.0}}, {}, pace=1)
    {'a.py': 'a.py: 30.0 s of CPU and no budget. Run python tests/run.py record.'}
    """
    found = {}
    for file, cost in costs.items():
        if file not in budgets:
            if cost["cpu_s"] > _SLACK_S:
                found[file] = f"{file}: {cost['cpu_s']} s of CPU and no budget. Run python tests/run.py record."
        elif cost["cpu_s"] > _TOLERANCE * pace * budgets[file]["cpu_s"] + _SLACK_S + _COMPILING_S * (
            file in _COMPILING
        ):
            found[file] = (
                f"{file}: {cost['cpu_s']} s of CPU, its budget is {budgets[file]['cpu_s']} s (tests/costs.json). "
                "Make it cheaper, or say in the commit why it costs more."
            )
    return found


def record() -> int:
    """Write the costs of the last runs as budgets; 1 if there were none. Some files have tests in both sets."""
    sums: dict[str, dict[str, float]] = {}
    for file in (file for name in SETS for file in find_places(name)):
        sums[f"tests/{file}"] = {"tests": 0, "wall_s": 0.0, "cpu_s": 0.0}  # of a file that is skipped
    for name in SETS:
        for file, cost in _read(COSTS / f"{name}.json").items():
            one = sums.setdefault(file, {})
            for key, value in cost.items():
                one[key] = round(one.get(key, 0) + value, 2)
    if not any(cost["tests"] for cost in sums.values()):
        print(f"{COSTS} holds no costs: run make test and make proof first", file=sys.stderr)
        return 1
    BUDGETS.write_text(json.dumps(dict(sorted(sums.items())), indent=1) + "\n")
    return 0


def run_full() -> int:
    """Run the long programs one after the other, whatever fails; 1 if one did. Their output is in out/proof."""
    logs = ROOT / "out" / "proof"
    logs.mkdir(parents=True, exist_ok=True)
    rows = ["| program | ended | after |", "|---|---|--:|"]
    failed = False
    for program in FULL:
        started = time.monotonic()
        log = logs / f"{program.partition(' ')[0]}.log"
        print(f"make {program}: its output is in {log.relative_to(ROOT)}", flush=True)
        with log.open("wb") as said:
            command = ["make", *program.split()]
            code = subprocess.run(command, cwd=ROOT, stdout=said, stderr=subprocess.STDOUT).returncode
        failed = failed or code != 0
        verdict = "well" if code == 0 else f"with exit code {code}"
        rows.append(f"| make {program} | {verdict} | {(time.monotonic() - started) / 60:.1f} min |")
        report = "\n".join(rows) + "\n"
        (ROOT / "out" / "proof.md").write_text(report)
    print(report)
    return int(failed)


def _read(path: Path) -> dict[str, dict[str, float]]:
    return json.loads(path.read_text()) if path.exists() else {}


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 1 if a test failed or a file costs more than its budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*SETS, "record"])
    parser.add_argument("--processes", type=int, default=count_processes(), help="of each of the two runs")
    parser.add_argument("--full", action="store_true", help="then the programs that take hours")
    options = parser.parse_args(arguments)
    if options.what == "record":
        return record()
    code = run_tests(options.what, options.processes)
    return (run_full() or code) if options.full else code


if __name__ == "__main__":
    sys.exit(main())
