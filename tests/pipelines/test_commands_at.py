"""Commands that read a commit of an output: `show --at`, `diff --at --with`."""

from __future__ import annotations

import json
import shutil

import pytest
from support.builds import tokcore
from support.removals import build_corpus, compact_here, remove_here, write_documents
from support.updates import update_here

from pipelines.inspect.diff_commits import diff_commits
from pipelines.stages.expire_commits import expire
from tokcore.errors import ConfigError


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """An output with an update, a removal, two more updates and a compaction."""
    folder = tmp_path_factory.mktemp("at")
    build_corpus(folder)
    write_documents(folder, "en/e.jsonl", 4)
    update_here(folder / "build.toml", folder / "out")
    remove_here(folder, {"a-3"})
    for name in "fg":
        write_documents(folder, f"en/{name}.jsonl", 4)
        update_here(folder / "build.toml", folder / "out")
    assert compact_here(folder).commit.number == 5
    return folder / "out"


def test_a_commit_equals_itself(output):
    for at in range(6):
        assert diff_commits(str(output), str(output), at, at) == {}
    assert diff_commits(str(output), str(output)) == {}


def test_an_update_brings_inputs_documents_and_counts(output):
    found = diff_commits(str(output), str(output), 0, 1)
    assert set(found) == {"inputs", "totals", "counts", "root"}
    assert found["inputs"] == {"only_b": {"number": 1, "first": ["en/e.jsonl"]}}
    assert found["totals"]["documents"] == [42, 46]
    assert found["counts"]["en"]["different_rows"] > 0
    assert all(mine < its for _, mine, its in found["counts"]["en"]["examples"])
    assert set(found["counts"]) == {"en"}


def test_a_removal_takes_documents_and_leaves_tombstones(output):
    found = diff_commits(str(output), str(output), 1, 2)
    assert set(found) == {"totals", "tombstones", "counts", "root"}
    assert found["totals"]["documents"] == [46, 45]
    assert found["tombstones"] == {"number": [0, 1]}
    assert all(mine > its for _, mine, its in found["counts"]["en"]["examples"])


def test_a_compaction_differs_in_its_root_alone(output):
    assert set(diff_commits(str(output), str(output), 4, 5)) == {"root"}


def test_commands_take_commits(output, tmp_path):
    done = tokcore("diff", output, output, "--at", "1", "--json")
    assert (done.returncode, set(json.loads(done.stdout))) == (1, {"inputs", "totals", "tombstones", "counts", "root"})
    assert tokcore("diff", output, output, "--at", "3", "--with", "3").stdout == "no difference\n"
    shards = json.loads(tokcore("show", output, "--at", "1", "--json").stdout)
    assert sum(shard["documents"] for shard in shards) == 46
    assert {shard["shard"].split("/")[0] for shard in shards} > {"parts"}
    shown = tokcore("show", output, "--at", "1").stdout
    assert f"shards in commit 1 of {output}: 46 documents" in shown
    for listed in (shown, tokcore("show", output, "--at", "5").stdout):
        hint = listed.split("tokcore show ")[-1].strip()
        assert tokcore("show", hint).returncode == 0, hint
    other = tmp_path / "out"
    shutil.copytree(output, other)
    expire(str(other), keep=1)
    for command in (("show", other), ("diff", other, output)):
        refused = tokcore(*command, "--at", "1")
        assert (refused.returncode, "that commit is expired; the oldest is 5" in refused.stderr) == (2, True)
    assert tokcore("diff", other, output, "--at", "5").returncode == 0
    with pytest.raises(ConfigError, match="has the commits 0 to 5"):
        diff_commits(str(output), str(output), 9)
