"""Fuzz the kernel and the readers for a while each: make fuzz [FUZZ_SECONDS=60] [TARGET=...] [SEED=1].

With clang and its libFuzzer if both are installed (or CXX), else with g++ and driver.cpp. An input that stops a target
is kept in out/fuzz. Once the defect is fixed, the input belongs in tests/fuzz/regressions/TARGET.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from fuzz import row_files
from fuzz.artifacts import KINDS, fuzz_artifacts
from fuzz.targets import TARGETS, fuzz, replay
from support.sanitized import Programs


def main() -> int:
    everything = [*TARGETS, *KINDS, *row_files.KINDS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--target", action="append", choices=everything)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("out/fuzz"))
    arguments = parser.parse_args()
    targets = arguments.target or everything
    arguments.output.mkdir(parents=True, exist_ok=True)
    native = [target for target in targets if target in TARGETS]
    failed = []
    programs = None
    if native:
        compiler = os.environ.get("CXX") or _clang()
        programs = Programs(arguments.output / "build", compiler)
    for target in targets:
        if target in KINDS:
            reason = fuzz_artifacts([target], arguments.seed, arguments.output, seconds=arguments.seconds)
        elif target in row_files.KINDS:
            reason = row_files.fuzz_row_files(target, arguments.seed, arguments.output, seconds=arguments.seconds)
        else:
            assert programs is not None
            reason = _fuzz(programs, target, arguments)
        print(f"{target}: {reason or 'nothing found'}", flush=True)
        failed += [target] if reason else []
    return 1 if failed else 0


def _fuzz(programs: Programs, target: str, arguments: argparse.Namespace) -> str:
    """What is wrong, if anything."""
    (program,) = programs(f"fuzz_{target}")
    done = replay(program, target, arguments.output)
    if done.returncode == 0:
        limit = f"-max_total_time={arguments.seconds}"
        done = fuzz(program, target, arguments.seed, limit, arguments.output)
    if done.returncode == 0:
        print("\n".join(done.stdout.splitlines()[-1:]))
        return ""
    return f"failed with seed {arguments.seed}, its input is in {arguments.output}:\n{done.stdout[-6000:]}"


def _clang() -> str:
    """clang++ if it can fuzz, else ""."""
    compiler = shutil.which("clang++")
    if not compiler:
        return ""
    source = b'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'
    command = [compiler, "-fsanitize=fuzzer,address,undefined", "-x", "c++", "-", "-o", os.devnull]
    return compiler if subprocess.run(command, input=source, capture_output=True).returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main())
