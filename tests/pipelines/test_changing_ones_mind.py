"""After another vocab_size or a corrected source, errors say what differs in the build file's words, and what to do."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.builds import (
    ROOT,
    SETTINGS,
    SOURCES,
    build_file,
    find_file,
    jsonl,
    run,
    run_once,
    small_corpus,
    texts,
    tokcore,
    tree,
    write,
)

from tokcore.errors import ConfigError, LearnError, StageError
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.plan_corpus import plan_build
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.build_tables import TABLES
from tokcore_schemas.changed_settings import _iterate_settings, describe_changed_settings
from tokcore_schemas.config import load_config
from tokcore_schemas.levels import LevelsConfig
from tokcore_schemas.stage_manifests import NaturalMix, StageConfigs
from tokcore_schemas.stage_table import BUILD, COUNTS, STAGES, get_stage, list_following

LARGER = SETTINGS.replace("vocab_size = 400", "vocab_size = 420")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mind")
    small_corpus(folder)
    build_file(folder)
    build_file(folder, settings=LARGER, name="larger.toml")
    run_once(folder / "build.toml", folder / "out")
    run_once(folder / "larger.toml", folder / "larger")
    return folder


@pytest.fixture
def output(corpus: Path, tmp_path: Path) -> Path:
    """A copy of the finished build of build.toml."""
    return Path(shutil.copytree(corpus / "out", tmp_path / "out"))


def build(path: Path, output: Path, replace: str = "", reuse: Path | None = None) -> Build:
    return Build(load_config(str(path)), RunOptions(here=True), str(output), replace=replace, reuse=str(reuse or ""))


# --------------------------------------------------------------------------------------------------- what is different


def test_what_differs_is_said_in_the_words_of_the_build_file(corpus, output):
    with pytest.raises(ConfigError) as error:
        run(corpus / "larger.toml", output)
    assert "the output holds a different build:\n  tokenizer: learn.vocab_size was 400, now 420\n" in str(error.value)
    assert f"To make tokenizer, shards again: `tokcore build {corpus}/larger.toml --replace learn`" in str(error.value)
    assert f"--from {output}" in str(error.value)


@pytest.mark.parametrize(
    ("sources", "settings", "said", "command"),
    [
        (SOURCES, SETTINGS.replace("4000", "5000"), "plan: plan.range_bytes was 4000, now 5000", "plan"),
        (
            SOURCES.replace('files = ["ru.jsonl"]', 'files = ["ru.jsonl"]\ntext = "body"'),
            SETTINGS,
            'plan: source[1].text was "text", now "body" (of ru.jsonl)',
            "plan",
        ),
        (SOURCES, SETTINGS + "[count]\nsample = 0.5\n", "counts: count.sample was 1, now 0.5", "count"),
        (
            SOURCES,
            SETTINGS + '[[filter]]\nrule = "gopher_quality"\nlangs = ["en"]\nmin_stop_words = 0\n',
            'plan: [[filter]] was [], now gopher_quality {"min_stop_words":0} langs en (of en.jsonl.zst and 3 more)',
            "plan",
        ),
        (SOURCES, SETTINGS + '[normalize]\nsteps = ["nfc"]\n', 'counts: normalize.steps was [], now ["nfc"]', "count"),
        (
            SOURCES,
            SETTINGS + '[pretokenize]\npattern = "gpt2"\n',
            'counts: pretokenize.pattern was "o200k", now "gpt2"',
            "count",
        ),
        (SOURCES, SETTINGS + "[mix]\nalpha = 0.5\n", "tokenizer: mix.alpha was 0.7, now 0.5", "learn"),
        (
            SOURCES,
            SETTINGS + '[special]\n"<|endoftext|>" = "document_end"\n"<|pad|>" = "padding"\n',
            'tokenizer: special."<|pad|>" was not set, now "padding"',
            "learn",
        ),
        (SOURCES, SETTINGS + "validation = 0.1\n", "shards: shards.validation was 0, now 0.1", "encode"),
        (
            SOURCES,
            SETTINGS + "[encode]\nappend = []\n",
            'shards: encode.append was ["<|endoftext|>"], now []',
            "encode",
        ),
    ],
)
def test_each_key_its_stage_and_the_way_out(corpus, output, sources, settings, said, command):
    path = build_file(corpus, sources, settings, name="other.toml")
    before = tree(output)
    with pytest.raises(ConfigError) as error:
        run(path, output)
    assert f"\n  {said}\n" in str(error.value)
    assert f"other.toml --replace {command}`" in str(error.value)
    assert tree(output) == before


def test_every_setting_of_a_stage_is_a_key_of_the_build_file(corpus):
    config = load_config(str(corpus / "build.toml"))
    configs = config.stage_configs()
    keys = [key for key, _ in _iterate_settings(configs)] + ["plan.range_bytes"]
    tables = {name: {field.name.rstrip("_") for field in dataclasses.fields(cls)} for name, (_, cls) in TABLES.items()}
    for key in keys:
        table, _, name = key.partition(".")
        assert table == "special" or name.split(".")[0] in tables[table], key
    # No field is left out: changing any of them makes a difference.
    for part in (configs.counts, configs.tokenizer, configs.shards):
        for field in dataclasses.fields(part):
            others = {"mix": NaturalMix("natural"), "plugins": {"toy": "toy 1.0"}, "metadata": (("x", "bool"),)}
            others["levels"] = LevelsConfig(("lang", "source"), {})
            other = others.get(field.name, _another(getattr(part, field.name)))
            assert describe_changed_settings(part, dataclasses.replace(part, **{field.name: other})), field.name
    assert describe_changed_settings(StageConfigs(configs.tokenizer, configs.shards, configs.counts), configs) == []


def _another(value: object) -> object:
    if isinstance(value, bool) or value is None:
        return True if not value else None
    if isinstance(value, dict):
        return {"regex": "x+"}
    return () if isinstance(value, tuple) and value else ("x",) if isinstance(value, tuple) else f"{value}0"


def test_a_changed_input_is_named(tmp_path):
    small_corpus(tmp_path)
    path = build_file(tmp_path)
    run(path, tmp_path / "out")
    write(tmp_path / "ru.jsonl", jsonl([{"id": f"{i}", "text": text} for i, text in enumerate(texts("ru", 20, 1))]))
    with pytest.raises(ConfigError, match=r"plan: the input files are not the same: ru\.jsonl was modified\n"):
        run(path, tmp_path / "out")
    build(path, tmp_path / "out", replace="plan").run()
    run(path, tmp_path / "new")
    assert tree(tmp_path / "out") == tree(tmp_path / "new")


# ------------------------------------------------------------------------------------------- nothing was committed yet


def test_a_corrected_source_goes_on_after_a_failed_build(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("tokcore_pipelines.build.build.refuse_wrong_sources", lambda *_: [])  # or a sample shows it
    wrong = build_file(corpus, SOURCES.replace('id = "id"', 'id = "id"\ntext = "body"'), name="wrong.toml")
    with pytest.raises(StageError, match=r"missing_text(?s:.)*write text = \"text\""):
        run(wrong, tmp_path / "out")
    assert (tmp_path / "out" / "rejected" / "rejected.jsonl").exists()  # kept, for the user to look at
    again = build(corpus / "build.toml", tmp_path / "out")
    again.run()
    assert tree(tmp_path / "out") == tree(corpus / "out")


def test_a_raised_limit_goes_on_and_counts_nothing_again(tmp_path, capfd):
    write(tmp_path / "a.jsonl", jsonl([{"text": text} for text in texts("en", 40)]) + b"{\n")
    sources = '[[source]]\nlang = "en"\nfiles = "a.jsonl"\n'
    path = build_file(tmp_path, sources, "[learn]\nvocab_size = 280\n")
    with pytest.raises(StageError, match="max_rejected"):
        run(path, tmp_path / "out")
    done = sorted((tmp_path / "out" / "_attempts").glob("counts-*/done/*"))
    assert done
    path = build_file(tmp_path, sources, "[learn]\nvocab_size = 280\n", build="max_rejected = 1")
    run(path, tmp_path / "out")
    assert "goes on with plan, rejected, made on 2" in capfd.readouterr().err
    assert verify(str(tmp_path / "out")).problems == ()


NOTHING = {
    "empty": b"",
    "rejected": jsonl([{"body": "not named text"}] * 3),
    "no text": jsonl([{"text": ""}] * 3),
}


@pytest.mark.parametrize("wrong", NOTHING)
@pytest.mark.parametrize("corrected", ["the build file", "the input"])
def test_after_a_corpus_without_text_the_corrected_build_goes_on(tmp_path, wrong, corrected):
    """Nothing was committed that another run could use, so nothing is asked."""
    good = jsonl([{"text": text} for text in texts("en", 40)])
    write(tmp_path / "a.jsonl", NOTHING[wrong])
    write(tmp_path / "b.jsonl", good)
    settings = "[learn]\nvocab_size = 280\n"
    path = build_file(tmp_path, '[[source]]\nlang = "en"\nfiles = "a.jsonl"\n', settings, build="max_rejected = 1")
    with pytest.raises((StageError, LearnError), match=r"empty|no bytes"):
        run(path, tmp_path / "out")
    if corrected == "the input":
        write(tmp_path / "a.jsonl", good)
    else:
        path = build_file(tmp_path, '[[source]]\nlang = "en"\nfiles = "b.jsonl"\n', settings)
    assert "which this one replaces" in build(path, tmp_path / "out").standing(plan_build(load_config(str(path))))
    root = run(path, tmp_path / "out").root
    assert root == run(path, tmp_path / "fresh").root


def test_after_a_source_without_documents_the_corrected_build_goes_on(tmp_path):
    write(tmp_path / "a.jsonl", b"")
    write(tmp_path / "b.jsonl", jsonl([{"text": text} for text in texts("en", 40)]))
    sources = ['[[source]]\nlang = "fr"\nfiles = "a.jsonl"\n', '[[source]]\nlang = "en"\nfiles = "b.jsonl"\n']
    with pytest.raises(StageError, match="language 'fr' has no documents"):
        run(build_file(tmp_path, "".join(sources), "[learn]\nvocab_size = 280\n"), tmp_path / "out")
    run(build_file(tmp_path, sources[1], "[learn]\nvocab_size = 280\n"), tmp_path / "out")


def test_what_a_changed_input_would_cost_is_asked(tmp_path):
    """All was counted, and a higher limit would go on; so a changed file is named first."""
    documents = jsonl([{"text": text} for text in texts("en", 40)])
    write(tmp_path / "a.jsonl", documents + b"{\n")
    path = build_file(tmp_path, '[[source]]\nlang = "en"\nfiles = "a.jsonl"\n', "[learn]\nvocab_size = 280\n")
    with pytest.raises(StageError, match="max_rejected"):
        run(path, tmp_path / "out")
    write(tmp_path / "a.jsonl", documents)
    with pytest.raises(ConfigError, match=r"a\.jsonl was modified(?s:.)*--replace plan"):
        run(path, tmp_path / "out")


def test_a_build_that_may_be_at_work_does_not_give_way(corpus, tmp_path):
    """Another build cannot know whether a killed build is still at work."""
    killed = killed_build(corpus / "build.toml", tmp_path / "out", "stage.worked:1")
    assert killed == -signal.SIGKILL
    assert list((tmp_path / "out" / "_attempts").glob("at-work.*"))
    other = build_file(corpus, settings=SETTINGS.replace("4000", "5000"), name="other.toml")
    with pytest.raises(ConfigError, match=r"plan\.range_bytes was 4000, now 5000(?s:.)*--replace plan"):
        run(other, tmp_path / "out")
    build(other, tmp_path / "out", replace="plan").run()
    run(other, tmp_path / "new")
    assert tree(tmp_path / "out") == tree(tmp_path / "new")


def killed_build(path: Path, output: Path, crash: str, *options: str) -> int:
    command = [sys.executable, "-m", "tokcore_pipelines.cli", "build", str(path), "--output", str(output), *options]
    env = {**os.environ, "TOKCORE_CRASH": crash}
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False, env=env).returncode


def test_a_vocabulary_that_the_counts_cannot_give(corpus, tmp_path):
    path = build_file(corpus, settings=SETTINGS.replace("vocab_size = 400", "vocab_size = 40000"), name="few.toml")
    with pytest.raises(LearnError, match="the counts give only"):
        run(path, tmp_path / "out")
    run(corpus / "build.toml", tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "_attempts")  # what the failed one left: `tokcore gc` removes it
    assert tree(tmp_path / "out") == tree(corpus / "out")


# -------------------------------------------------------------------------------------------------------------- --from


def test_counts_of_another_output_serve_another_vocabulary(corpus, tmp_path):
    made = build(corpus / "larger.toml", tmp_path / "out", reuse=corpus / "out")
    made.run()
    assert tree(tmp_path / "out") == tree(corpus / "larger")
    facts = json.loads((tmp_path / "out" / "counts" / "run.json").read_bytes())
    assert facts["seconds"] >= 0
    assert not (tmp_path / "out" / "_attempts").exists()


def test_from_copies_what_applies_and_nothing_else(corpus, tmp_path, capfd):
    path = build_file(corpus, settings=SETTINGS + "[count]\nmax_pretoken_bytes = 16\n", name="cut.toml")
    build(path, tmp_path / "out", reuse=corpus / "out").run()
    lines = capfd.readouterr().err.splitlines()
    done = [
        name for name in ("copy plan", "copy rejected", "copy counts", "count", "learn", "encode") if said(name, lines)
    ]
    assert done == ["copy plan", "copy rejected", "count", "learn", "encode"]
    run(path, tmp_path / "new")
    assert tree(tmp_path / "out") == tree(tmp_path / "new")


def said(stage: str, lines: list[str]) -> bool:
    """Whether progress has a line about a stage; on a busy machine there are more."""
    return any(line.startswith(f"{stage}  ") for line in lines)


@pytest.mark.parametrize("command", ["count", "learn", "encode"])
def test_from_with_each_command(corpus, tmp_path, command, capfd):
    getattr(build(corpus / "build.toml", tmp_path / "out", reuse=corpus / "out"), command)()
    made = {"count": ["counts"], "learn": ["counts", "tokenizer"], "encode": ["counts", "tokenizer", "shards"]}[command]
    for stage in ("plan", "rejected", *made):
        assert find_manifest(str(tmp_path / "out"), STAGES[stage]) == find_manifest(str(corpus / "out"), STAGES[stage])
    assert not said("count", capfd.readouterr().err.splitlines())
    assert not (tmp_path / "out" / "shards").exists() or command == "encode"


def test_from_with_an_imported_tokenizer(corpus, tmp_path):
    settings = f'[plan]\nrange_bytes = 4000\n[tokenizer]\nfrom = "{corpus}/out"\n'
    path = build_file(corpus, settings=settings, name="import.toml")
    run(path, tmp_path / "one")
    build(path, tmp_path / "two", reuse=tmp_path / "one").run()
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


def test_a_damaged_file_is_not_taken_over(corpus, output, tmp_path):
    table = find_file(output, "counts/ru.parquet")
    data = table.read_bytes()
    table.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    with pytest.raises(StageError, match=r"counts/ru-\w+\.parquet: its bytes are not .*tokcore repair"):
        build(corpus / "larger.toml", tmp_path / "new", reuse=output).run()
    assert find_manifest(str(tmp_path / "new"), COUNTS) is None


def test_from_what_is_no_other_output(corpus, tmp_path):
    with pytest.raises(ConfigError, match="is the output of this build"):
        build(corpus / "build.toml", tmp_path / "out", reuse=tmp_path / "out")
    with pytest.raises(ConfigError, match="there is no output"):
        build(corpus / "build.toml", tmp_path / "out", reuse=tmp_path / "none")


# ----------------------------------------------------------------------------------------------------------- --replace


def test_replace_makes_the_stage_and_what_follows(corpus, output):
    kept = {
        path: digest for path, digest in tree(output).items() if path.split("/")[0] in ("plan", "rejected", "counts")
    }
    inodes = {path: (output / path).stat().st_ino for path in kept}
    done = build(corpus / "larger.toml", output, replace="learn")
    done.run()
    assert tree(output) == tree(corpus / "larger")
    assert {path: (output / path).stat().st_ino for path in kept} == inodes
    assert done.made == ["tokenizer", "shards", BUILD]


@pytest.mark.parametrize("visit", [1, 2, 3, 5])
def test_replace_killed_at_each_removal_is_finished_by_the_same_command(corpus, output, visit):
    """Manifests are removed, then files: whenever that is killed, no manifest left names a missing file."""
    path = corpus / "larger.toml"
    assert killed_build(path, output, f"replace.removed:{visit}", "--replace", "learn") == -signal.SIGKILL
    standing = [
        stage for stage in (BUILD, "shards", "tokenizer") if find_manifest(str(output), get_stage(stage)) is not None
    ]
    assert standing == [
        stage for stage in list_following("learn", False)[visit:] if stage not in ("mixed", "packed", "tokenizers")
    ]
    for stage in standing:
        folder = output if stage == BUILD else output / stage
        assert all((folder / entry.path).exists() for entry in find_manifest(str(output), get_stage(stage)).files)
    # With the option or without it, the replacement is finished.
    build(path, output, replace="learn" if visit % 2 else "").run()
    assert tree(output) == tree(corpus / "larger")


def test_the_same_command_does_not_replace_what_it_made_before_it_was_killed(corpus, output):
    path = corpus / "larger.toml"
    assert killed_build(path, output, "stage.worked:1", "--replace", "learn") == -signal.SIGKILL
    again = build(path, output, replace="learn")
    again.run()
    assert again.made == ["shards", BUILD]
    assert tree(output) == tree(corpus / "larger")
    once_more = build(path, output, replace="encode")
    once_more.run()
    assert once_more.made == ["shards", BUILD]


# --------------------------------------------------------------------------------------------------------- the command


def test_the_commands(corpus, output):
    refused = tokcore("build", corpus / "larger.toml", "--output", output)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "learn.vocab_size was 400, now 420" in refused.stderr
    done = tokcore("build", corpus / "larger.toml", "--output", output, "--replace", "learn")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0].startswith("goes on with plan, rejected, counts, made on 2")
    assert "nothing to do" not in done.stdout
    again = tokcore("build", corpus / "larger.toml", "--output", output)
    assert again.stdout.splitlines()[-1].startswith("nothing to do: built on 2")
    assert again.stderr == ""
    counted = tokcore("count", corpus / "larger.toml", "--output", output)
    assert "nothing to do: counted on 2" in counted.stdout
    assert tokcore("count", corpus / "larger.toml", "--replace", "learn").returncode == 2
