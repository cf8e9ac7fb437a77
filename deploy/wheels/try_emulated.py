"""See that a wheel for arm64 learns what the definition learns, on a machine that is none, by qemu-user.

    python deploy/wheels/try_emulated.py dist/tokcore-0.1.0-cp311-cp311-manylinux_2_28_aarch64.whl

Python for arm64 comes from Debian's packages, which are unpacked and not installed: the wheel must be for the Python of
this machine's Debian. unicodedata2 has no wheel for arm64 and new Pythons, so it is compiled, by the package ziglang.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from build_wheel import parse_platform, write_compilers
from try_wheel import LEARN, ROOT, clean_variables, make_hostile_folder, run

PLATFORM = "manylinux_2_28_aarch64"
_TAGS = (PLATFORM, "manylinux_2_27_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64", "linux_aarch64")
_COMPILED = "unicodedata2"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
_DEBIAN = (
    *(f"python{VERSION}-minimal", f"libpython{VERSION}-minimal", f"libpython{VERSION}-stdlib"),
    *("libc6", "libgcc-s1", "libstdc++6", "zlib1g", "libexpat1", "libssl3", "libffi8", "libbz2-1.0", "liblzma5"),
)


def find_emulator() -> str | None:
    """The program that runs those of arm64; None if it is not installed."""
    return shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")


def unpack_python(folder: Path) -> Path:
    """The root of a system for arm64 that has Python. Nothing of this system is changed."""
    for name in ("lists/partial", "cache/archives/partial", "packages", "root"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    told = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Dir::State::status": folder / "status",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "--quiet", "--quiet", *(part for key, value in told.items() for part in ("-o", f"{key}={value}"))]
    run([*apt, "update"])
    run([*apt, "download", *_DEBIAN], cwd=folder / "packages")
    for package in (folder / "packages").glob("*.deb"):
        run(["dpkg-deb", "--extract", package, folder / "root"])
    return folder / "root"


def list_base() -> list[str]:
    """The packages of the base, in the versions of the image."""
    lines = (ROOT / "deploy" / "image" / "requirements.txt").read_text().splitlines()
    names = ("numpy", "orjson", "pyarrow", "regex", _COMPILED)
    return [line.rstrip(" \\") for line in lines if line.partition("==")[0] in names]


def install(wheel: Path, folder: Path) -> Path:
    """A folder with the wheel and the base, for arm64."""
    tools = write_compilers(folder / "tools", parse_platform(PLATFORM).target)
    compiler: Mapping[str, str] = {
        "CC": str(tools["cc"]),
        "LDSHARED": f"{tools['cc']} -shared",
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{VERSION.replace('.', '')}-aarch64-linux-gnu.so",
        "_PYTHON_HOST_PLATFORM": "linux-aarch64",
    }
    pip: Sequence[object] = (sys.executable, "-m", "pip", "--quiet")
    (compiled,) = (one for one in list_base() if one.startswith(_COMPILED))
    away = ["--no-deps", "--no-cache-dir", "--no-binary", _COMPILED, "--wheel-dir", folder / "compiled"]
    run([*pip, "wheel", *away, compiled], env={**clean_variables(), **compiler})
    others = [one for one in list_base() if one != compiled]
    tags = [part for tag in _TAGS for part in ("--platform", tag)]
    told = ["--no-deps", "--no-compile", "--only-binary=:all:", "--python-version", VERSION, *tags]
    run([*pip, "install", *told, "--target", folder / "site", *others, wheel, *(folder / "compiled").glob("*.whl")])
    return folder / "site"


def try_emulated(wheel: Path, emulator: str, folder: Path) -> str:
    """What the check prints. Raises SystemExit if it fails."""
    root = unpack_python(folder / "system")
    site = install(wheel, folder)
    work = make_hostile_folder(folder / "work")
    python = [emulator, "-L", root, root / "usr" / "bin" / f"python{VERSION}"]
    return run([*python, "-P", "-c", LEARN], cwd=work, env=clean_variables(site))


def main() -> None:
    """Try the wheel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    given = parser.parse_args()
    if (emulator := find_emulator()) is None:
        raise SystemExit("qemu-aarch64 is not there: apt-get install qemu-user-static")
    with tempfile.TemporaryDirectory() as folder:
        print(try_emulated(given.wheel.resolve(), emulator, Path(folder)), end="")


if __name__ == "__main__":
    main()
