"""An output of format_version 1, as a release before the Merkle root left it, is read by every command that reads."""

from __future__ import annotations

import json
import shutil

import pytest
from support.builds import ROOT, tokcore

import tokcore as package
from tokcore.errors import ChecksumError
from tokcore_pipelines.check.verify import verify
from tokcore_schemas.stage_table import parse_manifest

EARLIER = ROOT / "tests" / "data" / "version_1"
# The build file that made it.
BUILD_FILE = """version = 1

[build]
output = "out"
max_rejected = 1

[[source]]
lang = "en"
files = "en.jsonl"

[[source]]
lang = "de"
files = "de.jsonl"

[learn]
vocab_size = 280

[shards]
formats = ["arrow", "megatron", "nanogpt"]
validation = 0.2
"""
EARLIER_ROOT = "1a20de3a0656bd63817c2a034cf99e0481295615db6f542262244da9e2cf7983"


def test_it_is_verified_with_its_own_root():
    report = verify(str(EARLIER), root=EARLIER_ROOT)
    assert (report.problems, report.num_read) == ((), 7)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["show", "OUTPUT"], "2 shards in"),
        (["audit", "OUTPUT"], "154 tokens in 7 documents"),
        (["curve", "OUTPUT"], "bytes per token"),
        (["diff", "OUTPUT", "OUTPUT"], "no difference"),
        (["report", "OUTPUT", "-o", "BASE/page.html"], "page.html"),
        (["convert", "OUTPUT", "--to", "mds", "-o", "BASE/mds"], "mds"),
        (["gc", "COPY"], "0 files, 0 bytes removed"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_commands_read_it(command, said, tmp_path):
    places = {"OUTPUT": EARLIER, "BASE": tmp_path, "COPY": tmp_path / "copy"}
    shutil.copytree(EARLIER, tmp_path / "copy")
    done = tokcore(
        *(next((one.replace(k, str(v)) for k, v in places.items() if one.startswith(k)), one) for one in command)
    )
    assert said in done.stdout + done.stderr


def test_python_reads_it():
    shards = package.open_shards(EARLIER, split="all")
    assert (len(shards), shards.num_tokens) == (7, 154)
    assert package.open_counts(EARLIER, "en").num_rows > 5
    assert package.Tokenizer.load(EARLIER).fingerprint == shards.fingerprint


def test_a_false_root_is_found(tmp_path):
    data = (EARLIER / "manifest.json").read_bytes()
    with pytest.raises(ChecksumError, match=f"its root is {EARLIER_ROOT}, its content gives"):
        parse_manifest(data.replace(b'"tokens":154', b'"tokens":155'), "manifest.json")
    newer = json.dumps({**json.loads(data), "format_version": 2}, separators=(",", ":"), sort_keys=True) + "\n"
    with pytest.raises(ChecksumError, match="its content gives"):
        parse_manifest(newer.encode(), "manifest.json")


def test_a_build_says_that_another_release_made_it(tmp_path):
    """A stage of version 2 is never made from one of version 1, for the root would be of neither."""
    shutil.copytree(EARLIER, tmp_path / "out")
    (tmp_path / "build.toml").write_text(BUILD_FILE)
    done = tokcore("learn", tmp_path / "build.toml")
    assert (done.returncode, "another release of tokcore made it" in done.stderr) == (2, True), done.stderr
