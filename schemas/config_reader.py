"""Read the text of a build file into its tables; check the name, type and limits of each setting.

build_tables declares the settings; config_checks has the rules that involve several of them.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import re
import tomllib
import typing
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, TypeVar

from tokcore.errors import ConfigError
from tokcore.text.quality.rules import RULES
from tokcore_schemas.assignments import assign, parse_assignment
from tokcore_schemas.build_tables import (
    ATTRIBUTES,
    CODE,
    DEFAULT_SPECIAL,
    MAX_RESERVED,
    RESERVED,
    SEVERAL,
    TABLES,
    VERSION,
    AttributesTable,
    FilterTable,
    MetadataTable,
    OverlapTable,
    SpecialTable,
    fields_of,
    is_attributes,
    list_parameters,
    make_code_tokens,
    make_reserved,
)
from tokcore_schemas.paths import expand
from tokcore_schemas.setting import MAX_INTEGER, Number, Setting, find_inner_table, list_settings
from tokcore_schemas.toml_lines import Key, find_place, spell_key

T = TypeVar("T")

# Digits of a decimal after the point. Bounds exact arithmetic, and the plain spelling of 1e-999999999.
_MAX_DIGITS = 30

# Of [storage]: options that are true or false, and names that a secret would have.
_SWITCHES = ("anon", "requester_pays")
_SECRET = re.compile(r"key|secret|token|passw|credential|sas|connection_string", re.IGNORECASE)


class BuildFile:
    """A parsed build file that knows the line of each key."""

    def __init__(self, text: str | dict[str, Any], path: str, assigned: Sequence[str] = ()) -> None:
        """text: or the tables that it has. assigned: KEY=VALUE of the command line.

        Raises ConfigError if one of them is wrong, or text no TOML.
        """
        self.path = path
        self.text = text if isinstance(text, str) else ""
        try:
            self.content = tomllib.loads(text, parse_float=Decimal) if isinstance(text, str) else text
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(self._not_toml(str(error))) from error
        except (ValueError, InvalidOperation, RecursionError) as error:
            raise ConfigError(f"{path}: a number has too many digits, or tables are nested too deeply") from error
        self.assigned = tuple(key for one in assigned for key in assign(self.content, parse_assignment(one)))

    def error(self, key: Key, message: str) -> ConfigError:
        """An error about a key, for the caller to raise."""
        return ConfigError(f"{find_place(key, self.path, self.text, self.assigned)}: {spell_key(key)} {message}")

    def has(self, *key: str) -> bool:
        """Whether the file itself sets the key or opens the table."""
        value: Any = self.content
        for name in key:
            if not isinstance(value, dict) or name not in value:
                return False
            value = value[name]
        return True

    def has_at(self, key: Key) -> bool:
        """As has, of a key that may have numbers in it: those of sources."""
        value: Any = self.content
        for name in key:
            if isinstance(name, int) or (isinstance(value, dict) and name in value):
                value = value[name]
            else:
                return False
        return True

    def _not_toml(self, message: str) -> str:
        if (other := _guess_other_language(self.path, self.text)) is not None:
            return (
                f"{self.path}: a build file is TOML, and this looks like {other}. Write tables and keys like\n"
                f'  version = {VERSION}\n  [build]\n  output = "out"\n'
                f'  [[source]]\n  lang = "en"\n  files = "en/*.jsonl"'
            )
        place = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
        if place is None:
            return f"{self.path}: not TOML: {message}"
        lines = self.text.rstrip().split("\n")
        number = int(place[1] or len(lines))
        what = message[: place.start()] + (f" (column {place[2]})" if place[2] else "")
        if "overwrite" in message or "Duplicate" in message or "twice" in message:
            what = f"a key or table is there twice: {what}"
        found = f", in {show_value(lines[number - 1].strip())}" if number <= len(lines) else ""
        return f"{self.path}:{number}: not TOML: {what}{found}"


def _guess_other_language(path: str, text: str) -> str | None:
    """The language of a file that is not TOML, if it is one that people write configuration in."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if path.endswith((".yaml", ".yml")) or (lines and re.match(r"---\s*$|[A-Za-z_][\w-]*:(\s|$)", lines[0])):
        return "YAML"
    return "JSON" if path.endswith(".json") or (lines and lines[0].startswith("{")) else None


