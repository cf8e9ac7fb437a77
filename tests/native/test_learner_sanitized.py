"""Counter, row merger and learner alone, without Python, under the address, undefined and thread sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

KERNEL = Path(__file__).parents[2] / "tokcore" / "native" / "kernel"
SOURCES = ["counter.cpp", "learner.cpp", "row_merger.cpp", "unicode_tables.cpp"]


@pytest.mark.parametrize(("sanitizers", "rounds"), [("address,undefined", "40"), ("thread", "8")])
def test_counting_and_learning_are_clean(sanitizers: str, rounds: str, tmp_path: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if not compiler:
        pytest.skip("no C++ compiler")
    flags = ["-std=c++20", "-O1", "-g", f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all", "-pthread"]
    probe = subprocess.run([compiler, *flags, "-x", "c++", "-", "-o", tmp_path / "probe"], input=b"int main() {}")
    if probe.returncode != 0 or subprocess.run([tmp_path / "probe"]).returncode != 0:
        pytest.skip("this compiler or system has no such sanitizers")
    program = tmp_path / "learner_check"
    sources = [KERNEL / name for name in SOURCES]
    check = Path(__file__).parent / "learner_check.cpp"
    subprocess.run([compiler, *flags, f"-I{KERNEL}", check, *sources, "-o", program], check=True)
    done = subprocess.run([program, rounds], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
