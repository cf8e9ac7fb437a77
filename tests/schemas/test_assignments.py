"""--set: a key of the build file from the command line, under the same rules and with the same messages."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tokcore.errors import ConfigError
from tokcore_schemas.config import BuildConfig, load_config, parse_config

TEXT = """version = 1
[build]
output = "out"
[[source]]
lang = "en"
files = "en.jsonl"
[[source]]
lang = "ru"
files = "ru.jsonl"
[learn]
vocab_size = 400
"""


def assigned(*settings: str) -> BuildConfig:
    return parse_config(TEXT, "b.toml", settings)


def refused(*settings: str) -> str:
    with pytest.raises(ConfigError) as raised:
        assigned(*settings)
    return str(raised.value)


def test_a_value_is_toml_and_the_last_one_wins():
    config = assigned("learn.vocab_size=65_536", "mix.alpha = 0.5", "learn.allow_smaller=true", "learn.vocab_size=999")
    assert (config.learn.vocab_size, config.mix.alpha, config.learn.allow_smaller) == ((999,), Decimal("0.5"), True)
    assert assigned('shards.formats=["arrow"]').shards.formats == ("arrow",)
    assert assigned("mix.weights={en=2}", "mix.strategy=weights", "mix.weights.ru=3").mix.weights == {"en": 2, "ru": 3}


def test_where_a_string_is_wanted_bare_text_is_one():
    config = assigned("build.name=2024", "build.output=s3://bucket/a b", "shards.by=lang", "pretokenize.regex=[a-z]+|.")
    assert (config.build.name, config.build.output, config.shards.by) == ("2024", "s3://bucket/a b", "lang")
    assert config.pretokenize.regex == "[a-z]+|."
    assert assigned('build.name="a b"').build.name == "a b"
    assert assigned("build.name=x\noutput = 3").build.name == "x\noutput = 3"


@pytest.mark.parametrize("key", ["source.1.text", "source[1].text"])
def test_one_source_is_named_by_its_number(key):
    assert [source.text for source in assigned(f"{key}=content").sources] == ["text", "content"]


def test_a_source_without_a_number_stands_for_all():
    config = assigned("source.text=content", "source.0.text=body", 'source.files=["a.jsonl", "b.jsonl"]')
    assert [source.text for source in config.sources] == ["body", "content"]
    assert {source.files for source in config.sources} == {("a.jsonl", "b.jsonl")}
    assert assigned("source.0.files=c*.jsonl").sources[0].files == ("c*.jsonl",)


def test_special_tokens_are_quoted_as_in_the_file():
    config = assigned('special."<|end|>"=document_end', 'special."<|end|>".id=399')
    assert [(token.text, token.role, token.id) for token in config.special] == [("<|end|>", "document_end", 399)]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("learn.vocab_sice=3", "--set: learn.vocab_sice is not a key of [learn]. Did you mean vocab_size?"),
        (
            "learn.vocab_size=64k",
            '--set: learn.vocab_size = "64k": expected a whole number of at most 2147483647, or a list',
        ),
        ("learn.vocab_size=", '--set: learn.vocab_size = "": expected a whole number'),
        ("lern.vocab_size=3", "--set: lern is not a key of the build file. Did you mean learn?"),
        ("source.1.lang=e/n", '--set: source[1].lang = "e/n": expected a letter or digit'),
        ("source.txt=a", "--set: source[0].txt is not a key of [source]. Did you mean text?"),
        ("source.2.text=a", "--set source.2.text: the build file has 2 sources, counted from 0: there is no source.2"),
        ("source=a", "--set source: expected a key of a source"),
        ("learn.vocab_size.x=1", "--set learn.vocab_size.x: vocab_size is a value, not a table"),
        ("learn.vocab_size", "--set learn.vocab_size: expected KEY=VALUE"),
        ("<|x|>=plain", "--set <|x|>=plain: expected KEY=VALUE"),
        ("shards.formats=arow", '--set: shards.formats = "arow": expected a list of strings.'),
    ],
)
def test_mistakes_name_the_command_line_as_their_place(setting, message):
    assert refused(setting).startswith(message)


def test_other_places_stay_those_of_the_file():
    broken = TEXT.replace('lang = "ru"', 'lang = "r u"')
    with pytest.raises(ConfigError, match=r"^b\.toml:8: source\[1\]\.lang"):
        parse_config(broken, "b.toml", ["learn.vocab_size=300"])
    config = assigned("learn.vocab_size=300", "source.0.files=a.jsonl")
    assert config.at("learn", "vocab_size") == "--set: learn.vocab_size"
    assert config.at("source", 0, "files", 0) == "--set: source[0].files"
    assert config.at("source", 1, "files", 0) == "b.toml:9: source[1].files"


def test_commands_in_messages_repeat_what_was_set(tmp_path):
    path = tmp_path / "b.toml"
    path.write_text(TEXT)
    config = load_config(str(path), ("learn.vocab_size=300", "build.name=my corpus"))
    assert config.as_argument == f"{path} --set learn.vocab_size=300 --set 'build.name=my corpus'"
    assert config == load_config(str(path), ("build.name=my corpus", "learn.vocab_size=300"))
