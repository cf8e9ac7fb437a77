"""tokcore <- schemas <- pipelines: who may import whom, and that the public names are what the README says."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tokcore

ROOT = Path(__file__).parent.parent

# What no layer below pipelines may import: keeping it out is a promise (import tokcore in a trainer), or it belongs
# in one place of pipelines.
OUTSIDE = {"apache_beam", "fsspec", "socket", "urllib", "http", "time", "datetime", "click"}
# Exceptions: imported only when a user asks for it, as open_shards of a URL does.
DOORS = {"tokcore/url_files.py": {"fsspec"}}
FORBIDDEN = {
    "tokcore": {"schemas", "pipelines", *OUTSIDE},
    "schemas": {"pipelines", *OUTSIDE},
    "pipelines": set(),
}

PIPELINES = ROOT / "pipelines"

# Who may import whom inside pipelines: each folder, and what it may reach. The command line and the reports are on top.
ROOMS = {
    "commands": {
        "inspect",
        "local",
        "report",
        "stages",
        "store",
        "view",
        "watch",
        "print_build.py",
        "print_check.py",
        "print_log.py",
        "print_reports.py",
        "show.py",
        "show_document.py",
    },
    "stages": {"graph", "local", "reading", "slices", "store", "work"},
    "graph": {"local", "store", "work"},
    "slices": {"local", "store", "work"},
    "work": {"local", "reading", "store"},
    "reading": {"store"},
    "store": set(),
    "local": {"store"},
    "inspect": {"local", "reading", "stages", "store", "work"},
    "report": {"inspect", "local", "stages", "store"},
    "view": {"inspect", "report", "stages", "store"},
    "watch": {"graph", "local", "stages", "store", "work"},
}


def imports_of(path: Path) -> set[str]:
    """Dotted names of the modules, or of what is imported from them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def packages_of(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports_of(path)}


def modules_of(path: Path) -> set[Path]:
    """The files of pipelines that a module imports, at its top or inside a function."""
    files = set()
    for name in imports_of(path):
        *folders, last = name.split(".")
        candidates = [ROOT.joinpath(*folders, f"{last}.py"), ROOT.joinpath(*folders).with_suffix(".py")]
        files.update(file for file in candidates if file.is_relative_to(PIPELINES) and file.is_file())
    return files


MODULES = sorted(path for layer in FORBIDDEN for path in (ROOT / layer).rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_arrows(path):
    layer = path.relative_to(ROOT).parts[0]
    if path.name == "generate_unicode_tables.py":  # a developer's tool, not part of the package
        return
    allowed = DOORS.get(str(path.relative_to(ROOT)), set())
    assert not packages_of(path) & (FORBIDDEN[layer] - allowed)


def run_python(code: str, **options) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_tokcore_works_where_foreign_packages_shadow_ours(tmp_path):
    for name in ("schemas", "pipelines"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('a foreign package of the same name')\n")
    code = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]\n"
        "import tokcore\n"
        "print(tokcore.pretokenize('a b', pattern='gpt2'))\n"
        "assert not {'apache_beam', 'fsspec', 'schemas', 'pipelines'} & set(sys.modules), sorted(sys.modules)\n"
    )
    assert run_python(code, cwd=tmp_path) == "['a', ' b']\n"


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_follow_the_arrows(room):
    for path in sorted((PIPELINES / room).rglob("*.py")):
        reached = {file.relative_to(PIPELINES).parts[0] for file in modules_of(path)} - {room}
        assert reached <= ROOMS[room], path


def test_every_room_is_known():
    folders = {path.name for path in PIPELINES.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(ROOMS)
    assert len(list(PIPELINES.glob("*.py"))) <= 15


def test_no_module_imports_itself_in_a_circle():
    files = sorted(PIPELINES.rglob("*.py"))
    # Two steps: what is left after removing, again and again, all that imports nothing that is left.
    left = {path: modules_of(path) - {path} for path in files}
    while free := [path for path, imported in left.items() if not imported & set(left)]:
        for path in free:
            del left[path]
    assert not left


def test_only_graph_imports_beam():
    having = {path.relative_to(PIPELINES).parts[0] for path in MODULES if "apache_beam" in packages_of(path)}
    assert having == {"graph"}


@pytest.mark.parametrize("files", ["*.py", *(f"{room}/*.py" for room in sorted(set(ROOMS) - {"graph"}))])
def test_other_rooms_load_no_beam(files):
    """Workers, and commands without a Beam stage, would wait a second for it and give it 100 MB."""
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in PIPELINES.glob(files)]
    imports = "".join(f"import {name}\n" for name in sorted(modules) if not name.endswith(("__init__", "lifeline")))
    run_python(f"import sys\n{imports}assert 'apache_beam' not in sys.modules", cwd=ROOT)


def test_public_names():
    assert sorted(tokcore.__all__) == [
        "ChecksumError",
        "ConfigError",
        "FormatError",
        "IdentityError",
        "LearnError",
        "Merge",
        "StageError",
        "TokError",
        "Tokenizer",
        "VersionError",
        "__version__",
        "count_pretokens",
        "learn_bpe",
        "open_counts",
        "open_shards",
        "pretokenize",
    ]
    for name in tokcore.__all__:
        assert getattr(tokcore, name) is not None