def read_tables(file: BuildFile) -> dict[str, Any]:
    """Attribute of BuildConfig -> the settings of its table, for each table that is in the file or required.

    Raises ConfigError for the first setting that is unknown, missing, of the wrong type or outside of its limits.
    """
    content = file.content
    if "version" not in content:
        raise file.error(("version",), f"is missing: write `version = {VERSION}` at the top of the file.")
    version = content["version"]
    if type(version) is not int or version != VERSION:
        raise file.error(
            ("version",),
            f"= {show_value(version)}: expected {VERSION}, the version that this release of tokcore reads.",
        )
    _check_names(file, content, ("version", *TABLES), ())
    tables = {"build": {}, **{name: value for name, value in content.items() if name != "version"}}
    if not tables.get("source"):
        raise file.error(("source",), "is missing: add a table [[source]] for each part of the corpus.")
    values: dict[str, Any] = {}
    for name, value in tables.items():
        attribute, cls = TABLES[name]
        if name in SEVERAL:
            if not isinstance(value, list):
                raise file.error((name,), f"must be written [[{name}]], with two brackets: there may be several.")
            read: Any = _read_filter if name == "filter" else functools.partial(_read_table, cls=cls)
            values[attribute] = tuple(read(file, value=one, key=(name, i)) for i, one in enumerate(value))
        elif name == "metadata":
            values[attribute], values[ATTRIBUTES] = _read_metadata(file, value)
        elif name == "special":
            values[attribute] = _read_special(file, value)
        else:
            values[attribute] = _read_table(file, cls, value, (name,))
    return values


_OVERLAP = "ngram_overlap"  # a table in a rule


def _read_filter(file: BuildFile, value: Any, key: Key) -> FilterTable:
    """A rule, whose parameters stand among its own keys."""
    if not isinstance(value, dict):
        raise file.error(key, f"= {show_value(value)}: expected a table.")
    known = list_parameters()
    rule = RULES.get(value["rule"]) if isinstance(value.get("rule"), str) else None
    own = {field.name for field in fields_of(rule)} if rule is not None else set()
    _check_names(file, value, (*list_settings(FilterTable), *(known if rule is None else sorted(own))), key)
    told = {name: _read_value(file, known[name], item, (*key, name)) for name, item in value.items() if name in known}
    overlap = None
    if _OVERLAP in value:
        overlap = _read_table(file, OverlapTable, value[_OVERLAP], (*key, _OVERLAP))
    own_keys = {name: item for name, item in value.items() if name not in known and name != _OVERLAP}
    table = dataclasses.replace(_read_table(file, FilterTable, own_keys, key), ngram_overlap=overlap)
    if told and rule is None:
        raise file.error((*key, next(iter(told))), "is of a ready rule, and none is named: add rule, or remove it.")
    return dataclasses.replace(table, parameters=told)


def _read_metadata(file: BuildFile, value: Any) -> tuple[tuple[MetadataTable, ...], AttributesTable | None]:
    """The fields, and the tables that hold some of them."""
    if not isinstance(value, dict):
        raise file.error(("metadata",), f'= {show_value(value)}: expected a table with lines like quality = "float32".')
    fields, attributes = [], None
    for name, about in value.items():
        if name == ATTRIBUTES and is_attributes(about):
            told = about if isinstance(about, dict) else {"files": about}
            attributes = _read_table(file, AttributesTable, told, ("metadata", name))
            continue
        if not isinstance(about, (str, dict)):
            expected = 'a type, or a table { type = "...", default = ... }'
            raise file.error(("metadata", name), f"= {show_value(about)}: expected {expected}.")
        told = {"type": about} if isinstance(about, str) else about
        key = ("metadata", name)
        if isinstance(about, str):  # the error names the line of the short form
            _read_value(file, list_settings(MetadataTable)["type"], about, key)
        fields.append(_read_table(file, MetadataTable, told, key, name=name))
    return tuple(fields), attributes


