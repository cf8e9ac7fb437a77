"""A stage is one file and its row: a build makes it, and every command that goes through stages knows it."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest
from click.testing import CliRunner
from support import toy_stage
from support.builds import SOURCES, build_file, run, small_corpus, tree
from support.toy_stage import NAME, TURNED

from tokcore.shards.opened_shards import open_shards
from tokcore_pipelines import cli
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.table import WORK, DerivedWork
from tokcore_pipelines.check.gc import gc
from tokcore_pipelines.check.rebuild import rebuild
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.commands.print_build import print_build
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.look.diff import diff
from tokcore_pipelines.look.show import list_shards
from tokcore_pipelines.store.not_data import OwnOutputs
from tokcore_schemas.config import load_config
from tokcore_schemas.stage_table import STAGES, WHOLE, list_commands, list_following

FORMATS = '[shards]\nformats = ["arrow"]\ntarget_tokens = {}\n[learn]\nvocab_size = 300\n'


@pytest.fixture(scope="module", autouse=True)
def row():
    """The row of the stage, in both halves of the table."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(STAGES, NAME, TURNED)
        patched.setitem(WORK, NAME, toy_stage.WORK)
        yield


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    small_corpus(folder)
    build_file(folder, SOURCES, FORMATS.format(2000))
    run(folder / "build.toml", folder / "out")
    return folder


def test_both_halves_of_the_table_have_the_same_rows():
    assert [*WORK] == [*STAGES]
    assert {name: isinstance(work, DerivedWork) for name, work in WORK.items()} == {
        name: stage.is_derived for name, stage in STAGES.items()
    }


def test_it_is_built_printed_and_shown(corpus, capsys):
    out = corpus / "out"
    build = find_manifest(str(out), WHOLE)
    assert NAME in build.inputs
    print_build(str(out), build, is_new=False)
    told = capsys.readouterr().out
    assert f"turned     {out}/turned\n" in told
    timed = [
        json.loads((out / name / "run.json").read_bytes())["seconds"] for name in build.inputs if name != "rejected"
    ]
    assert re.search(r"^time +(\S+) s in all", told, re.MULTILINE)[1] == f"{sum(timed):.1f}"
    assert list_shards(f"{out}/turned").documents == build.totals.records.documents
    first, turned = open_shards(out / "shards"), open_shards(out / "turned")
    assert (first.num_tokens, len(first)) == (turned.num_tokens, len(turned))
    assert first[0].tolist() != turned[0].tolist()
    assert OwnOutputs().holding(f"{out}/turned/arrow/some.arrow") == str(out)
    assert gc(str(out), "0").removed == ()


def test_it_has_a_command_and_can_be_replaced(corpus):
    out = corpus / "out"
    assert (list_commands()[-1], list_following("turn", False)) == ("turn", ["build", NAME])
    assert list_following("encode", False)[:2] == ["build", NAME]
    told = CliRunner().invoke(cli.commands, ["turn", "--help"]).output
    assert "its documents in reverse order" in told
    assert re.search(r"^  turn +Write every shard", CliRunner().invoke(cli.commands, ["--help"]).output, re.MULTILINE)
    before, manifest = tree(out), (out / NAME / "manifest.json").stat().st_mtime_ns
    again = Build(load_config(str(corpus / "build.toml")), RunOptions(here=True), str(out), replace="turn")
    again.run()
    assert again.made == [NAME, "build"]
    assert tree(out) == before
    assert (out / NAME / "manifest.json").stat().st_mtime_ns > manifest


def test_it_is_verified_rebuilt_and_repaired(corpus, monkeypatch):
    out = corpus / "out"
    before = tree(out)
    assert verify(str(out)).problems == ()
    shards = sorted((out / NAME / "arrow").iterdir())
    assert rebuild(str(out), f"{NAME}/{shards[0].stem}", str(corpus)).problems == ()
    shards[0].write_bytes(shards[0].read_bytes()[:-1] + b"x")
    assert any(one.startswith(f"{NAME}/arrow/{shards[0].name}: ") for one in verify(str(out)).problems)
    assert repair(str(out), str(corpus)).left == ()
    assert tree(out) == before

    def lacking(stored, attempts, number):
        """As if the manifest named a shard too many, and all hashes were true."""
        return toy_stage.Turned(toy_stage.again(stored, attempts, number).shards[:-1])

    monkeypatch.setitem(WORK, NAME, dataclasses.replace(toy_stage.WORK, again=lacking))
    problems = verify(str(out)).problems
    assert f"{NAME}/{shards[-1].stem.rpartition('-')[0]}: its inputs give no such shard" in problems
    assert any(one.startswith(f"{NAME}/manifest.json: totals.shards = ") for one in problems)


def test_it_is_compared(corpus, tmp_path, monkeypatch):
    small_corpus(tmp_path)
    build_file(tmp_path, SOURCES, FORMATS.format(1500))
    run(tmp_path / "build.toml", tmp_path / "out")
    told = diff(str(corpus / "out"), str(tmp_path / "out"))
    assert told["configuration"]["turned.target_tokens"] == [2000, 1500]
    assert told[NAME]["other_content"]["number"] > 0
    monkeypatch.delitem(WORK, NAME)
    monkeypatch.delitem(STAGES, NAME)
    run(tmp_path / "build.toml", tmp_path / "plain")
    monkeypatch.undo()
    assert diff(str(tmp_path / "plain"), str(tmp_path / "out"))["stages"] == {"only_a": [], "only_b": [NAME]}
