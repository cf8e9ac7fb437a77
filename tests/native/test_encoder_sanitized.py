"""The encoder alone, without Python, under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from tokcore import _native

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
    names = ["encoder.cpp", "bpe_model.cpp", "cuts.cpp", "pair_ranks.cpp", "merge_lanes_portable.cpp"]
    sources = [Path(__file__).parent / "encoder_check.cpp", *(KERNEL / name for name in names), unused]
    wide = tmp_path / "merge_lanes_avx2.o"
    flags = ["-mavx2", "-mbmi", "-mbmi2", "-mlzcnt", "-mpopcnt"] if platform.machine() in ("x86_64", "AMD64") else []
    subprocess.run([compiler, *sanitize, *flags, "-c", KERNEL / "merge_lanes_avx2.cpp", "-o", wide], check=True)
    subprocess.run([compiler, *sanitize, f"-I{KERNEL}", *sources, wide, "-o", program], check=True)
    for implementation in _native.implementations():
        done = subprocess.run([program, "300", implementation], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
