"""Wheels for other machines: what each platform is, and what a wheel of it may need."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from golden.test_demo import DEMO_ROOT

ROOT = Path(__file__).parents[2]
PYTHONS = ["3.11", "3.12", "3.13"]

sys.path.insert(0, str(ROOT / "deploy" / "wheels"))
from build_wheel import parse_platform, require_versions, write_sums  # noqa: E402


def test_platforms_have_targets():
    assert parse_platform("manylinux_2_28_x86_64").target == "x86_64-linux-gnu.2.28"
    assert parse_platform("manylinux_2_17_aarch64").target == "aarch64-linux-gnu.2.17"
    assert parse_platform("musllinux_1_2_aarch64").target == "aarch64-linux-musl"
    with pytest.raises(SystemExit, match="expected for example"):
        parse_platform("win_amd64")


GNU, MUSL = "manylinux_2_28_aarch64", "musllinux_1_2_aarch64"


@pytest.mark.parametrize(
    ("name", "machine", "asked", "message"),
    [
        (GNU, b"\xb7\0", b"GLIBC_2.17 GLIBC_2.28", ""),
        (GNU, b"\xb7\0", b"GLIBC_2.17 GLIBC_2.29", "needs the C library 2.29"),
        (GNU, b"\x3e\0", b"GLIBC_2.17", "is for another machine than aarch64"),
        (MUSL, b"\xb7\0", b"libc.so", ""),
        (MUSL, b"\xb7\0", b"GLIBC_2.17", "needs GNU's C library"),
    ],
)
def test_wheels_for_another_machine_are_looked_at(name, machine, asked, message, tmp_path):
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tokcore/_native.so", bytes(18) + machine + asked)
    platform = parse_platform(name)
    if not message:
        require_versions(wheel, platform)
        return
    with pytest.raises(SystemExit, match=message):
        require_versions(wheel, platform)


def test_hashes_are_those_that_sha256sum_checks(tmp_path):
    for name in ("b.whl", "a.whl"):
        (tmp_path / name).write_text(name)
    write_sums(tmp_path)
    subprocess.run(["sha256sum", "--strict", "--check", "SHA256SUMS"], cwd=tmp_path, check=True)
    assert [line.split()[1] for line in (tmp_path / "SHA256SUMS").read_text().splitlines()] == ["a.whl", "b.whl"]
    (tmp_path / "a.whl").write_text("b")
    assert subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, check=False).returncode != 0


def test_the_release_builds_and_tries_what_its_page_promises():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    assert jobs["env"]["DEMO_ROOT"] == DEMO_ROOT
    text = str(jobs["jobs"])
    built = set(re.findall(r"(?:many|musl)linux_\d+_\d+_\w+", text))
    assert {parse_platform(name).machine for name in built} == {"x86_64", "aarch64"}
    assert len(built) == 4
    for name, job in jobs["jobs"].items():
        matrix = job.get("strategy", {}).get("matrix", {})
        assert matrix.get("python", PYTHONS) == PYTHONS, name
    assert set(jobs["jobs"]["release"]["needs"]) == {name for name in jobs["jobs"] if name not in ("linux", "release")}
