"""The fuzz targets of the kernel, run by libFuzzer, or by driver.cpp, which takes the same arguments."""

from __future__ import annotations

import subprocess
from pathlib import Path

HERE = Path(__file__).parent
TARGETS = sorted(path.stem for path in HERE.glob("*.cpp") if path.stem not in ("driver", "coverage", "defective"))


def folders(target: str) -> list[Path]:
    """The inputs that a target starts from: examples of what it reads, and what it failed on or might fail on."""
    return [path for path in (HERE / "corpus" / target, HERE / "regressions" / target) if path.is_dir()]


def replay(program: Path, target: str, crashes: Path) -> subprocess.CompletedProcess[str]:
    """Run every file that is kept for a target."""
    files = sorted(file for folder in folders(target) for file in folder.iterdir())
    return _run(program, crashes, files)


def fuzz(program: Path, target: str, seed: int, limit: str, crashes: Path) -> subprocess.CompletedProcess[str]:
    """Run new inputs. limit: -runs=N or -max_total_time=SECONDS. What stops the program is written to crashes."""
    found = crashes / f"found-{target}"  # where libFuzzer keeps new inputs
    found.mkdir(parents=True, exist_ok=True)
    settings = [f"-seed={seed}", limit, "-max_len=8192", "-timeout=60", "-print_final_stats=1"]
    return _run(program, crashes, [*settings, found, *folders(target)])


def _run(program: Path, crashes: Path, arguments: list[str | Path]) -> subprocess.CompletedProcess[str]:
    prefix = f"-artifact_prefix={crashes / program.name}-"
    command = [program, prefix, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
