"""Settings that a command line puts in place of those in a build file: `learn.vocab_size=65536`.

They enter the parsed file before anything is checked, so they follow the same rules and get the same messages.
"""

from __future__ import annotations

import re
import tomllib
import typing
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, NamedTuple

from tokcore.errors import ConfigError
from tokcore_schemas.build_tables import ATTRIBUTES, SEVERAL, TABLES, is_attributes, list_parameters
from tokcore_schemas.setting import Setting, list_settings
from tokcore_schemas.toml_lines import OPTION, Key, parse_names_at_start

_POSITION = re.compile(r"source\[(\d+)\]")  # as messages spell it


class Assignment(NamedTuple):
    """One KEY=VALUE, not yet checked."""

    names: tuple[str, ...]  # of the key, from the table inwards
    value: str  # TOML, or bare text where the key holds a string


def parse_assignment(text: str) -> Assignment:
    """The parts of KEY=VALUE. Raises ConfigError unless it begins with a TOML key and an equals sign.

    >>> parse_assignment("source[0].text = content")
    Assignment(names=('source', '0', 'text'), value='content')
    """
    spelled = _POSITION.sub(r"source.\1", text.strip(), count=1)
    found = parse_names_at_start(spelled)
    rest = spelled[found[1] :].lstrip() if found else ""
    if found is None or not rest.startswith("="):
        raise ConfigError(
            f"{OPTION} {text}: expected KEY=VALUE, for example learn.vocab_size=65536 or source.0.text=content"
        )
    return Assignment(found[0], rest[1:].strip())


def assign(content: dict[str, Any], assignment: Assignment) -> list[Key]:
    """Put the value into a parsed build file; return the keys that now have it.

    `source.0.text` is of the first source, `source.text` of each. Raises ConfigError for a source that is not there,
    and for a key inside of something that is no table.
    """
    keys = [*_iterate_keys(content, assignment)]
    for key in keys:
        table: Any = content
        for i, name in enumerate(key[:-1]):
            if key[0] in _SHORT and i == 1 and isinstance(table.get(name), str):
                of_tables = key[:2] == ("metadata", ATTRIBUTES) and is_attributes(table[name])
                table[name] = {"files" if of_tables else _SHORT[key[0]]: table[name]}
            table = table[name] if isinstance(name, int) else table.setdefault(name, {})
            if not isinstance(table, dict | list):
                raise ConfigError(f"{OPTION} {'.'.join(assignment.names)}: {name} is a value, not a table")
        table[key[-1]] = _parse_value(assignment.value, _find_setting(key))
    return keys


# Tables of free names -> the key that a line NAME = "..." in it sets.
_SHORT: Mapping[Any, str] = {"special": "role", "metadata": "type"}


def _iterate_keys(content: Mapping[str, Any], assignment: Assignment) -> Iterator[Key]:
    first, *rest = assignment.names
    sources = content.get(first)
    if first not in SEVERAL or not isinstance(sources, list):
        yield assignment.names
        return
    spelled = f"{OPTION} {'.'.join(assignment.names)}"
    position = rest.pop(0) if rest and rest[0].isdecimal() else None
    if not rest:
        example = {"source": "source.0.text=content", "map": "map.0.version=2", "filter": "filter.0.langs=en"}[first]
        raise ConfigError(f"{spelled}: expected a key of a {first}, for example {example}")
    if position is not None and int(position) >= len(sources):
        raise ConfigError(
            f"{spelled}: the build file has {len(sources)} {first}{'s' * (len(sources) != 1)}, "
            f"counted from 0: there is no {first}.{position}"
        )
    for number in range(len(sources)) if position is None else (int(position),):
        yield (first, number, *rest)


def _find_setting(key: Key) -> Setting | None:
    """What the build file's tables say of a key; None for one that they do not know, or whose name is free."""
    name, *rest = (part for part in key if isinstance(part, str))
    if name in _SHORT:
        rest = rest[1:]
    if name not in TABLES or len(rest) != 1:
        return None
    settings = list_settings(TABLES[name][1])
    return settings.get(rest[0]) or (list_parameters().get(rest[0]) if name == "filter" else None)


def _parse_value(text: str, setting: Setting | None) -> Any:
    """The value as TOML; the text itself if it is not TOML, or if the key takes a string and the value is not one."""
    try:
        parsed = tomllib.loads(f"value = {text}", parse_float=Decimal)
    except (ValueError, InvalidOperation, RecursionError):
        return text
    value = parsed["value"]
    if len(parsed) > 1:
        return text  # a line break let it set more than one key
    return value if setting is None or isinstance(value, str | list) or not _takes_text(setting) else text


def _takes_text(setting: Setting) -> bool:
    takes_texts = setting.limits.or_one and setting.kind != tuple[int, ...]
    return setting.kind is str or typing.get_origin(setting.kind) is Literal or takes_texts
