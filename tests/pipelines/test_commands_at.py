"""Commands that read a commit of an output, all parts added up; and README.md, which follows commits."""

from __future__ import annotations

import json
import os
import shutil

import datasets
import pytest
import yaml
from support.builds import tokcore, tree
from support.removals import build_corpus, compact_here, remove_here, write_documents
from support.updates import build_fresh, update_here

import tokcore as package
from tokcore.errors import ConfigError
from tokcore.shards.conversion import Reading
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.check.prove_file import prove_file
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.history.expire_commits import expire
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.look.audit import audit
from tokcore_pipelines.look.convert import convert_shards
from tokcore_pipelines.look.curve import compute_curve
from tokcore_pipelines.look.diff_commits import diff_commits
from tokcore_pipelines.look.report.compose import Wishes, make_report
from tokcore_pipelines.look.view.shelf import Volume
from tokcore_pipelines.store import crashpoints


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """An output with an update, a removal, two more updates and a compaction."""
    folder = tmp_path_factory.mktemp("at")
    build_corpus(folder)
    write_documents(folder, "en/e.jsonl", 4)
    update_here(folder / "build.toml", folder / "out")
    remove_here(folder, {"a-3"})
    for name in "fg":  # so small that they share a run when they are read together
        write_documents(folder, f"en/{name}.jsonl", 1)
        update_here(folder / "build.toml", folder / "out")
    assert compact_here(folder).commit.number == 5
    return folder / "out"


@pytest.fixture(scope="module")
def fresh(output, tmp_path_factory):
    """What commits 4 and 5 hold, built at once with the tokenizer of the output."""
    folder = tmp_path_factory.mktemp("fresh")
    shutil.copytree(output.parent, folder, ignore=shutil.ignore_patterns("out"), dirs_exist_ok=True)
    path = folder / "en" / "a.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if json.loads(line)["id"] != "a-3"))
    build_fresh(folder / "build.toml", folder / "out", output)
    return folder / "out"


@pytest.fixture
def copy(output, tmp_path):
    """A copy of the folder of the output, whose input files have the times that were pinned."""
    shutil.copytree(output.parent, tmp_path / "copy")
    return tmp_path / "copy"


def test_a_commit_equals_itself(output):
    for at in range(6):
        assert diff_commits(read_output(str(output), at), read_output(str(output), at)) == {}
    assert diff_commits(read_output(str(output)), read_output(str(output))) == {}


def test_an_update_brings_inputs_documents_and_counts(output):
    found = diff_commits(read_output(str(output), 0), read_output(str(output), 1))
    assert set(found) == {"inputs", "totals", "counts", "root"}
    assert found["inputs"] == {"only_b": {"number": 1, "first": ["en/e.jsonl"]}}
    assert found["totals"]["documents"] == [42, 46]
    assert found["counts"]["en"]["different_rows"] > 0
    assert all(mine < its for _, mine, its in found["counts"]["en"]["examples"])
    assert set(found["counts"]) == {"en"}


def test_a_removal_takes_documents_and_leaves_tombstones(output):
    found = diff_commits(read_output(str(output), 1), read_output(str(output), 2))
    assert set(found) == {"totals", "tombstones", "counts", "root"}
    assert found["totals"]["documents"] == [46, 45]
    assert found["tombstones"] == {"number": [0, 1]}
    assert all(mine > its for _, mine, its in found["counts"]["en"]["examples"])


def test_a_compaction_differs_in_its_root_alone(output):
    assert set(diff_commits(read_output(str(output), 4), read_output(str(output), 5))) == {"root"}


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
        diff_commits(read_output(str(output), 9), read_output(str(output)))


# --------------------------------------------------------------------------------------------- a commit as a whole

AT = [4, 5, None]