def _read_special(file: BuildFile, value: Any) -> tuple[SpecialTable, ...]:
    if not isinstance(value, dict):
        raise file.error(
            ("special",), f'= {show_value(value)}: expected a table with lines like "<|pad|>" = "padding".'
        )
    tokens: list[SpecialTable] = []
    num_reserved = 0
    is_for_code = value.get(CODE) is True
    for text, about in value.items():
        key = ("special", text)
        if text == CODE and type(about) is bool:
            continue
        if text == RESERVED and type(about) is int:
            if not 0 <= about <= MAX_RESERVED:
                raise file.error(key, f"= {about}: expected a number of tokens, 0 to {MAX_RESERVED}.")
            num_reserved = about
            continue
        if not isinstance(about, (str, dict)):
            raise file.error(key, f'= {show_value(about)}: expected a role, or a table {{ role = "...", id = N }}.')
        fields = {"role": about} if isinstance(about, str) else about
        tokens.append(_read_table(file, SpecialTable, fields, key, text=text))
    if not tokens and value.keys() & {RESERVED, CODE}:
        tokens = [*DEFAULT_SPECIAL]
    if is_for_code:
        tokens += make_code_tokens(tokens)
    return (*tokens, *make_reserved(num_reserved, tokens))


def _read_table(file: BuildFile, cls: type[T], value: Any, key: Key, **beside: str) -> T:
    """An instance of cls from a table of the file. beside: fields that are not keys of the table."""
    if not isinstance(value, dict):
        raise file.error(key, f"= {show_value(value)}: expected a table.")
    settings = list_settings(cls)
    _check_names(file, value, tuple(settings), key)
    for name, setting in settings.items():
        if setting.required and name not in value:
            raise file.error((*key, name), f'is missing: add a line {name} = "..." ({setting.text}).')
    found = {
        settings[name].attribute: _read_value(file, settings[name], item, (*key, name)) for name, item in value.items()
    }
    return cls(**found, **beside)


def _read_value(file: BuildFile, setting: Setting, value: Any, key: Key) -> Any:
    kind, limits = setting.kind, setting.limits
    if kind == tuple[int, ...]:
        return _read_numbers(file, setting, value, key)
    if typing.get_origin(kind) is tuple:
        items = [value] if limits.or_one and isinstance(value, str) else value
        if not isinstance(items, list):
            expected = "a string or a list of strings" if limits.or_one else "a list of strings"
            raise file.error(key, f"= {show_value(value)}: expected {expected}.")
        if limits.least is not None and len(items) < limits.least:
            raise file.error(key, f"= {show_value(value)}: expected at least {limits.least} of them.")
        several = len(items) > 1
        values = tuple(_read_string(file, setting, item, (*key, i) if several else key) for i, item in enumerate(items))
        if limits.distinct and (twice := next((one for i, one in enumerate(values) if one in values[:i]), None)):
            raise file.error(key, f"= {show_value(value)}: {show_value(twice)} is there twice; remove one of them.")
        return values
    if kind is str or typing.get_origin(kind) is Literal:
        return _read_string(file, setting, value, key)
    if kind is bool:
        if type(value) is not bool:
            raise file.error(key, f"= {show_value(value)}: expected true or false.")
        return value
    if kind is object:
        if not isinstance(value, (str, bool, int, Decimal)):
            raise file.error(key, f"= {show_value(value)}: expected a text, a number, true or false.")
        return value
    if kind in (int, Decimal):
        return _read_number(file, setting, value, key, whole=kind is int)
    if kind == Mapping[str, tuple[Decimal, ...]]:
        return _read_bounds(file, setting, value, key)
    if kind == Mapping[str, tuple[str, ...]]:
        return _read_lists(file, value, key)
    if (inside := find_inner_table(kind)) is not None:
        if not isinstance(value, dict):
            raise file.error(key, f"= {show_value(value)}: expected a table of tables.")
        return {name: _read_table(file, inside, item, (*key, name)) for name, item in value.items()}
    is_of_numbers = kind == Mapping[str, Decimal]
    if limits.keys and not is_of_numbers:
        return _read_options(file, setting, value, key)
    if not isinstance(value, dict):
        example = f"{{ {limits.keys[0]} = 0.1 }}" if limits.keys else "of lines like en = 1.5"
        example = 'of lines like eng = "en"' if kind == Mapping[str, str] else example
        raise file.error(key, f"= {show_value(value)}: expected a table {example}.")
    if kind == Mapping[str, str]:
        return {name: _read_string(file, setting, item, (*key, name)) for name, item in value.items()}
    if limits.keys and [*value] != [*limits.keys]:
        raise file.error(
            key, f"= {show_value(value)}: expected a table with {', '.join(limits.keys)}, and no other key."
        )
    return {name: _read_number(file, setting, item, (*key, name), whole=False) for name, item in value.items()}


