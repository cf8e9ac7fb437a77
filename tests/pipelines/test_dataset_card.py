"""OUTPUT/README.md, and what other tools find in an output: each document once, by the obvious call.

The card's own examples run here, on the real libraries. Nothing uses the network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.dataset
import pytest
import yaml
from datasets.exceptions import DataFilesNotFoundError, NonMatchingSplitsSizesError
from support.builds import ROOT, SETTINGS, SOURCES, build_file, jsonl, run, small_corpus, texts, tokcore, tree, write
from support.forging import Forger

import tokcore as api
from tokcore.errors import ConfigError, StageError
from tokcore.files.canonical_json import write_canonical_json
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.dataset_card import CARD, is_card
from tokcore_pipelines.check.gc import gc
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.look.diff import diff
from tokcore_schemas.config import load_config
from tokcore_schemas.stage_table import SHARDS, WHOLE, parse_manifest

# no: a language that is not a string in careless YAML. default: what a configuration of all documents is called.
MORE = '[[source]]\nlang_field = "lang"\nfiles = "more.jsonl"\n'
LANGS = ("no", "default", "code-c++")
SPLITS = "validation = 0.2\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds over the same documents: in one sequence, by language, and without Arrow files."""
    folder = tmp_path_factory.mktemp("card")
    small_corpus(folder)
    rows = [{"lang": lang, "text": text} for lang in LANGS for text in texts("en", 20, len(lang))]
    write(folder / "more.jsonl", jsonl(rows))
    for name, settings in (
        ("plan", SPLITS),
        ("lang", SPLITS + 'by = "lang"\n'),
        ("flat", SPLITS + 'formats = ["megatron", "nanogpt"]\n'),
    ):
        run(build_file(folder, SOURCES + MORE, SETTINGS + settings, f"{name}.toml"), folder / name)
    return folder


@pytest.fixture
def output(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder / "plan", tmp_path / "out"))


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


def head_of(output: Path) -> dict[str, Any]:
    _, head, _ = (output / CARD).read_text().split("---\n", 2)
    return yaml.safe_load(head)


Row = tuple[str, int, str | None, str, list[int]]


def row_of(row: dict[str, Any]) -> Row:
    return row["source"], row["ordinal"], row["id"], row["lang"], list(row["tokens"])


def sorted_rows(rows: Any) -> list[Row]:
    return sorted((row_of(row) for row in rows), key=lambda row: row[:2])


def documents(output: Path, split: str) -> list[Row]:
    """The documents of a split, as our own reader has them: sorted by source and ordinal."""
    shards = api.open_shards(output, split)
    rows = [(shards.document(i), shards[i].tolist()) for i in range(len(shards))]
    return sorted(((d.source, d.ordinal, d.id, d.lang, tokens) for d, tokens in rows), key=lambda row: row[:2])


# -------------------------------------------------------------------------------------------- what other tools find


@pytest.mark.parametrize("name", ["plan", "lang"])
def test_load_dataset_finds_each_document_once_in_its_split(folder, name):
    loaded = datasets.load_dataset(str(folder / name))
    assert set(loaded) == {"train", "validation"}
    for split, rows in loaded.items():
        assert sorted_rows(rows) == documents(folder / name, split)
        assert len(rows) > 10
        of_file = pa.ipc.open_file(next((folder / name / "shards").rglob("*.arrow"))).schema
        assert rows.features == datasets.Features.from_arrow_schema(of_file)
    streamed = datasets.load_dataset(str(folder / name), split="validation", streaming=True)
    assert sorted_rows(streamed) == documents(folder / name, "validation")
    # The names of files are enough: without the card it is the same.
    bare = datasets.load_dataset(str(folder / name / "shards" / "arrow"))
    assert {split: sorted_rows(rows) for split, rows in bare.items()} == {
        split: documents(folder / name, split) for split in ("train", "validation")
    }


