"""The encoder alone, without Python, under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

KERNEL = Path(__file__).parents[2] / "tokcore" / "native" / "kernel"


def test_encoder_stays_inside_of_its_memory(tmp_path: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if not compiler:
        pytest.skip("no C++ compiler")
    sanitize = ["-std=c++20", "-O1", "-g", "-pthread", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    probe = subprocess.run([compiler, *sanitize, "-x", "c++", "-", "-o", tmp_path / "probe"], input=b"int main() {}")
    if probe.returncode != 0:
        pytest.skip("this compiler has no sanitizers")
    program = tmp_path / "encoder_check"
    unused = tmp_path / "unused.cpp"  # the texts come in pieces
    unused.write_text(
        '#include "scanner.h"\n'
        "size_t tokcore::Scanner::scan(const uint8_t*, size_t, size_t, uint64_t*, size_t) const { return 0; }\n"
    )
    sources = [Path(__file__).parent / "encoder_check.cpp", KERNEL / "encoder.cpp", KERNEL / "bpe_model.cpp", unused]
    subprocess.run([compiler, *sanitize, f"-I{KERNEL}", *sources, "-o", program], check=True)
    done = subprocess.run([program, "300"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
