"""A finished build of a small corpus, and copies of its output."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.builds import build_file, run_once, small_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with its build file, build.toml, and the output of the build, out. Tests leave it as it is."""
    folder = tmp_path_factory.mktemp("corpus")
    small_corpus(folder)
    run_once(build_file(folder), folder / "out")
    return folder


@pytest.fixture
def output(corpus: Path, tmp_path: Path) -> Path:
    """A copy of that output."""
    return Path(shutil.copytree(corpus / "out", tmp_path / "out"))
