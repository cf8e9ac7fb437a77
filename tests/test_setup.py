"""The base is what the library imports, the extra `build` what builds add, and `make` installs each without compiling
again."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tokcore_pipelines.local.extras import MODULES

ROOT = Path(__file__).parent.parent
PYPROJECT = ROOT / "pyproject.toml"
# Where the module has another name than the package.
PACKAGES = {"grpc": "grpcio"}


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


install, lines = load("install"), load("lines")

# google.protobuf comes with Beam. The one file that needs more of it is for Dataflow, and is imported for that alone.
WITH_BEAM = {"google"}
BUILD_TOOLS = {"cmake", "nanobind", "ninja", "scikit-build-core"}


def list_names(*extras: str) -> set[str]:
    return {canonicalize_name(Requirement(one).name) for one in install.list_requirements(PYPROJECT, extras)}


LIBRARY = ("tokcore", "schemas")


def list_imports(*folders: str, at_start: bool = False) -> set[str]:
    """Packages of others that the files of these folders import: at their start, or anywhere."""
    found = set()
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        if {ROOT / "tokcore" / "native", ROOT / "tokcore" / "testing"} & {*path.parents}:
            continue  # what writes tables of C++; suites, which pytest runs
        tree = ast.parse(path.read_text())
        for node in tree.body if at_start else ast.walk(tree):
            if isinstance(node, ast.Import):
                found.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").split(".")[0])
    ours = {"tokcore", "tokcore_schemas", "tokcore_pipelines"}
    return {canonicalize_name(PACKAGES.get(name, name)) for name in found - ours - sys.stdlib_module_names}


def test_the_base_is_what_the_library_imports():
    # For URLs, the Hub, bars in notebooks, tensors, and tokenizers of transformers.
    asked_for = {"fsspec", "huggingface-hub", "ipython", "torch", "transformers"}
    assert list_imports(*LIBRARY) - list_names() == asked_for
    assert list_names() == list_imports(*LIBRARY, at_start=True)


def test_the_extra_build_is_what_builds_import_on_top():
    added = list_names("build") - list_names()
    assert list_imports("pipelines", at_start=True) - list_names() - WITH_BEAM == added
    assert {canonicalize_name(PACKAGES.get(name, name)) for name in MODULES} == added, "what the programs look for"


def test_extras_are_followed_and_come_with_the_base_but_without_what_compiles():
    dev = list_names("dev")
    assert {"mypy", "pytest", "gcsfs"} < dev, "its own, those of test, and those of test's gcp"
    assert list_names("build") < dev, "so that pip finds versions that suit both"
    assert not BUILD_TOOLS - dev
    assert "tokcore" not in dev, "or pip would compile it again"


@pytest.mark.parametrize(
    ("target", "installs"),
    [("demo", [""]), ("test", ["", " dev"]), ("lint", ["", " dev"]), ("bench", ["", " dev", " bench"])],
)
def test_what_a_target_installs_in_a_fresh_clone(tmp_path, target, installs):
    command = ["make", "--dry-run", target, f"VENV={tmp_path}"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"(?m)\.ci/install\.py(.*)$", printed) == installs
    assert "pip install" not in printed


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Collecting click<9,>=8.1", "looking for click<9,>=8.1"),
        ("  Downloading pyarrow-25.0.1-cp311.whl (47.6 MB)", "downloading pyarrow-25.0.1-cp311.whl (47.6 MB)"),
        ("Installing collected packages: six, numpy, click", "installing 3 packages"),
        ("  [7/64] Building CXX object learner.cpp.o", "compiling the kernel: 7 of 64"),
        ("Requirement already satisfied: click", None),
    ],
)
def test_steps_of_pip_and_ninja_in_our_words(line, step):
    assert install.read_step(line) == step


def test_what_pip_says_is_shown_if_it_fails(capsys):
    with pytest.raises(SystemExit, match=r"(?s)no such option: --nothing.*installing it: pip failed"):
        install.run("installing it", ["--nothing"])
    assert capsys.readouterr().out == "installing it\n"


def test_lines_of_the_product_are_counted_without_data_and_what_generators_write(tmp_path):
    held = {
        "tokcore/text/a.py": b"1\n2\n",
        "tokcore/native/CMakeLists.txt": b"1\n",
        "deploy/README.md": b"1\n",
        "deploy/image/requirements.txt": b"numpy\n",
        "deploy/demo/a.jsonl": b"{}\n",
        "tokcore/text/table.cpp": b"// Written by generate_table.py; do not edit.\n1, 2\n",
        "tests/test_a.py": b"1\n",
    }
    for name, data in held.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    for command in (["init", "--quiet"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    counted = lines.list_files(tmp_path, lines.FOLDERS)
    assert sorted(counted) == ["deploy/README.md", "tokcore/native/CMakeLists.txt", "tokcore/text/a.py"]
