"""tokcore <- schemas <- pipelines: who may import whom, and that the public names are what the README says."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tokcore

ROOT = Path(__file__).parent.parent

# What each layer must not reach: itself a promise (import tokcore in a trainer), or a door that is elsewhere.
OUTSIDE = {"apache_beam", "fsspec", "socket", "urllib", "http", "time", "datetime", "click"}
FORBIDDEN = {
    "tokcore": {"schemas", "pipelines", *OUTSIDE},
    "schemas": {"pipelines", *OUTSIDE},
    "pipelines": set(),
}

# Modules that worker processes and commands without a Beam stage load: importing Beam there would cost each of them a
# second and 100 MB.
WITHOUT_BEAM = (
    "worker",
    "pool",
    "storage",
    "read",
    "plan",
    "learn",
    "rejects",
    "count_item",
    "encode_item",
    "decode_item",
    "documents",
    "crashpoints",
    "build",
    "report",
    "verify",
)


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add((node.module or "").split(".")[0])
    return found


MODULES = sorted(path for layer in FORBIDDEN for path in (ROOT / layer).rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_arrows(path):
    layer = path.relative_to(ROOT).parts[0]
    if path.name == "generate_unicode_tables.py":  # a developer's tool, not part of the package
        return
    assert not imports_of(path) & FORBIDDEN[layer]


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


@pytest.mark.parametrize("module", WITHOUT_BEAM)
def test_workers_load_no_beam(module):
    run_python(f"import sys, pipelines.{module}\nassert 'apache_beam' not in sys.modules", cwd=ROOT)


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
        "open_shards",
        "pretokenize",
    ]
    for name in tokcore.__all__:
        assert getattr(tokcore, name) is not None
