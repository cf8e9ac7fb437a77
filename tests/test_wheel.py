"""The wheel brings no name that others are likely to have, and runs where theirs are found first.

In make test it is the real one, but for the kernel, which is that of this tree: compiling takes minutes. In make proof
it is the real one, installed without an index into clean environments: the base alone, and with each extra.
"""

from __future__ import annotations

import configparser
import functools
import http.server
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
import tomllib
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from lints.import_graph import NAMES
from support.builds import ROOT, build_file, jsonl

import tokcore._native
from tokcore.shards.format_table import SHARD_FORMATS

sys.path.insert(0, str(ROOT / "deploy" / "wheels"))
import build_wheel
import try_emulated
import try_wheel

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


# ------------------------------------------------------------------------------------------------- clean environments

# Extra -> modules that it brings, and the schemes of URLs that open with it. `clouds` is all of the stores together.
EXTRAS = {
    "build": (
        ["apache_beam", "click", "fsspec", "grpc", "isal", "prometheus_client", "rich", "warcio", "zstandard"],
        [],
    ),
    "url": (["fsspec"], ["memory"]),
    "http": (["aiohttp"], ["http", "https"]),
    "s3": (["s3fs", "botocore"], ["s3"]),
    "gcs": (["gcsfs"], ["gs"]),
    "azure": (["adlfs"], ["az", "abfs"]),
    "hf": (["huggingface_hub", "tokenizers"], ["hf"]),
    "pubsub": (["google.cloud.pubsub_v1"], []),
    "gcp": (["apache_beam.io.gcp.gcsio", "gcsfs", "click"], ["gs"]),
}
DEVELOPERS = {"bench", "clouds", "dev", "test"}
# Which the image has not pinned: tests/tokcore/test_transformers_tokenizer.py uses it.
ELSEWHERE = {"transformers"}
LOOK = """
import importlib
import sys

import tokcore

modules, schemes = (part.split(",") if part else [] for part in sys.argv[1:3])
for name in modules:
    importlib.import_module(name)
for scheme in schemes:
    import fsspec

    fsspec.get_filesystem_class(scheme)
if "http" in schemes:
    assert [len(ids) for ids in tokcore.open_shards(sys.argv[3])]
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The real wheel; what make compiled before is not compiled again."""
    folder = tmp_path_factory.mktemp("dist")
    told = ["--no-deps", "--no-build-isolation", "--config-settings=cmake.define.TOKCORE_WERROR=ON"]
    try_wheel.run([sys.executable, "-m", "pip", "wheel", "--quiet", *told, "--wheel-dir", folder, ROOT])
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory):
    """What all extras need, in the versions and with the hashes of the image."""
    folder = tmp_path_factory.mktemp("wheelhouse")
    told = ["--no-deps", "--require-hashes", "--wheel-dir", folder, "-r", ROOT / "deploy/image/requirements.txt"]
    try_wheel.run([sys.executable, "-m", "pip", "wheel", "--quiet", *told])
    return folder


@pytest.fixture(scope="module")
def built(wheel, wheelhouse, tmp_path_factory):
    """The environment with the extra build, a folder with modules of common names, and a build in every format."""
    folder = tmp_path_factory.mktemp("built")
    work = try_wheel.make_hostile_folder(folder / "work")
    made = try_wheel.make_environment(folder / "environment", wheel, "build", wheelhouse)
    (work / "en.jsonl").write_bytes(jsonl([{"id": "a", "text": "some text"}]))
    source = '[[source]]\nlang = "en"\nfiles = "en.jsonl"\nid = "id"'
    formats = ", ".join(f'"{name}"' for name in SHARD_FORMATS)
    path = build_file(work, source, f'[learn]\nmodel = "byte"\n[shards]\nformats = [{formats}]')
    for command in (["build", path, "--output", folder / "out"], ["verify", folder / "out"]):
        try_wheel.run([made.program, *command], cwd=work, env=try_wheel.clean_variables())
    return folder


def test_every_extra_is_tried():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {*EXTRAS} == {*extras} - DEVELOPERS - ELSEWHERE


@pytest.mark.proof
def test_the_base_alone_reads_every_format_and_is_six_packages(built, wheel, wheelhouse, tmp_path):
    made = try_wheel.make_environment(tmp_path / "environment", wheel, "", wheelhouse)
    names = {line.partition("==")[0].lower() for line in made.list_packages()}
    assert names == {"numpy", "orjson", "pyarrow", "regex", "tokcore", "unicodedata2"}
    try_wheel.read_on_base(made, built / "work", built / "out")
    done = subprocess.run([made.program], cwd=built / "work", capture_output=True, text=True, check=False)
    assert done.stderr.endswith(": pip install 'tokcore[build]'\n")


@pytest.mark.proof
@pytest.mark.parametrize("extra", EXTRAS)
def test_each_extra_brings_what_it_says(extra, built, wheel, wheelhouse, tmp_path):
    made = try_wheel.Environment(built / "environment")
    if extra != "build":
        made = try_wheel.make_environment(tmp_path / "environment", wheel, extra, wheelhouse)
    modules, schemes = EXTRAS[extra]
    serve = functools.partial(_Quiet, directory=str(built / "out"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        told = [",".join(modules), ",".join(schemes), f"http://127.0.0.1:{server.server_port}"]
        command = [made.python, "-P", "-c", LOOK, *told]
        try_wheel.run(command, cwd=built / "work", env=try_wheel.clean_variables())
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        """Nothing is printed."""


@pytest.mark.proof
@pytest.mark.skipif(try_emulated.find_emulator() is None, reason="no qemu-aarch64: apt-get install qemu-user-static")
@pytest.mark.skipif(find_spec("ziglang") is None, reason="no ziglang: pip install -r tests/deploy/requirements.txt")
def test_the_wheel_for_arm64_learns_what_the_definition_learns(tmp_path):
    wheel = build_wheel.build_wheel(try_emulated.PLATFORM, tmp_path / "dist")
    emulator = try_emulated.find_emulator()
    assert try_emulated.try_emulated(wheel, emulator, tmp_path / "emulated") == "2 kernels learn the same\n"