def _read_numbers(file: BuildFile, setting: Setting, value: Any, key: Key) -> tuple[int, ...]:
    one = dataclasses.replace(setting, limits=dataclasses.replace(setting.limits, least=None))
    if type(value) is int:
        return (int(_read_number(file, one, value, key, whole=True)),)
    if not isinstance(value, list) or len(value) < (setting.limits.least or 0):
        raise file.error(
            key, f"= {show_value(value)}: expected a whole number{_describe_range(one)}, or a list of such numbers."
        )
    numbers = tuple(int(_read_number(file, one, item, (*key, i), whole=True)) for i, item in enumerate(value))
    for i, number in enumerate(numbers):
        if number in numbers[:i]:
            raise file.error(key, f"= {show_value(value)}: {number} is there twice; remove one of them.")
    return numbers


def _read_bounds(file: BuildFile, setting: Setting, value: Any, key: Key) -> dict[str, tuple[Number, ...]]:
    if not isinstance(value, dict) or not all(isinstance(one, list) for one in value.values()):
        raise file.error(key, f"= {show_value(value)}: expected a table of lists: {key[-1]} = {{ a = [0.2, 0.5] }}.")
    return {
        name: tuple(_read_number(file, setting, one, (*key, name, i), whole=False) for i, one in enumerate(numbers))
        for name, numbers in value.items()
    }


def _read_lists(file: BuildFile, value: Any, key: Key) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise file.error(key, f'= {show_value(value)}: expected a table of lists: {key[-1]} = {{ a = ["en", "de"] }}.')
    for name, items in value.items():
        if not isinstance(items, list) or not items or not all(isinstance(one, str) and one for one in items):
            raise file.error((*key, name), f'= {show_value(items)}: expected a list of strings, as ["en", "de"].')
    return {name: tuple(items) for name, items in value.items()}


def _read_options(file: BuildFile, setting: Setting, value: Any, key: Key) -> dict[str, str | bool]:
    known = setting.limits.keys
    if not isinstance(value, dict):
        raise file.error(key, f"= {show_value(value)}: expected a table: {key[-1]} = {{ {known[0]} = ... }}.")
    for name, item in value.items():
        if name not in known and _SECRET.search(name):
            raise file.error(
                (*key, name),
                "may be a secret, which no build file may hold. Set it in the environment or in a profile.",
            )
        if name not in known:
            hint = suggest_nearest(name, known) or f" Known are {', '.join(known)}."
            raise file.error((*key, name), f"is not an option of [{'.'.join(map(str, key))}].{hint}")
        if type(item) is not (bool if name in _SWITCHES else str) or item == "":
            expected = "true or false" if name in _SWITCHES else "a string that is not empty"
            raise file.error((*key, name), f"= {show_value(item)}: expected {expected}.")
    return dict(value)