@pytest.mark.parametrize("at", AT)
def test_audit_and_curve_are_those_of_a_build_of_the_documents(output, fresh, at):
    tokenizer = package.Tokenizer.load(output)
    mine, theirs = (
        audit(read_output(str(output), at), tokenizer, 3, True),
        audit(read_output(str(fresh)), tokenizer, 3, True),
    )
    assert {**mine, "output": ""} == {**theirs, "output": ""}
    assert mine["mostly_one_source"]
    assert compute_curve(read_output(str(output), at), tokenizer) == compute_curve(read_output(str(fresh)), tokenizer)
    assert mine["tokens"] > audit(read_output(str(output), 0), tokenizer)["tokens"]


@pytest.mark.parametrize("at", AT)
def test_a_report_is_that_of_a_build_of_the_documents(output, fresh, at):
    mine = make_report(read_output(str(output), at), Wishes(), StageProgress(-1))
    theirs = make_report(read_output(str(fresh)), Wishes(), StageProgress(-1))
    assert mine["provenance"]["commit"] == (5 if at is None else at)
    assert mine["provenance"]["root"] == read_log(str(output)).commits[(at or 5) - 1].root
    assert mine["provenance"]["inputs"]["files"] == theirs["provenance"]["inputs"]["files"]
    for key in ("documents", "text_bytes", "tokens", "special_text", "sources", "copies"):
        assert mine["corpus"][key] == theirs["corpus"][key]
    for lang, of in theirs["corpus"]["languages"].items():
        got = mine["corpus"]["languages"][lang]
        assert [got[key] for key in ("documents", "text_bytes", "tokens", "pretokens")] == [
            of[key] for key in ("documents", "text_bytes", "tokens", "pretokens")
        ]
    for key in ("comparison", "efficiency", "lengths", "probes", "curve"):
        assert mine["tokenizer"][key] == theirs["tokenizer"][key]
    assert mine["health"] == theirs["health"]


@pytest.mark.parametrize("at", [0, *AT])
def test_a_conversion_has_all_documents_of_the_commit(output, tmp_path, at):
    report = convert_shards(str(output), "parquet", str(tmp_path / "rows"), Reading(), None, "zstd", "", at)
    expected = package.open_shards(output, "all", at=at)
    found = package.open_shards(tmp_path / "rows", "all")
    assert report.documents == len(expected) == len(found)
    assert sorted(ids.tolist() for ids in found) == sorted(ids.tolist() for ids in expected)


@pytest.mark.parametrize("at", AT)
def test_a_view_shows_one_commit(output, fresh, at):
    tokenizer = package.Tokenizer.load(output)
    mine, theirs = Volume("a", tokenizer, read_output(str(output), at)), Volume("b", tokenizer, read_output(str(fresh)))
    assert (mine.counts, mine.languages, len(mine.shards)) == (theirs.counts, theirs.languages, len(theirs.shards))
    assert mine.audited["never"] == theirs.audited["never"]
    assert len(Volume("c", tokenizer, read_output(str(output), 0)).shards) == 42


def test_repair_looks_at_all_parts(copy):
    output = copy / "out"
    before = tree(output)
    parts = [part.path for part in read_log(str(output)).reachable() if part.path != "."]
    shards = [next((output / path / "shards" / "arrow").rglob("*.arrow")) for path in parts]
    for shard in shards:
        shard.write_bytes(b"")
    (output / "README.md").write_text("nothing")
    table = next((output / "counts").glob("*.parquet"))
    table.unlink()
    assert verify(str(output)).problems
    done = repair(str(output), base=str(copy))
    assert done.left == ()
    assert set(done.repaired) == {
        "README.md",
        f"counts/{table.name}",
        *(str(shard.relative_to(output)) for shard in shards),
    }
    assert tree(output) == before
    shards[0].write_bytes(b"")
    (number,) = [n for n in range(6) if parts[0] not in {p.path for p in read_log(str(output)).parts(n)}][:1]
    assert repair(str(output), base=str(copy), at=number).repaired == ()
    with pytest.raises(ConfigError, match="has the commits 0 to 5"):
        repair(str(output), at=6)


