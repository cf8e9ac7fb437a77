"""A build file in Python is the build file that its TOML is."""

from __future__ import annotations

import dataclasses
import tomllib
from decimal import Decimal
from pathlib import Path

import pytest
from support.builds import ROOT

from tokcore.errors import ConfigError
from tokcore_schemas import build_classes
from tokcore_schemas.build_classes import BuildKeys, Learn, Mix, Pretokenize, Source, Special, Storage
from tokcore_schemas.build_in_python import Build, spell_settings
from tokcore_schemas.build_tables import TABLES, BuildConfig, list_parameters
from tokcore_schemas.config import parse_config
from tokcore_schemas.generate_build_classes import name_class, write_build_classes
from tokcore_schemas.setting import list_settings

EXAMPLES = [*sorted((ROOT / "deploy" / "examples").glob("*.toml")), ROOT / "deploy" / "demo" / "build.toml"]
EN = Source(lang="en", files="en.jsonl")


def shown(config: BuildConfig) -> BuildConfig:
    """What two spellings of one build file have in common."""
    return dataclasses.replace(config, path="", base="")


def test_the_classes_are_those_of_the_tables():
    assert (ROOT / "schemas" / "build_classes.py").read_text() == write_build_classes(), "run make schema"
    fields = {one.name for one in dataclasses.fields(Build)} - {one.name for one in dataclasses.fields(BuildKeys)}
    assert fields == {attribute for name, (attribute, _) in TABLES.items() if name != "build"} | {"base"}
    for name, (_, table) in TABLES.items():
        keys = {one.name for one in dataclasses.fields(getattr(build_classes, name_class(name)))}
        more = set(list_parameters()) if name == "filter" else set()
        assert keys == {setting.attribute for setting in list_settings(table).values()} | more


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_go_through_python_and_come_back(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    text = path.read_text()
    build = Build.from_toml(text, path.name)
    assert Build.from_toml(build.to_toml()) == build
    expected = shown(parse_config(text, path.name))
    assert shown(parse_config(build.to_toml(), path.name)) == expected
    assert shown(build.parse()) == expected


def test_what_is_not_given_is_not_set():
    """A default that is given is another thing: the model would choose else."""
    silent = Build(output="out", sources=[EN], learn=Learn(model="unigram"), pretokenize=Pretokenize())
    said = dataclasses.replace(silent, pretokenize=Pretokenize(pattern="o200k"))
    assert silent.parse().pretokenize.pattern != "o200k"
    assert said.parse().pretokenize.pattern == "o200k"


def test_all_kinds_of_values():
    build = Build(
        output='a\x7f"b\\\n',
        seed=7,
        max_rejected=0.1,
        sources=(Source(lang_field="lang", files=("a.csv", "é.csv"), quotes=False), EN),
        mix=Mix(strategy="weights", weights={"zh-Hant": 1e-3, "en": Decimal("2.50"), "<|x|>": 3}),
        learn=Learn(vocab_size=[300, 400]),
        special={"<|e|>": "document_end", '<|"|>': Special(role="padding", id=398)},
        storage=Storage(s3={"endpoint_url": "http://x", "anon": True}),
    )
    assert tomllib.loads(build.to_toml(), parse_float=Decimal) == build.to_tables()
    assert build.to_tables()["build"]["max_rejected"] == Decimal("0.1")
    back = Build.from_toml(build.to_toml())
    assert back.to_tables() == build.to_tables()
    assert (back.max_rejected, back.special) == (0.1, build.special)


def test_numbers_that_no_float_is_stay_exact():
    text = Build(output="out", sources=[EN]).to_toml() + "[count]\nsample = 0.1234567890123456789012345\n"
    assert Build.from_toml(text).to_toml() == text.replace("[count]", "\n[count]", 1).replace("\n\n\n", "\n\n")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (Build(output="out", sources=[]), "source is missing"),
        (Build(sources=[EN]), "build.output is missing"),
        (Build(output="out", sources=[EN], learn=Learn(vocab_size="many")), 'learn.vocab_size = "many": expected'),
        (Build(output="out", sources=[EN], learn=Learn(model="gpt")), 'learn.model = "gpt": expected one of'),
    ],
)
def test_mistakes_name_the_key_and_no_line(build, message):
    with pytest.raises(ConfigError) as caught:
        build.parse()
    assert f"Build(...): {message}" in str(caught.value)


def test_what_toml_cannot_say_is_refused():
    with pytest.raises(ConfigError, match=r"learn.vocab_size = .*: TOML has no such value"):
        Build(output="out", sources=[EN], learn=Learn(vocab_size=object())).to_toml()


def test_relative_paths_start_where_it_was_read(tmp_path, monkeypatch):
    (tmp_path / "build.toml").write_text(Build(output="out", sources=[EN]).to_toml())
    monkeypatch.chdir("/")
    assert Build.load(tmp_path / "build.toml").parse().base == str(tmp_path)
    assert Build(output="out", sources=[EN]).parse().base == str(Path("/"))


def test_settings_are_set_in_the_build_file():
    settings = {"learn": {"vocab_size": 333}, "source": {"text": "body"}, "special": {"<|x|>": "document_end"}}
    config = Build(output="out", sources=[EN, EN]).parse(spell_settings(settings))
    assert config.learn.vocab_size == (333,)
    assert [source.text for source in config.sources] == ["body", "body"]
    assert [token.text for token in config.special] == ["<|x|>"]