def _read_string(file: BuildFile, setting: Setting, value: Any, key: Key) -> str:
    if setting.options:
        others = setting.limits.others
        if not isinstance(value, str) or not (value in setting.options or (others is not None and value in others)):
            options = (*setting.options, *(others.list_others() if others is not None else ()))
            instead = f", {setting.limits.instead}" if setting.limits.instead else ""
            meant = dict(setting.limits.meant).get(value.lower()) if isinstance(value, str) else None
            nearest = suggest_nearest(value, options) if len(options) > 1 else ""  # the only one is said already
            hint = f" Write {show_value(meant)}." if meant else nearest
            raise file.error(key, f"= {show_value(value)}: expected {list_options(options)}{instead}.{hint}")
        return value
    if not isinstance(value, str):
        raise file.error(key, f"= {show_value(value)}: expected a string.")
    if not value and not setting.limits.may_be_empty:
        raise file.error(key, f'= "": expected a string that is not empty ({setting.text}).')
    if not setting.limits.is_path:
        return value
    try:
        return expand(value)
    except ConfigError as error:
        raise file.error(key, f"= {show_value(value)}: {error}.") from error


def _read_number(file: BuildFile, setting: Setting, value: Any, key: Key, *, whole: bool) -> Number:
    limits = setting.limits
    expected = f"{'a whole number' if whole else 'a number'}{_describe_range(setting)}"
    if whole:
        if type(value) is not int:
            raise file.error(key, f"= {show_value(value)}: expected {expected}.")
    elif not (type(value) is int or (isinstance(value, Decimal) and value.is_finite())):
        raise file.error(key, f"= {show_value(value)}: expected {expected}.")
    number: Number = value
    most: Number = MAX_INTEGER if limits.most is None else limits.most
    if (
        (limits.least is not None and number < limits.least)
        or (limits.above is not None and number <= limits.above)
        or (limits.below is not None and number >= limits.below)
        or not -most <= number <= most
    ):
        raise file.error(key, f"= {show_value(value)}: expected {expected}.")
    if whole:
        return number
    if not number:
        return Decimal(0)  # whatever its sign and digits
    exact = Decimal(number)
    if -_find_exponent(exact) > _MAX_DIGITS:
        raise file.error(key, f"= {show_value(value)}: expected at most {_MAX_DIGITS} digits after the point.")
    return exact


def _find_exponent(number: Decimal) -> int:
    """The power of ten of the last digit that is not 0."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int), "finite"
    spelled = "".join(map(str, digits))
    return exponent + len(spelled) - len(spelled.rstrip("0"))


def _describe_range(setting: Setting) -> str:
    limits = setting.limits
    if limits.least is not None and limits.most is not None:
        return f" from {limits.least} to {limits.most}"
    named = {"of at least": limits.least, "above": limits.above, "below": limits.below, "of at most": limits.most}
    parts = [f"{words} {limit}" for words, limit in named.items() if limit is not None]
    return " " + " and ".join(parts) if parts else ""


def _check_names(file: BuildFile, found: Iterable[str], known: Sequence[str], key: Key) -> None:
    for name in found:
        if name in known:
            continue
        hint = suggest_nearest(name, known)
        if not hint:
            homes = [table for table, (_, cls) in TABLES.items() if name in list_settings(cls)]
            hint = f" It is a key of [{homes[0]}]." if homes else f" Known are {', '.join(known)}."
        raise file.error((*key, name), f"is not a key of {f'[{key[0]}]' if key else 'the build file'}.{hint}")


def show_value(value: Any) -> str:
    """A value of the file, for a message; cut to 60 characters.

    >>> show_value("a"), show_value(Decimal("0.50")), show_value([True, 1])
    ('"a"', '0.50', '[true, 1]')
    """
    text = str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def list_options(options: Sequence[str]) -> str:
    """The options, for a message."""
    return f"one of {', '.join(options)}" if len(options) > 1 else f'"{options[0]}"'


def suggest_nearest(value: Any, options: Iterable[str]) -> str:
    """A sentence that suggests the option most like the value; "" if none is like it.

    >>> suggest_nearest("vocabsize", ["model", "vocab_size"])
    ' Did you mean vocab_size?'
    """
    close = difflib.get_close_matches(str(value), list(options), n=1)
    return f" Did you mean {close[0]}?" if close else ""
