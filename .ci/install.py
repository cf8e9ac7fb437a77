"""Install tokcore and say in a few lines what happens: PYTHON install.py [EXTRA ...]

Without extras: what builds need (the extra `build`), what compiles tokcore, and tokcore itself in editable form. With
extras of pyproject.toml: the packages that they add. tokcore stays as it is then, so nothing is compiled again.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
import tomllib
from collections import deque
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Python writes the bytecode of what it imports; that of all modules would take a sixth of the time.
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-compile")
SECONDS_BETWEEN_LINES = 10
# Of what pip and ninja print -> what is worth a line.
STEPS = {
    r"Collecting (\S+)": "looking for {0}",
    r"Downloading (\S+ \(.+\))": "downloading {0}",
    r"Building wheel for (\S+)": "building {0}",
    r"Installing collected packages: (.+)": "installing {count} packages",
    r"\[(\d+)/(\d+)\] ": "compiling the kernel: {0} of {1}",
}


def list_requirements(pyproject: Path, extras: tuple[str, ...]) -> list[str]:
    """What tokcore needs, with what the extras add. Sorted."""
    project = tomllib.loads(pyproject.read_text())["project"]
    found = [*project["dependencies"]]
    waiting = list(extras)
    while waiting:
        for one in project["optional-dependencies"][waiting.pop()]:
            if own := re.fullmatch(r"tokcore\[(.*)\]", one):
                waiting += own[1].split(",")
            else:
                found.append(one)
    return sorted(set(found))


def list_build_requirements(pyproject: Path) -> list[str]:
    """What makes the wheel of tokcore; cmake and ninja are what scikit-build-core would ask for."""
    return [*tomllib.loads(pyproject.read_text())["build-system"]["requires"], "cmake>=3.26", "ninja"]


def read_step(line: str) -> str | None:
    """What a line of pip or ninja says, in our words; None if that is nothing new."""
    for pattern, words in STEPS.items():
        if found := re.match(pattern, line.strip()):
            return words.format(*found.groups(), count=found[1].count(",") + 1)
    return None


def run(title: str, arguments: list[str]) -> None:
    """Run pip and show its steps: a line that changes on a terminal, elsewhere one in ten seconds.

    If pip fails, what it printed is shown, and the program ends.
    """
    print(title, flush=True)
    started = shown = time.monotonic()
    step, last = "", deque[str](maxlen=200)
    with subprocess.Popen([*PIP, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as pip:
        assert pip.stdout
        for line in pip.stdout:
            last.append(line)
            step = read_step(line) or step
            if not step:
                continue
            if sys.stdout.isatty():
                print(f"\r\033[K  {step}"[:100], end="", flush=True)
            elif time.monotonic() - shown >= SECONDS_BETWEEN_LINES:
                shown = time.monotonic()
                print(f"  {step}", flush=True)
    end = "\r\033[K" if sys.stdout.isatty() else ""
    if pip.returncode:
        sys.exit(f"{end}{''.join(last)}{title}: pip failed, see above")
    print(f"{end}  done in {time.monotonic() - started:.0f} s", flush=True)


def main() -> None:
    extras = tuple(sys.argv[1:])
    pyproject = ROOT / "pyproject.toml"
    wanted = list_requirements(pyproject, extras or ("build",))
    if not extras:
        wanted = sorted({*wanted, *list_build_requirements(pyproject)})
    run(f"installing what {' and '.join(extras) or 'a build'} needs: {len(wanted)} packages and theirs", wanted)
    if not extras:
        how = ["--verbose", "--no-deps", "--no-build-isolation", "--config-settings=cmake.define.TOKCORE_WERROR=ON"]
        run("installing tokcore", [*how, "--editable", str(ROOT)])


if __name__ == "__main__":
    main()
