"""Lines of keys: exact for every spelling that TOML has."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore_schemas.toml_lines import Key, find_key_lines, find_line, spell_key

TEXT = '''\
version = 1
# [build] in a comment is no table
[build]   # nor is = here an assignment
  name = "a # b = [c]"
'output' = """
[source]
x = 1
quotes: ""\\""""""
seed.low = 1

[[source]]
files = [
  "a]", # one
  'b',
  ["""deep
  er"""],
]
lang = "en"
[source.more]
x = 1979-05-27 07:32:00
[[source]]
lang = \'\'\'
[[source]]
\'\'\'
[ special . "<|\\u0065nd|>" ]
role = "plain"
[mix]
weights = { en = 1.5, "zh-Hant" = [ 1, 2 ], sub = { a.b = 3 } }
'''


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("version",), 1),
        (("build",), 3),
        (("build", "name"), 4),
        (("build", "output"), 5),
        (("build", "seed"), 9),
        (("build", "seed", "low"), 9),
        (("source",), 11),
        (("source", 0), 11),
        (("source", 0, "files"), 12),
        (("source", 0, "files", 0), 13),
        (("source", 0, "files", 1), 14),
        (("source", 0, "files", 2, 0), 15),
        (("source", 0, "lang"), 18),
        (("source", 0, "more", "x"), 20),
        (("source", 1), 21),
        (("source", 1, "lang"), 22),
        (("special", "<|end|>"), 25),
        (("special", "<|end|>", "role"), 26),
        (("mix", "weights"), 28),
        (("mix", "weights", "en"), 28),
        (("mix", "weights", "zh-Hant", 1), 28),
        (("mix", "weights", "sub", "a", "b"), 28),
    ],
)
def test_lines(key, line):
    assert find_key_lines(TEXT)[key] == line


def test_a_missing_key_is_where_its_table_is():
    lines = find_key_lines(TEXT)
    assert find_line(lines, ("source", 1, "files")) == 21
    assert find_line(lines, ("learn", "vocab_size")) is None
    assert find_line({}, ()) is None


@pytest.mark.parametrize("separator", ["\u2028", "\x85", "\u2029"])
def test_only_line_feeds_end_lines(separator):
    """str.splitlines recognizes more line ends than TOML and editors do."""
    assert find_key_lines(f'a = "x{separator}y"\nb = 1')[("b",)] == 2
    assert find_key_lines("a = 1\r\nb = 2\r\n")[("b",)] == 2


@pytest.mark.parametrize(
    ("key", "spelled"),
    [
        (("build",), "build"),
        (("source", 1, "files", 0), "source[1].files[0]"),
        (("special", "<|pad|>", "id"), 'special."<|pad|>".id'),
        (("mix", "weights", "zh-Hant"), "mix.weights.zh-Hant"),
    ],
)
def test_dotted(key, spelled):
    assert spell_key(key) == spelled


names = st.text("ab_-\"'é .=[]#\\", min_size=1, max_size=4)
scalars = st.sampled_from(["1", "1.5e3", "true", "1979-05-27", '"a = [1] # x"', "'\"'", '"""\n[t]\n"""', "'''\n\n'''"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3).map(lambda items: "[\n" + ",\n".join(items) + "]"),
    max_leaves=4,
)


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(st.dictionaries(names, st.dictionaries(names, values, max_size=3), max_size=4))
def test_every_key_has_the_line_on_which_it_was_written(tables):
    text, expected = "", {}
    for table, keys in tables.items():
        expected[(table,)] = text.count("\n") + 1
        text += f"[ {_quoted(table)} ] # comment\n\n"
        for name, value in keys.items():
            expected[(table, name)] = text.count("\n") + 1
            text += f"  {_quoted(name)} = {value}\n"
    lines = find_key_lines(text)
    assert {key: line for key, line in lines.items() if not any(isinstance(part, int) for part in key)} == expected
    assert set(lines) == set(_keys(tomllib.loads(text), ()))


def _keys(value: Any, key: Key) -> Iterator[Key]:
    if key:
        yield key
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _keys(item, (*key, name))
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _keys(item, (*key, position))
