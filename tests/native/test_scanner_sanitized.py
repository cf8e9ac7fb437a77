"""The scanners alone, without Python, under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

KERNEL = Path(__file__).parents[2] / "tokcore" / "native" / "kernel"
AVX2 = ["-mavx2", "-mbmi", "-mbmi2", "-mpclmul", "-mlzcnt", "-mpopcnt"]
WIDE = {"scanner_avx2": AVX2, "scanner_avx512": [*AVX2, *(f"-mavx512{x}" for x in ("f", "bw", "vl", "vbmi", "vbmi2"))]}


def test_scanners_stay_inside_of_the_text(tmp_path: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if not compiler:
        pytest.skip("no C++ compiler")
    sanitize = ["-std=c++20", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    probe = subprocess.run([compiler, *sanitize, "-x", "c++", "-", "-o", tmp_path / "probe"], input=b"int main() {}")
    if probe.returncode != 0:
        pytest.skip("this compiler has no sanitizers")
    on_x86 = platform.machine() in ("x86_64", "AMD64")
    objects = []
    for source in [*sorted(KERNEL.glob("scanner*.cpp")), KERNEL / "unicode_tables.cpp"]:
        flags = WIDE.get(source.stem, []) if on_x86 else []
        objects.append(tmp_path / f"{source.stem}.o")
        subprocess.run([compiler, *sanitize, *flags, "-c", source, "-o", objects[-1]], check=True)
    program = tmp_path / "scanner_check"
    check = Path(__file__).parent / "scanner_check.cpp"
    subprocess.run([compiler, *sanitize, f"-I{KERNEL}", check, *objects, "-o", program], check=True)
    done = subprocess.run([program, "6000"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
