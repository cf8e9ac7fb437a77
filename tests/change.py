"""`make change`: run the test files that can see what changed, nearest first, until ten minutes are used.

make change                             what changed since the branch left main, or since the last commit
make change CHANGE="--since HEAD~3"     since an earlier commit
make change CHANGE="--list"             which test files those are, how near, and what they cost; none runs
make change CHANGE="--budget 120"       two minutes
make change CHANGE="tokcore/learn/merges.py"  as if these files had changed

A test file is near if few imports lie between it and a changed file: 0 is the file itself, 1 a test that imports it.
Almost all tests see almost all of pipelines through the command line; so those of equal distance run cheapest first,
and what no longer fits is named. `make test` runs it, as CI does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from run import count_processes
from support.seeing import count_steps
from support.source import no_search_for_garbage

ROOT = Path(__file__).parents[1]
COSTS = "tests/costs.json"  # what test files cost: {path: {"wall_s": seconds, ...}}
UNKNOWN_COST_S = 15.0
# The proof's folders run only when one of these changed, or what they import themselves; without their servers, they
# are skipped.
PROOF = {
    "tests/browser/": ("pipelines/look/report/", "pipelines/look/view/"),
    "tests/engines/": ("pipelines/run/", "pipelines/transforms/", "deploy/"),
    "tests/native/": ("tokcore/native/",),
    "tests/stores/": ("pipelines/store/", "deploy/"),
}
_NO_TESTS = 5  # of pytest: all were the proof's


class Seen(NamedTuple):
    """A test file that sees a change; how many imports away it is, and what it costs."""

    path: str
    steps: int
    is_named: bool  # after a changed file
    cost_s: float  # of clock, in one process


def rank(steps: Mapping[str, int], changed: Iterable[str], costs: Mapping[str, float]) -> list[Seen]:
    """The nearest first; of those, what is named after a changed file; of those, the cheapest.

    >>> steps = {"tests/test_b.py": 1, "tests/test_a.py": 1, "tests/test_c.py": 2, "tests/test_d.py": 1}
    >>> [one.path[6:] for one in rank(steps, ["tokcore/a.py"], {"tests/test_b.py": 99})]
    ['test_a.py', 'test_d.py', 'test_b.py', 'test_c.py']
    """
    names = {f"test_{PurePosixPath(path).stem}" for path in changed}
    seen = [
        Seen(path, count, PurePosixPath(path).stem in names, costs.get(path, UNKNOWN_COST_S))
        for path, count in steps.items()
    ]
    return sorted(seen, key=lambda one: (one.steps, not one.is_named, one.cost_s, one.path))


def is_proof(path: str) -> bool:
    """Whether all tests of a file are the proof's."""
    return path.startswith(tuple(PROOF))


def has_reason(one: Seen, changed: Iterable[str]) -> bool:
    """Whether a file runs: all do but the proof's, which need a change that is near, or in one of their rooms."""
    reasons = [(folder, *rooms) for folder, rooms in PROOF.items() if one.path.startswith(folder)]
    return not reasons or one.steps <= 1 or any(path.startswith(reasons[0]) for path in changed)


def choose(seen: Sequence[Seen], budget_s: float) -> tuple[list[Seen], list[Seen]]:
    """(what runs, what is left out). What changed itself always runs; the rest, in order, if it still fits.

    >>> seen = [Seen("a", 0, False, 9), Seen("b", 1, False, 2), Seen("c", 1, False, 5), Seen("d", 2, False, 1)]
    >>> [[one.path for one in part] for part in choose(seen, 12)]
    [['a', 'b', 'd'], ['c']]
    """
    running: list[Seen] = []
    for one in seen:
        if one.steps == 0 or one.cost_s <= budget_s:
            running.append(one)
            budget_s -= one.cost_s
    return running, [one for one in seen if one not in running]


def read_costs(root: Path) -> dict[str, float]:
    """Seconds of clock of each test file; empty where nobody measured."""
    path = root / COSTS
    return (
        {file: float(cost["wall_s"]) for file, cost in json.loads(path.read_bytes()).items()} if path.exists() else {}
    )


def find_changed(since: str | None, root: Path) -> tuple[list[str], str]:
    """(files that differ from a commit, new ones included; the commit, as git names it)."""
    if since is None:
        branch = _git(root, "branch", "--show-current").strip()
        has_main = branch != "main" and _git(root, "branch", "--list", "main").strip()
        since = _git(root, "merge-base", "main", "HEAD").strip() if has_main else "HEAD"
        if not (changed := _differing(since, root)):
            since = "HEAD~1"  # all is committed: the last commit
        else:
            return changed, since
    return _differing(since, root), since


def _differing(since: str, root: Path) -> list[str]:
    listed = _git(root, "diff", "--name-only", "--no-renames", "-z", since, "--")
    listed += _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return sorted({name for name in listed.split("\0") if name})


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """The exit code of pytest; 0 if no test sees what changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="what changed, below the root; without any, git says it"
    )
    parser.add_argument("--since", metavar="COMMIT", help="what changed since a commit")
    parser.add_argument("--budget", type=float, default=600, metavar="SECONDS", help="of clock, for all tests")
    parser.add_argument("--processes", type=int, default=count_processes(), help="how many run tests at once")
    parser.add_argument("--list", action="store_true", help="name the test files, and run none")
    options = parser.parse_args(arguments)
    changed, since = (options.files, "") if options.files else find_changed(options.since, root)
    with no_search_for_garbage():
        seen = rank(count_steps(changed, root), changed, read_costs(root))
    here = [one for one in seen if has_reason(one, changed)]
    running, left = choose(here, options.budget * options.processes)
    proof = [one for one in seen if one not in here]
    print(f"{len(changed)} changed files" + (f" since {since[:12]}" if since else ""))
    print(f"{len(seen)} test files see them; {len(running)} run, for about {_minutes(running, options.processes)}")
    for title, part in (("run", running if options.list else []), ("left out", left), ("make proof", proof)):
        for one in part:
            print(f"  {title}: {one.path} ({one.steps} imports away, {one.cost_s:.0f} s)")
    if options.list or not running:
        return 0
    command = [sys.executable, "-m", "pytest", "-q"]
    if options.processes > 1:
        command += ["--numprocesses", str(options.processes), "--dist", "loadfile", "--no-loadscope-reorder"]
    if not any(is_proof(one.path) for one in running):
        command += ["-m", "not proof"]
    sys.stdout.flush()
    code = subprocess.run([*command, *(one.path for one in running)], cwd=root, check=False).returncode
    return 0 if code == _NO_TESTS else code


def _minutes(running: Sequence[Seen], processes: int) -> str:
    return f"{sum(one.cost_s for one in running) / processes / 60:.1f} minutes"


if __name__ == "__main__":
    sys.exit(main())
