"""On the five packages of the base alone: the library reads what builds wrote, and a command says what to install.

No environment is made: a process finds no module that is not of the base.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from support.builds import ROOT, build_file, run_once, small_corpus

import tokcore
from tokcore.errors import FormatError
from tokcore.files import url_files
from tokcore.shards.format_table import SHARD_FORMATS
from tokcore_pipelines.local.extras import MODULES, describe_missing

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BASE = [Requirement(one).name for one in PROJECT["dependencies"]]

HIDE = f"""
import sys

class Hiding:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        is_there = top in sys.stdlib_module_names or top in {BASE!r} or top.startswith("tokcore")
        return self.finder.find_spec(name, path, target) if is_there else None

sys.meta_path[:] = map(Hiding, sys.meta_path)
"""

READ = """
import json
from pathlib import Path

import tokcore
from tokcore.shards.format_table import SHARD_FORMATS
from tokcore.train.loader import Loader

output = sys.argv[1]
tokenizer = tokcore.Tokenizer.load(output)
ids = tokenizer.encode("Straße")
assert tokenizer.decode(ids) == "Straße".encode()
assert tokenizer.encode_batch(["Straße"], threads=2).to_pylist() == [ids.tolist()]
found = {}
for name in SHARD_FORMATS:
    folder = Path(output, "shards", name)
    shards = tokcore.open_shards(folder)
    assert sum(len(batch.tokens) for batch in Loader(folder, length=16, batch_size=4)) > 0
    found[name] = sorted(shards[i].tolist() for i in range(len(shards)))
print(json.dumps([found, tokcore.open_counts(output, "ru").num_rows]))
"""


def run_on_base(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", HIDE + code, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build in every format."""
    folder = tmp_path_factory.mktemp("base")
    small_corpus(folder)
    settings = f"[learn]\nvocab_size = 400\n[shards]\nformats = {json.dumps(list(SHARD_FORMATS))}"
    run_once(build_file(folder, settings=settings), folder / "out")
    return folder / "out"


def test_the_library_encodes_counts_and_reads_every_format(output):
    done = run_on_base(READ, output)
    assert done.returncode == 0, done.stderr
    found, num_counted = json.loads(done.stdout)
    assert sorted(found) == sorted(SHARD_FORMATS)
    assert {len(documents) for documents in found.values()} == {102}
    assert all(documents == found["arrow"] for documents in found.values())
    assert num_counted == tokcore.open_counts(output, "ru").num_rows


@pytest.mark.parametrize(("program", "function"), [("tokcore", "main"), ("tokcore-worker", "work")])
def test_a_program_says_in_one_line_what_to_install(program, function):
    done = run_on_base(f"from tokcore_pipelines.start import {function}\n{function}()")
    told = f"{program}: builds need packages that are not installed ({', '.join(MODULES)}): "
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{told}pip install 'tokcore[build]'\n")


def test_only_what_is_missing_is_named():
    assert describe_missing() is None
    assert "not installed (isal)" in (describe_missing(find=lambda name: None if name == "isal" else name) or "")


def test_a_url_without_fsspec_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    for url, extra in (("s3://b/x", "s3"), ("memory://b/x", "url")):
        with pytest.raises(FormatError, match=rf"{url}: cannot be read: .*: pip install 'tokcore\[{extra}\]'"):
            url_files.read_first([url])