def test_all_commands_that_read_take_a_commit(output, tmp_path):
    for command in (
        ("audit", output),
        ("curve", output),
        ("report", output, "-o", tmp_path / "report.html"),
        ("convert", output, "--to", "nanogpt", "-o", tmp_path / "flat"),
        ("export", output, "--to", "tiktoken", "-o", tmp_path / "ranks.tiktoken"),
    ):
        refused = tokcore(*command, "--at", "9")
        done = tokcore(*command, "--at", "3")
        assert done.returncode == 0, done.stderr
        assert (refused.returncode, "has the commits 0 to 5" in refused.stderr) == (2, True), refused.stderr
    refused = tokcore("view", output, "--at", "9")
    assert (refused.returncode, "has the commits 0 to 5" in refused.stderr) == (2, True)
    newest = json.loads(tokcore("show", output, "--json").stdout)
    assert sum(shard["documents"] for shard in newest) == len(package.open_shards(output, "all"))
    assert tokcore("diff", output, output).stdout == "no difference\n"


# ------------------------------------------------------------------------------------------------------- the card


def test_the_card_follows_commits(copy):
    output = copy / "out"

    def require_newest() -> None:
        expected = package.open_shards(output, "all")
        loaded = datasets.load_dataset(str(output))
        rows = sorted(list(row["tokens"]) for split in loaded.values() for row in split)
        assert rows == sorted(ids.tolist() for ids in expected)
        assert f"{len(expected):,} documents" in (output / "README.md").read_text()

    require_newest()
    write_documents(copy, "mixed/h.jsonl", 5, "it")
    update_here(copy / "build.toml", output)
    require_newest()
    expire(str(output), keep=1)
    require_newest()
    head = yaml.safe_load((output / "README.md").read_text().split("---")[1])
    patterns = [path for split in head["configs"][0]["data_files"] for path in [split["path"]]]
    flat = [one for paths in patterns for one in (paths if isinstance(paths, list) else [paths])]
    assert all(list(output.glob(pattern)) for pattern in flat)
    assert verify(str(output)).problems == ()
    (output / "README.md").write_text("---\n# Written by tokcore; manifest.json has its hash.\n---\n")
    assert verify(str(output)).problems == (
        "README.md: not what follows from the manifests of a commit; `tokcore repair` writes it again",
    )
    (output / "README.md").unlink()
    assert verify(str(output)).problems == ("README.md: missing",)
    assert repair(str(output), base=str(copy)).repaired == ("README.md",)
    require_newest()
    with pytest.raises(ConfigError, match="is that of the newest commit, and no root covers it"):
        prove_file(read_output(str(output)), "README.md")


def test_the_card_of_a_killed_command_is_named_and_the_next_one_writes_it(copy):
    output = copy / "out"
    before = (output / "README.md").read_bytes()
    write_documents(copy, "mixed/h.jsonl", 5, "it")
    (point,) = crashpoints.COMMITTING_POINTS
    killed = tokcore("update", copy / "build.toml", env={**os.environ, "TOKCORE_CRASH": f"{point}:1"})
    assert killed.returncode != 0
    assert read_log(str(output)).newest == 6
    assert (output / "README.md").read_bytes() == before
    assert verify(str(output)).problems == (
        "README.md: that of commit 5, not of commit 6; `tokcore repair` writes it again",
    )
    assert update_here(copy / "build.toml", output) is None
    assert (output / "README.md").read_bytes() != before
    assert verify(str(output)).problems == ()


def test_of_several_commands_the_last_to_write_leaves_the_newest_card(copy):
    output = copy / "out"
    write_documents(copy, "mixed/h.jsonl", 5, "it")
    others = []

    def overtake(point):
        if point == "commit.created" and not others:
            others.append(point)
            write_documents(copy, "mixed/i.jsonl", 7, "it")
            update_here(copy / "build.toml", output)

    crashpoints.watch(overtake)
    try:
        update_here(copy / "build.toml", output)
    finally:
        crashpoints.watch(None)
    assert read_log(str(output)).newest == 7
    assert f"{len(package.open_shards(output, 'all')):,} documents" in (output / "README.md").read_text()
