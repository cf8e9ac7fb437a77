"""The page for trainers reads the shards, with the libraries that tests have; `make clients` has the others."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from clients.read import READERS
from pages.trainers import build_for, list_trainers
from support.builds import ROOT

TRAINERS = list_trainers()
HERE = [name for name in TRAINERS if name not in READERS or name == "huggingface"]
# Of tensorflow, which is not installed, the page takes one class, whose maps are lists where protobuf reads them here.
_EXAMPLE = """
import sys, types
from tf_examples import find_class
def read(data):
    entries = find_class().FromString(data).features.feature
    return types.SimpleNamespace(features=types.SimpleNamespace(feature={one.key: one.value for one in entries}))
example = types.SimpleNamespace(FromString=read)
sys.modules["tensorflow"] = types.SimpleNamespace(train=types.SimpleNamespace(Example=example))
"""


def test_all_are_read_here_or_by_make_clients():
    assert sorted(HERE) == ["array_record", "huggingface", "llmc", "nanogpt"]
    assert set(TRAINERS) == {*HERE, *READERS}


@pytest.mark.parametrize("name", HERE)
def test_the_page_reads_the_shards(name, tmp_path):
    ids = build_for(TRAINERS[name], tmp_path)
    code = (_EXAMPLE if name == "array_record" else "") + TRAINERS[name].compared
    command = [sys.executable, "-c", code, ids]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 16
