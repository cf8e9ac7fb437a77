"""No process of a build imports pandas, which Arrow does unasked where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import builds


def test_a_build_imports_no_pandas(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    # Only a file tells: Arrow goes on without a pandas that cannot be imported.
    tell = f"open(os.path.join({str(marks)!r}, str(os.getpid())), 'w').write(repr(sys.argv))"
    fake = f"import os, sys\n{tell}\nraise ImportError"
    builds.write(tmp_path / "path" / "pandas" / "__init__.py", fake.encode())
    builds.small_corpus(tmp_path / "data")
    build = builds.build_file(tmp_path / "data")
    command = [sys.executable, "-m", "tokcore_pipelines.cli", "build", str(build), "--workers", "1", "--output"]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path / 'path'}{os.pathsep}{Path(__file__).parents[2]}"}
    done = subprocess.run([*command, str(tmp_path / "out")], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [mark.read_text() for mark in marks.iterdir()] == []


@pytest.mark.parametrize("first", ["import pyarrow", "import sys"])
def test_pandas_is_there_for_who_asks(first: str) -> None:
    code = (
        f"{first}\n"
        "import sys\n"
        "from tokcore_pipelines.local.spare_pandas import spare_pandas\n"
        "spare_pandas()\n"
        "import pyarrow as pa\n"
        "pa.array([1]).to_numpy()\n"
        "assert 'pandas' not in sys.modules\n"
        "assert list(pa.table({'a': [1]}).to_pandas()['a']) == [1]\n"
    )
    pytest.importorskip("pandas")
    subprocess.run([sys.executable, "-c", code], check=True)
