"""tokcore works without its neighbours, workers load no Beam, and the public names are what the README says.

Who may import whom is a lint: tests/lints/layers.py.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lints.import_graph import module_of

import tokcore

ROOT = Path(__file__).parent.parent
PIPELINES = ROOT / "pipelines"
BEAMS = (
    "tokcore_pipelines.run.engines.",
    "tokcore_pipelines.run.beam",
    "tokcore_pipelines.transforms.",
)  # these load it


def run_python(code: str, **options) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_tokcore_works_where_foreign_packages_shadow_ours(tmp_path):
    for name in ("schemas", "pipelines", "tokcore_schemas", "tokcore_pipelines"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('a foreign package of the same name')\n")
    code = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]\n"
        "import tokcore\n"
        "print(tokcore.pretokenize('a b', pattern='gpt2'))\n"
        "foreign = {'apache_beam', 'fsspec', 'schemas', 'pipelines', 'tokcore_schemas', 'tokcore_pipelines'}\n"
        "assert not foreign & set(sys.modules), sorted(sys.modules)\n"
    )
    assert run_python(code, cwd=tmp_path) == "['a', ' b']\n"


def test_other_rooms_load_no_beam():
    """Workers, and commands without a Beam stage, would wait a second for it and give it 100 MB."""
    files = sorted(path.relative_to(ROOT).with_suffix("") for path in PIPELINES.rglob("*.py"))
    modules = [module_of(path.as_posix()) for path in files if path.name not in ("__init__", "lifeline")]
    code = (
        "import importlib, sys\n"
        f"for name in {[name for name in modules if not name.startswith(BEAMS)]}:\n"
        "    importlib.import_module(name)\n"
        "    assert 'apache_beam' not in sys.modules, name\n"
    )
    run_python(code, cwd=ROOT)


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