def test_a_language_is_a_configuration_where_shards_are_kept_apart(folder):
    output = folder / "lang"
    names = datasets.get_dataset_config_names(str(output))
    assert sorted(names) == ["code-c++", "default", "en", "hi", "no", "ru", "zh"]
    for lang in ("no", "code-c++", "zh"):
        loaded = datasets.load_dataset(str(output), lang)
        for split, rows in loaded.items():
            expected = [row for row in documents(output, split) if row[3] == lang]
            assert sorted_rows(rows) == expected
            assert expected
    # A language of that name is in the configuration of all.
    everything = datasets.load_dataset(str(output), "default", split="train")
    assert {row["lang"] for row in everything} == {"en", "ru", "zh", "hi", *LANGS}
    assert datasets.get_dataset_config_names(str(folder / "plan")) == ["default"]


@pytest.mark.parametrize("name", ["plan", "lang"])
def test_globs_find_each_document_once(folder, name):
    output = folder / name
    expected = documents(output, "all")
    for pattern in ("shards/arrow/**/*.arrow", "shards/**/*.arrow", "**/*.arrow"):
        assert sorted_rows(polars.read_ipc(str(output / pattern)).to_dicts()) == expected
        assert sorted_rows(polars.scan_ipc(str(output / pattern)).collect().to_dicts()) == expected
    files = pyarrow.dataset.dataset(output / "shards" / "arrow", format="arrow")
    assert sorted_rows(files.to_table().to_pylist()) == expected
    counted = duckdb.sql("SELECT count(*), count(DISTINCT (source, ordinal)), sum(len(tokens)) FROM files").fetchall()
    assert counted == [(len(expected), len(expected), sum(len(row[4]) for row in expected))]
    frame = pandas.concat(pandas.read_feather(path) for path in output.rglob("*.arrow"))
    rows = zip(frame["source"], frame["ordinal"], frame["lang"], map(list, frame["tokens"]), strict=True)
    assert sorted(rows) == [(source, ordinal, lang, tokens) for source, ordinal, _, lang, tokens in expected]


@pytest.mark.parametrize("name", ["plan", "lang", "flat"])
def test_the_examples_of_the_card_run(folder, name, tmp_path):
    output = folder / name
    card = (output / CARD).read_text().replace("OUT", str(output))
    if name != "flat":
        card = card.replace("FILE.arrow", str(next((output / "shards" / "arrow").rglob("train-*.arrow"))))
    examples = re.findall(r"```(python|sh)\n(.*?)```", card, re.DOTALL)
    assert len(examples) == (2 if name == "flat" else 5)
    found: dict[str, Any] = {}
    for language, code in examples:
        if language == "sh":
            subprocess.run(["sh", "-e"], input=code, text=True, cwd=tmp_path, check=True)
            continue
        names: dict[str, Any] = {}
        exec(code, names)
        if "frame" in names:
            assert len(names["frame"]) == len(documents(output, "all"))
            per_lang = dict(names["tokens"].fetchall())
            made = find_manifest(str(output), SHARDS).languages
            assert per_lang == {lang: its.tokens for lang, its in made.items()}
        found |= names
    for split in ("train", "validation"):
        words = (tmp_path / f"{split}.txt").read_text().split()
        assert all(Path(f"{prefix}.idx").is_file() for prefix in words[1::2])
        assert sum(map(int, words[::2])) == sum(len(row[4]) for row in documents(output, split))
    if name == "flat":
        assert sum(map(len, found["ids"])) == sum(len(row[4]) for row in documents(output, "train"))
    else:
        assert sorted_rows(found["one"]) == documents(output, "train")
        assert sorted_rows(found["splits"]["validation"]) == documents(output, "validation")
        assert 0 < len(found["documents"]) < len(documents(output, "train"))  # from one file


def test_a_shard_that_is_gone_is_noticed_by_load_dataset(output):
    next((output / "shards" / "arrow").glob("train-*.arrow")).unlink()
    with pytest.raises(NonMatchingSplitsSizesError):
        datasets.load_dataset(str(output))


# ------------------------------------------------------------------------------------------------- what the card says


