"""Write requirements.txt of the image again: every package with its version and hashes.

    python -m pip install pip-tools
    python deploy/image/lock_requirements.py

requirements.txt is what pyproject.toml asks for, with the extras build, clouds and gcp; build-requirements.txt is what
its build asks for. pip-compile asks the package index that pip is set up for, and keeps the versions that the files
have, unless pyproject.toml rules them out; `--upgrade` takes the newest.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / ".ci"))
from install import list_build_requirements, list_requirements  # noqa: E402

EXTRAS = ("build", "clouds", "gcp")

_OPTIONS = ("--generate-hashes", "--allow-unsafe", "--strip-extras", "--no-annotate", "--no-header", "--quiet")
_NO_HOSTS = ("--no-emit-index-url", "--no-emit-trusted-host", "--no-emit-find-links")  # of whoever runs this


def lock(wanted: list[str], target: Path) -> None:
    """Write versions and hashes of what is wanted, and of all that it needs."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "requirements.in"
        source.write_text("".join(f"{one}\n" for one in wanted))
        command = [sys.executable, "-m", "piptools", "compile", *_OPTIONS, *_NO_HOSTS, *sys.argv[1:]]
        subprocess.run([*command, "--output-file", str(target), str(source)], check=True)


def main() -> None:
    """Write both files, with what else for pip-compile is on the command line."""
    pyproject = HERE.parent.parent / "pyproject.toml"
    lock(list_build_requirements(pyproject), HERE / "build-requirements.txt")
    lock(list_requirements(pyproject, EXTRAS), HERE / "requirements.txt")


if __name__ == "__main__":
    main()
