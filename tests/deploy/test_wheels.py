"""Wheels for other machines: what each platform is, and what a wheel of it may need."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "deploy" / "wheels"))
from build_wheel import parse_platform, require_versions


def test_platforms_have_targets():
    assert parse_platform("manylinux_2_28_x86_64").target == "x86_64-linux-gnu.2.28"
    assert parse_platform("manylinux_2_17_aarch64").target == "aarch64-linux-gnu.2.17"
    with pytest.raises(SystemExit, match="expected for example"):
        parse_platform("win_amd64")


@pytest.mark.parametrize(
    ("machine", "asked", "message"),
    [
        (b"\xb7\0", b"GLIBC_2.17 GLIBC_2.28", ""),
        (b"\xb7\0", b"GLIBC_2.17 GLIBC_2.29", "needs the C library 2.29"),
        (b"\x3e\0", b"GLIBC_2.17", "is for another machine than aarch64"),
    ],
)
def test_wheels_for_another_machine_are_looked_at(machine, asked, message, tmp_path):
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tokcore/_native.so", bytes(18) + machine + asked)
    platform = parse_platform("manylinux_2_28_aarch64")
    if not message:
        require_versions(wheel, platform)
        return
    with pytest.raises(SystemExit, match=message):
        require_versions(wheel, platform)