def test_the_head_of_the_card(folder):
    head = head_of(folder / "plan")
    made = find_manifest(str(folder / "plan"), SHARDS)
    assert head["language"] == ["code", "en", "hi", "no", "ru", "zh"]  # as ISO 639 has them
    assert head["size_categories"] == ["n<1K"]
    (info,) = head["dataset_info"]
    numbers = {split: documents(folder / "plan", split) for split in ("train", "validation")}
    assert info["splits"] == [
        {"name": split, "num_examples": len(rows), "num_bytes": 4 * sum(len(row[4]) for row in rows)}
        for split, rows in numbers.items()
    ]
    assert info["dataset_size"] == 4 * made.totals.tokens
    assert [feature["name"] for feature in info["features"]] == ["tokens", "id", "lang", "source", "ordinal"]
    assert head["configs"] == [
        {
            "config_name": "default",
            "data_files": [
                {"split": split, "path": f"shards/arrow/{split}-*.arrow"} for split in ("train", "validation")
            ],
        }
    ]


def test_a_card_of_files_that_load_dataset_does_not_read(folder):
    head = head_of(folder / "flat")
    assert head.keys() == {"language", "size_categories", "dataset_info"}
    assert head["dataset_info"][0].keys() == {"config_name", "splits", "dataset_size"}
    assert head["dataset_info"][0]["splits"] == head_of(folder / "plan")["dataset_info"][0]["splits"]
    text = (folder / "flat" / CARD).read_text()
    assert "## nanogpt" in text
    assert "load_dataset" not in text
    with pytest.raises(DataFilesNotFoundError):
        datasets.load_dataset(str(folder / "flat"))


def test_no_name_path_or_time(folder, tmp_path):
    path = build_file(folder, SOURCES + MORE, SETTINGS + SPLITS, "named.toml", build='name = "my secret project"')
    run(path, tmp_path / "elsewhere", workers=1)
    assert (tmp_path / "elsewhere" / CARD).read_bytes() == (folder / "plan" / CARD).read_bytes()
    text = (folder / "plan" / CARD).read_text()
    for hidden in (str(folder), "en.jsonl", "more.jsonl", "my secret", "202"):
        assert hidden not in re.sub(r"[0-9a-f]{64}|[0-9,.]+ \|", "", text), hidden
    (entry,) = find_manifest(str(folder / "plan"), WHOLE).files
    assert (entry.path, entry.size_bytes) == (CARD, len(text.encode()))


def test_a_build_without_documents(folder, tmp_path):
    write(tmp_path / "none.jsonl", b"")
    sources = '[[source]]\nlang = "en"\nfiles = "none.jsonl"\n'
    imported = f'[tokenizer]\nfrom = "{folder / "plan" / "tokenizer" / "tokcore.json"}"\n'
    run(build_file(tmp_path, sources, imported), tmp_path / "out")
    head = head_of(tmp_path / "out")
    assert head["dataset_info"][0]["splits"] == [{"name": "train", "num_bytes": 0, "num_examples": 0}]
    assert verify(str(tmp_path / "out")).problems == ()
    with pytest.raises(DataFilesNotFoundError):  # and does not take the tables that are there too
        datasets.load_dataset(str(tmp_path / "out"))


# ------------------------------------------------------------------------------------------------------ its life cycle


def killed_build(path: Path, output: Path, crash: str, *options: str) -> int:
    command = [sys.executable, "-m", "tokcore_pipelines.cli", "build", str(path), "--output", str(output), *options]
    env = {**os.environ, "TOKCORE_CRASH": crash}
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False, env=env).returncode


def go_on(path: Path, output: Path, **more: str) -> None:
    Build(load_config(str(path)), RunOptions(here=True), str(output), **more).run()


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_damaged_card_is_named_and_repaired(folder, output, is_gone):
    before = tree(output)
    (output / CARD).unlink()
    if not is_gone:
        (output / CARD).write_text("edited")
    (problem,) = verify(str(output)).problems
    assert problem.startswith(f"{CARD}: ")
    wrong = "missing" if is_gone else "6 bytes, committed with"
    with pytest.raises(StageError, match=rf"out: {CARD}: {wrong}.*\. `tokcore repair"):
        go_on(folder / "plan.toml", output)
    done = repair(str(output))
    assert (done.repaired, done.left) == ((CARD,), ())
    assert tree(output) == before


def write_rooted(output: Path, manifest: dict[str, Any]) -> None:
    """Write the build's manifest with the root that its content gives."""
    root = parse_manifest(write_canonical_json({**manifest, "root": ""}), "manifest.json").content_id()
    (output / "manifest.json").write_bytes(write_canonical_json({**manifest, "root": root}))


