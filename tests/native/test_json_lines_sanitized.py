"""The reader of JSON lines alone, without Python, under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

KERNEL = Path(__file__).parents[2] / "tokcore" / "native" / "kernel"


def test_json_lines_stay_inside_of_their_bytes(tmp_path: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if not compiler:
        pytest.skip("no C++ compiler")
    sanitize = ["-std=c++20", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    probe = subprocess.run([compiler, *sanitize, "-x", "c++", "-", "-o", tmp_path / "probe"], input=b"int main() {}")
    if probe.returncode != 0:
        pytest.skip("this compiler has no sanitizers")
    program = tmp_path / "json_lines_check"
    sources = [Path(__file__).parent / "json_lines_check.cpp", KERNEL / "json_lines.cpp"]
    subprocess.run([compiler, *sanitize, f"-I{KERNEL}", *sources, "-o", program], check=True)
    done = subprocess.run([program, "40000"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
