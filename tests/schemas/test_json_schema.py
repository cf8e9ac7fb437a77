"""The JSON Schema accepts and refuses what the reader of build files does, as far as one setting at a time goes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tokcore.errors import ConfigError
from tokcore_schemas.config import parse_config
from tokcore_schemas.json_schema import make_json_schema

ROOT = Path(__file__).parent.parent.parent
BUILD_FILES = sorted([*(ROOT / "deploy" / "examples").glob("*.toml"), ROOT / "deploy" / "demo" / "build.toml"])
SCHEMA = make_json_schema()

START = 'version = 1\n[build]\noutput = "out"\n'
MINIMAL = START + '[[source]]\nlang = "en"\nfiles = "en.jsonl"\n'

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
NOTES = {"$schema", "title", "description", "default"}


def valid(value: Any, schema: dict[str, Any]) -> bool:
    """Whether the value satisfies the schema. Knows what ours uses of draft 2020-12, and fails at any other keyword."""
    return all(_satisfies(value, word, schema) for word in schema.keys() - NOTES)


def _satisfies(value: Any, word: str, schema: dict[str, Any]) -> bool:
    want = schema[word]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match word:
        case "type":
            return isinstance(value, TYPES[want]) and (want == "boolean" or not isinstance(value, bool))
        case "const":
            return type(value) is type(want) and value == want
        case "enum":
            return value in want
        case "anyOf":
            return any(valid(value, one) for one in want)
        case "oneOf":
            return sum(valid(value, one) for one in want) == 1
        case "minimum":
            return not is_number or value >= want
        case "maximum":
            return not is_number or value <= want
        case "exclusiveMinimum":
            return not is_number or value > want
        case "exclusiveMaximum":
            return not is_number or value < want
        case "minLength":
            return not isinstance(value, str) or len(value) >= want
        case "minItems":
            return not isinstance(value, list) or len(value) >= want
        case "uniqueItems":
            return not isinstance(value, list) or len(set(map(str, value))) == len(value)
        case "items":
            return not isinstance(value, list) or all(valid(one, want) for one in value)
        case "required":
            return not isinstance(value, dict) or set(want) <= value.keys()
        case "properties":
            return not isinstance(value, dict) or all(
                valid(value[key], want[key]) for key in want.keys() & value.keys()
            )
        case "additionalProperties":
            if not isinstance(value, dict):
                return True
            others = [value[key] for key in value.keys() - schema.get("properties", {}).keys()]
            return not others if want is False else all(valid(one, want) for one in others)
    raise AssertionError(f"a keyword that this test does not know: {word}")


def accepted(text: str) -> bool:
    return valid(tomllib.loads(text), SCHEMA)


@pytest.mark.parametrize("path", BUILD_FILES, ids=lambda path: path.name)
def test_shipped_build_files_satisfy_it(path):
    assert accepted(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "settings",
    [
        'files_of_another = "x"',
        "max_document_bytes = 0",
        'format = "xls"',
        'lang_field = "l"',
        'text = ""',
        "[lern]",
        "[learn]\nvocabsize = 300",
        "[learn]\nvocab_size = 300.5",
        "[learn]\nvocab_size = true",
        '[learn]\nmodel = "trigram"',
        '[mix]\nstrategy = "uni"',
        "[mix]\nalpha = 1.5",
        '[mix]\nstrategy = "weights"\nweights = { en = 0 }',
        "[count]\nsample = 0",
        "[count]\nmemory_bytes = 5",
        "[shards]\nvalidation = 1",
        "[shards]\nformats = []",
        '[shards]\nformats = ["arrow", "arrow"]',
        '[normalize]\nsteps = ["nfx"]',
        '[special]\n"<a>" = "end"',
        '[special]\n"<a>" = { id = -1 }',
        '[tokenizer]\npattern = "cl100k"',
    ],
)
def test_what_both_refuse(settings):
    assert not accepted(MINIMAL + settings)
    with pytest.raises(ConfigError):
        parse_config(MINIMAL + settings, "b.toml")


@pytest.mark.parametrize(
    "text",
    ["", START, MINIMAL.replace("1", "2", 1), MINIMAL.replace("output", "name"), MINIMAL.replace('lang = "en"', "")],
)
def test_what_both_miss(text):
    assert not accepted(text)
    with pytest.raises(ConfigError):
        parse_config(text, "b.toml")


@pytest.mark.parametrize(
    "settings",
    [
        "",
        "[mix]\nalpha = 1",
        '[mix]\nstrategy = "weights"\nweights = { en = 1.5 }',
        '[special]\n"<a>" = "document_end"\n"<b>" = { role = "padding", id = 40000 }',
        '[shards]\nformats = ["megatron"]',
        '[tokenizer]\nfrom = "t.tiktoken"\npattern = "cl100k"',
    ],
)
def test_what_both_accept(settings):
    assert accepted(MINIMAL + settings)
    parse_config(MINIMAL + settings, "b.toml")