def test_an_edit_with_hashes_that_fit_is_found(output):
    forger = Forger(output)
    forger.write(output / CARD, forger.sound[output / CARD].replace(b"num_examples: ", b"num_examples: 1"))
    forger.hash_again(2)
    problems = verify(str(output)).problems
    assert any(problem.startswith(f"manifest.json: files[{CARD}].sha256 = ") for problem in problems)
    forger.restore()
    (output / CARD).unlink()
    write_rooted(output, {**forger.manifests[""], "files": []})
    problems = verify(str(output)).problems
    assert any(problem.startswith(f"manifest.json: files[{CARD}] = None, its files give ") for problem in problems)


def test_diff_names_a_card_in_other_words(folder, output):
    manifest = json.loads((output / "manifest.json").read_bytes())
    sound = manifest["files"][0]["content_sha256"]
    manifest["files"][0]["content_sha256"] = "0" * 64
    write_rooted(output, manifest)
    found = diff(str(folder / "plan"), str(output))
    assert found.keys() == {"card", "root"}
    assert found["card"] == [sound, "0" * 64]
    assert diff(str(folder / "plan"), str(folder / "lang")).keys() >= {"shards", "root"}
    assert "card" not in diff(str(folder / "plan"), str(folder / "lang"))


def test_a_readme_of_the_users_is_left_alone(folder, tmp_path):
    output = tmp_path / "out"
    output.mkdir()
    (output / CARD).write_text("---\nlicense: mit\n---\nmine\n")
    for command in ("check", "build"):
        done = tokcore(command, folder / "plan.toml", "--output", output)
        assert done.returncode == 2, done.stderr
        assert f"{CARD}: is there, and a build writes its dataset card under this name. Move it away" in done.stderr
    assert [path.name for path in output.iterdir()] == [CARD]
    # The same if the file appears while the build is at work.
    (output / CARD).unlink()
    assert killed_build(folder / "plan.toml", output, "stage.worked:1") == -signal.SIGKILL
    (output / CARD).write_text("mine")
    with pytest.raises(ConfigError, match="Move it away"):
        go_on(folder / "plan.toml", output)
    assert CARD in gc(str(output), "0", dry_run=True).left
    assert (output / CARD).read_text() == "mine"
    (output / CARD).unlink()
    go_on(folder / "plan.toml", output)
    assert is_card((output / CARD).read_bytes())


def test_a_card_without_its_build_gives_way(folder, output):
    before = tree(output)
    for name in ("manifest.json", "run.json"):
        (output / name).unlink()
    (output / CARD).write_bytes((folder / "lang" / CARD).read_bytes())
    assert gc(str(output), "0", dry_run=True).removed == (CARD,)
    go_on(folder / "plan.toml", output)
    assert tree(output) == before
    (output / "manifest.json").unlink()
    assert set(gc(str(output), "0").removed) == {CARD, "run.json"}
    assert gc(str(output), "0").left == ()


def test_replace_and_from(folder, output, tmp_path):
    other = build_file(folder, SOURCES + MORE, SETTINGS + SPLITS + "target_tokens = 3000\n", "other.toml")
    text = other.read_text().replace("target_tokens = 2000\n", "")
    other.write_text(text)
    go_on(other, output, replace="encode")
    go_on(other, tmp_path / "new", reuse=str(folder / "plan"))
    assert tree(output) == tree(tmp_path / "new")
    assert head_of(output)["dataset_info"][0]["splits"][0].keys() == {"name", "num_bytes", "num_examples"}
    assert (output / CARD).read_bytes() != (folder / "plan" / CARD).read_bytes()
    assert verify(str(output)).problems == ()


@pytest.mark.parametrize("visit", [10, 11, 13])
def test_replacing_all_is_finished_after_a_kill(folder, output, visit):
    """No manifest is left then, but the card and run.json may be."""
    killed = killed_build(folder / "plan.toml", output, f"replace.removed:{visit}", "--replace", "plan")
    assert killed == -signal.SIGKILL
    assert (output / CARD).exists() == (visit == 10)
    go_on(folder / "plan.toml", output, replace="plan")
    assert tree(output) == tree(folder / "plan")
