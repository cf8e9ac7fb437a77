"""The wheel brings no name that others are likely to have, and runs where theirs are found first.

It is the real one, but for the kernel, which is that of this tree: compiling takes minutes.
"""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from lints.import_graph import NAMES
from support.builds import ROOT, build_file, jsonl

import tokcore._native

BUILD = (
    "import sys\n"
    "from scikit_build_core import build\n"
    "getattr(build, sys.argv[1])(sys.argv[2], {'wheel.cmake': 'false'})\n"
)


def unpack(how: str, folder: Path) -> Path:
    """The folder with what the wheel puts into site-packages."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, how, folder], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has the wheel, its programs beside it, and the packages of this one, but not its tokcore."""
    folder = tmp_path_factory.mktemp("wheel")
    unpacked = unpack("build_wheel", folder)
    shutil.copy(Path(tokcore._native.__file__), unpacked / "tokcore")
    venv.create(folder / "venv", symlinks=True)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder / "venv")}))
    # The .pth files of folders that a .pth file names are not run: one of them is that of this tree's tokcore.
    others = [place for place in sys.path if place.endswith("site-packages")]
    (packages / "wheel.pth").write_text("".join(f"{place}\n" for place in [unpacked, *others]))
    entries = configparser.ConfigParser()
    entries.read(next(unpacked.glob("*.dist-info/entry_points.txt")))
    for name, entry in entries["console_scripts"].items():
        module, function = entry.split(":")
        program = folder / "venv" / "bin" / name
        text = f"#!{folder}/venv/bin/python\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n"
        program.write_text(text)
        program.chmod(0o755)
    return folder


def test_what_stands_in_site_packages(installed):
    found = {path.name for path in (installed / "unpacked").iterdir() if not path.name.endswith(".dist-info")}
    assert found == {"tokcore", "tokcore_pipelines", "tokcore_schemas"}


def test_the_command_runs_among_packages_of_the_same_names(installed, tmp_path):
    text = "raise RuntimeError('a foreign module')\n"
    for folder in ("work", "path"):
        for name in ("pipelines", "schemas"):
            (tmp_path / folder / name).mkdir(parents=True)
            (tmp_path / folder / name / "__init__.py").write_text(text)
    (tmp_path / "work" / "json.py").write_text(text)
    (tmp_path / "work" / "en.jsonl").write_bytes(jsonl([{"id": "a", "text": "some text"}]))
    source = '[[source]]\nlang = "en"\nfiles = "en.jsonl"\nid = "id"'
    path = build_file(tmp_path / "work", source, '[learn]\nmodel = "byte"')
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "path")}
    for command in (["build", path, "--output", "out"], ["verify", "out"]):
        program = installed / "venv" / "bin" / "tokcore"
        done = subprocess.run(
            [program, *command], cwd=tmp_path / "work", env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_an_editable_install_finds_modules_by_their_names(tmp_path):
    unpacked = unpack("build_editable", tmp_path)
    code = (
        "import sys\n"
        "sys.modules.pop('_editable_skbc_tokcore', None)  # that of this interpreter, and what it put in\n"
        "sys.meta_path[:] = [one for one in sys.meta_path if type(one).__module__ != '_editable_skbc_tokcore']\n"
        f"sys.path[:] = [{str(unpacked)!r}, *(place for place in sys.path if place != {str(ROOT)!r})]\n"
        "import _editable_skbc_tokcore\n"
        "import tokcore_pipelines.work.semantics, tokcore_schemas\n"
        "print(tokcore_pipelines.work.semantics.__file__, tokcore_schemas.__file__)\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    files = [".packages/tokcore_pipelines/work/semantics.py", ".packages/tokcore_schemas/__init__.py"]
    assert done.stdout.split() == [f"{ROOT}/{file}" for file in files], done.stderr


def test_a_checkout_has_the_names_that_the_wheel_has():
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]["wheel"]["packages"]
    assert set(packages) == {"tokcore", *(f".packages/{name}" for name in NAMES.values())}
    for folder, name in NAMES.items():
        assert (ROOT / ".packages" / name).readlink() == Path("..", folder)
