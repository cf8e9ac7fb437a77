"""Names by which modules were imported before find them: in what engines stored, and in programs of users."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from lints.import_graph import NAMES
from support.builds import ROOT

from tokcore import earlier_names


def run_python(folder: Path, code: str) -> str:
    """What it prints where our packages are found by their names alone, as in site-packages."""
    for name in ("tokcore", *NAMES.values()):
        (folder / name).symlink_to(ROOT / name)
    found = f"import sys\nsys.path[:] = [{str(folder)!r}, *(one for one in sys.path if one != {str(ROOT)!r})]\n"
    done = subprocess.run(
        [sys.executable, "-P", "-c", found + code], capture_output=True, text=True, check=False, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("earlier", sorted(earlier_names._MOVED))
def test_a_module_that_moved_is_the_same_by_both_names(earlier):
    now = importlib.import_module(f"tokcore.{earlier_names._MOVED[earlier]}")
    said = now.__spec__
    assert importlib.import_module(f"tokcore.{earlier}") is now
    assert now.__spec__ is said


def test_a_stored_step_is_found_by_the_name_of_an_earlier_release(tmp_path):
    code = (
        "import pickle\n"
        "from tokcore_pipelines.run.engines.earlier_names import read_earlier_names\n"
        "read_earlier_names()\n"
        "found = pickle.loads(b'cpipelines.store.urls\\njoin\\n.')\n"
        "from tokcore_pipelines.store import urls\n"
        "assert found is urls.join\n"
        "import schemas.refs, tokcore_schemas.refs\n"
        "assert schemas.refs is tokcore_schemas.refs\n"
        "copies = [name for name, one in sys.modules.items() if name[:10] == 'pipelines.' and one.__name__ == name]\n"
        "assert not copies, copies\n"
    )
    run_python(tmp_path, code)


def test_a_package_of_the_user_keeps_its_name(tmp_path):
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "__init__.py").write_text("mine = True\n")
    (tmp_path / "pipelines" / "store.py").write_text("mine = True\n")
    code = (
        "from tokcore_pipelines.run.engines.earlier_names import read_earlier_names\n"
        "read_earlier_names()\n"
        "import pipelines.store\n"
        "print(pipelines.mine, pipelines.store.mine)\n"
    )
    assert run_python(tmp_path, code) == "True True\n"


def test_a_name_that_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'tokcore\.nothing'"):
        importlib.import_module("tokcore.nothing")


def test_a_step_is_found_where_its_module_is_now(tmp_path):
    code = (
        "import importlib, sys\n"
        "from tokcore_pipelines.run.engines import earlier_names\n"
        "earlier_names.read_earlier_names()\n"
        "for earlier, name in earlier_names._MOVED.items():\n"
        "    now = importlib.import_module(f'tokcore_pipelines.{name}')\n"
        "    assert importlib.import_module(f'pipelines.{earlier}') is now, earlier\n"
        "    assert now.__name__ == now.__spec__.name == f'tokcore_pipelines.{name}', earlier\n"
    )
    run_python(tmp_path, code)
