"""Mask finder and id counter alone, without Python, under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

KERNEL = Path(__file__).parents[2] / "tokcore" / "native" / "kernel"


def test_masks_and_id_counts_are_clean(tmp_path: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if not compiler:
        pytest.skip("no C++ compiler")
    flags = ["-std=c++20", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    probe = subprocess.run([compiler, *flags, "-x", "c++", "-", "-o", tmp_path / "probe"], input=b"int main() {}")
    if probe.returncode != 0 or subprocess.run([tmp_path / "probe"]).returncode != 0:
        pytest.skip("this compiler or system has no such sanitizers")
    sources = [Path(__file__).parent / "audit_check.cpp", KERNEL / "mask_finder.cpp", KERNEL / "id_counter.cpp"]
    program = tmp_path / "audit_check"
    subprocess.run([compiler, *flags, f"-I{KERNEL}", *sources, "-o", program], check=True)
    done = subprocess.run([program, "20000"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
