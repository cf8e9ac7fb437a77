"""A finished build is recognized without reading the manifests of its stages, and only if it is that build."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.builds import SETTINGS, build_file, run, small_corpus

from tokcore.errors import ConfigError, FormatError, StageError
from tokcore.files.canonical_json import write_canonical_json
from tokcore_pipelines.build import finished_build
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.store.manifests import ManifestFile
from tokcore_schemas.config import load_config
from tokcore_schemas.stage_table import Stage


@pytest.fixture
def copied(corpus: Path, tmp_path: Path) -> Path:
    """A copy of the corpus and its output, whose input files have the times that were pinned."""
    return Path(shutil.copytree(corpus, tmp_path / "copy"))


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages whose manifests are parsed from now on."""
    stages: list[str] = []
    parse = ManifestFile.parse

    def note(file: ManifestFile, stage: Stage[Any]) -> object:
        stages.append(stage.name)
        return parse(file, stage)

    monkeypatch.setattr(ManifestFile, "parse", note)
    return stages


def open_build(folder: Path, name: str = "build.toml", *assigned: str) -> Build:
    return Build(load_config(str(folder / name), assigned), output=str(folder / "out"), progress=StageProgress(-1))


def test_manifests_of_stages_are_not_read(copied: Path, parsed: list[str]) -> None:
    root = json.loads((copied / "out" / "manifest.json").read_bytes())["root"]
    build = open_build(copied)
    assert (build.run().root, build.made) == (root, [])
    assert {*parsed} == {"build", "plan"}
    plan = open_build(copied)
    assert plan.standing(plan.plan() and plan._plan) == "this build, finished"


def test_a_file_that_is_gone_is_named(copied: Path) -> None:
    (path,) = (copied / "out" / "shards" / "arrow").glob("train-00000-00000-*")
    path.unlink()
    with pytest.raises(StageError, match=rf"shards/arrow/{path.name}.*tokcore repair"):
        open_build(copied).run()


def test_it_is_said_what_is_wrong_with_files(copied: Path) -> None:
    gone, fifo, link, *_, cut = sorted((copied / "out" / "shards").rglob("train-*"))
    for path in (gone, fifo, link):
        path.unlink()
    os.mkfifo(fifo)
    link.symlink_to("/etc/passwd")
    with pytest.raises(StageError) as error:
        open_build(copied).run()
    for path, what in ((gone, "missing"), (fifo, "no file"), (link, "a link to a place outside of the output")):
        assert f"{path.relative_to(copied / 'out')}: {what}" in str(error.value)
    assert repair(str(copied / "out")).left == ()
    os.truncate(cut, cut.stat().st_size - 1)
    with pytest.raises(StageError, match=rf"{cut.name}: \d+ bytes, committed with \d+\. `.*` makes it again"):
        open_build(copied).run()


@pytest.mark.parametrize("name", ["shards", "shards/arrow"])
def test_a_folder_that_is_a_link_is_named(copied: Path, name: str) -> None:
    folder = copied / "out" / name
    folder.rename(copied / "elsewhere")
    folder.symlink_to(copied / "elsewhere")
    with pytest.raises(StageError, match=rf"out: {name}.* is a link to a place outside of the output\. Move"):
        open_build(copied).run()


def test_files_of_a_very_large_stage_are_left_to_verify(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finished_build, "MOST_BYTES", 10)
    (path,) = (copied / "out" / "shards" / "arrow").glob("train-00000-00000-*")
    path.unlink()
    assert open_build(copied).run().root


def test_other_settings_are_another_build(copied: Path) -> None:
    build_file(copied, settings=SETTINGS.replace("vocab_size = 400", "vocab_size = 420"))
    with pytest.raises(ConfigError, match="vocab_size"):
        open_build(copied).run()


def test_other_inputs_are_another_build(copied: Path) -> None:
    os.utime(copied / "ru.jsonl", (1, 1))
    with pytest.raises(ConfigError, match=r"ru\.jsonl"):
        open_build(copied).run()


def test_very_many_inputs_are_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of inputs in stores: `tokcore check` lists them."""
    small_corpus(tmp_path)
    root = run(build_file(tmp_path), tmp_path / "out").root
    os.utime(tmp_path / "ru.jsonl", (1, 1))
    with pytest.raises(ConfigError, match=r"ru\.jsonl"):
        open_build(tmp_path).run()
    monkeypatch.setattr(finished_build, "MOST_LISTED", 3)
    build = open_build(tmp_path)
    assert (build.run().root, build.made) == (root, [])
    listed = open_build(tmp_path)
    with pytest.raises(ConfigError, match=r"ru\.jsonl"):
        listed.plan()
    build_file(tmp_path, settings=SETTINGS.replace("vocab_size = 400", "vocab_size = 420"))
    with pytest.raises(ConfigError, match="vocab_size"):
        open_build(tmp_path).run()


def test_a_manifest_that_was_changed_is_looked_at(copied: Path) -> None:
    path = copied / "out" / "shards" / "manifest.json"
    made = json.loads(path.read_bytes())
    made["totals"]["tokens"] += 1
    path.write_bytes(write_canonical_json(made))
    with pytest.raises((ConfigError, StageError, FormatError)):
        open_build(copied).run()


def test_an_imported_tokenizer_that_is_another_one_is_another_build(copied: Path) -> None:
    path = copied / "import.toml"
    text = (copied / "build.toml").read_text().replace("[learn]\nvocab_size = 400", '[tokenizer]\nfrom = "given"')
    path.write_text(text)
    shutil.copytree(copied / "out" / "tokenizer", copied / "given")
    shutil.rmtree(copied / "out")
    run(path, copied / "out")
    assert open_build(copied, "import.toml").run().root
    other = build_file(copied, settings=SETTINGS.replace("vocab_size = 400", "vocab_size = 300"), name="other.toml")
    run(other, copied / "other")
    shutil.rmtree(copied / "given")
    shutil.copytree(copied / "other" / "tokenizer", copied / "given")
    with pytest.raises(ConfigError, match="tokenizer"):
        open_build(copied, "import.toml").run()
