"""`tokcore verify --prove`: a proof that a root covers a file, checked by the lines of Python in the documentation."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys

import pytest
from support.builds import ROOT, build_file, find_file, run_once, small_corpus, tokcore

from tokcore.errors import ChecksumError, ConfigError, FormatError
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.check.prove_file import Proof, prove_file
from tokcore_schemas import manifest
from tokcore_schemas.merkle import follow, hash_leaf
from tokcore_schemas.stage_table import SHARDS, STAGES, WHOLE

EARLIER = ROOT / "tests" / "data" / "version_1"
CHECKER = re.search(
    r"```python\n(import hashlib, json, sys\n.*?)```", (ROOT / "docs" / "reference" / "files.md").read_text(), re.S
)


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prove")
    small_corpus(folder)
    run_once(build_file(folder), folder / "out")
    return folder / "out"


def check(proof: str, root: str, folder) -> subprocess.CompletedProcess[str]:
    """What the lines in the documentation say of a proof."""
    assert CHECKER is not None
    (folder / "proof.json").write_text(proof)
    (folder / "check.py").write_text(CHECKER[1])
    command = [sys.executable, "-I", "check.py", "proof.json", root]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_documented_lines_check_what_the_command_prints(output, tmp_path):
    build = find_manifest(str(output), WHOLE)
    printed = tokcore("verify", output, "--prove", "tokenizer/tokcore.json")
    assert printed.returncode == 0, printed.stderr
    proof = json.loads(printed.stdout)
    assert proof["root"] == build.root
    done = check(printed.stdout, build.root, tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"'content_sha256': '{proof['sha256']}'" in done.stdout  # stored as it is
    other = json.dumps({**proof, "leaf": proof["leaf"].replace("tokcore.json", "tokcore.jsom")})
    assert check(other, build.root, tmp_path).stderr == "not in this root\n"
    assert check(printed.stdout, "0" * 64, tmp_path).stderr == "not in this root\n"
    turned = json.dumps({**proof, "path": proof["path"][1:]})
    assert check(turned, build.root, tmp_path).stderr == "not in this root\n"


def list_named(output) -> list[str]:
    build = find_manifest(output, WHOLE)
    stages = [("", build), *((f"{stage}/", find_manifest(output, STAGES[stage])) for stage in build.inputs)]
    return [f"{folder}{entry.path}" for folder, made in stages for entry in made.files]


def test_every_file_has_a_proof_of_its_own(output):
    files = list_named(str(output))
    proofs = [prove_file(read_output(str(output)), file) for file in files]
    assert [proof.file for proof in proofs] == files
    assert len({proof.leaf for proof in proofs}) == len(files) > 20
    assert all(isinstance(proof, Proof) and len(proof.path) >= 2 for proof in proofs)


def test_parts_are_trees_of_their_own(output, monkeypatch):
    made = find_manifest(str(output), SHARDS)
    assert made.list_parts() != []
    whole = made.content_id()
    monkeypatch.setattr(manifest, "ENTRIES_PER_PART", 3)
    assert len(made.list_parts()) == -(-len(made.files) // 3) > 1
    assert made.content_id() != whole
    # A part's root hangs on its own entries alone.
    last = made.files[-1]
    shorter = dataclasses.replace(made, files=made.files[:-1])
    assert shorter.list_parts()[:-1] == made.list_parts()[: len(shorter.list_parts()) - 1]
    for entry in (made.files[0], made.files[4], last):
        steps = made.prove_entry(entry.path)
        assert follow(hash_leaf(made.write_leaf(entry)), steps).hex() == made.content_id()


def test_what_cannot_be_proven_is_named(output):
    with pytest.raises(ConfigError, match=r"no manifest of commit 0 names 'tokenizer/none.json'\. Give its path"):
        prove_file(read_output(str(output)), "tokenizer/none.json")
    # A stage that the build does not have, as if it were a tokenizer that was learned from a commit.
    with pytest.raises(ConfigError, match=r"no manifest of commit 0 names 'tokenizers/0a1b/tokcore.json'\. Give its"):
        prove_file(read_output(str(output)), "tokenizers/0a1b/tokcore.json")
    done = tokcore("verify", output, "--prove", "README.md", "--quick")
    assert done.returncode == 2
    assert "--prove proves one file" in done.stderr
    with pytest.raises(FormatError, match=r"of format_version 1, whose root proves no single file"):
        prove_file(read_output(str(EARLIER)), "README.md")


def test_a_damaged_file_is_not_proven(output):
    path = output / "tokenizer" / "vocab.json"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"1", b"2", 1))
    with pytest.raises(ChecksumError, match="its bytes are not the ones that were committed"):
        prove_file(read_output(str(output)), "tokenizer/vocab.json")
    path.write_bytes(data)
    prove_file(read_output(str(output)), "tokenizer/vocab.json")


def test_a_manifest_that_was_exchanged_proves_nothing(output):
    table = find_file(output, "shards/token_counts.parquet").relative_to(output).as_posix()
    path = output / "shards" / "manifest.json"
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"zstd"', b'"lz4"', 1))
    with pytest.raises(ChecksumError, match="not the manifest that the build committed"):
        prove_file(read_output(str(output)), table)
    path.write_bytes(data)
    prove_file(read_output(str(output)), table)
