"""Writes build_classes.py, the tables of a build file as classes for Python: `make schema` runs it.

build_tables declares the tables; of each setting this takes the name, the type and the meaning, and no default.
"""

from __future__ import annotations

import dataclasses
import textwrap
import typing
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path

from tokcore_schemas.build_tables import TABLES, FilterTable, list_parameters
from tokcore_schemas.setting import Setting, find_inner_table, list_settings

FILE = Path(__file__).with_name("build_classes.py")
_WIDTH = 120
# Where the table's name, with a capital letter, is not the class'.
_NAMES = {"build": "BuildKeys", "tokenizer": "ExistingTokenizer"}
_EXAMPLES = {
    "source": """

    >>> Source(lang="en", files="en/*.jsonl").text is None
    True
    """,
    "learn": """

    >>> Learn(vocab_size=65_536).model is None
    True
    """,
}
_HEAD = '''"""The tables of a build file as classes: what is not given is not set, and the build file's defaults hold.

Written by generate_build_classes.py; do not edit. What each key means, and its default: build_tables.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Literal

Number = int | float | Decimal
'''


def write_build_classes() -> str:
    """The content of build_classes.py."""
    classes = ["\n".join(_write_class(name, cls)) for name, (_, cls) in TABLES.items()]
    return "\n\n\n".join([_HEAD.rstrip(), *classes]) + "\n"


def name_class(table: str) -> str:
    """The class of a table.

    >>> name_class("learn"), name_class("tokenizer")
    ('Learn', 'ExistingTokenizer')
    """
    return _NAMES.get(table, table.capitalize())


def _write_class(name: str, table: type) -> Iterator[str]:
    yield "@dataclasses.dataclass(frozen=True, kw_only=True)"
    yield f"class {name_class(name)}:"
    yield f'    """{table.__doc__}{_EXAMPLES.get(name, "")}"""'
    yield ""
    more = list_parameters() if table is FilterTable else {}
    for setting in (*list_settings(table).values(), *more.values()):
        yield from textwrap.wrap(setting.text, _WIDTH, initial_indent="    # ", subsequent_indent="    # ")
        # The output can be named where the build is run, too.
        is_required = setting.required and name != "build"
        end = "" if is_required else " | None = None"
        line = f"    {setting.attribute}: {_spell_type(setting)}{end}"
        yield line if len(line) <= _WIDTH else f"    {setting.attribute}: str{end}"  # of many options


def _spell_type(setting: Setting) -> str:
    kind = setting.kind
    if dataclasses.is_dataclass(kind):
        return "Mapping[str, str | int | Sequence[str]]"  # a table within a table
    if typing.get_origin(kind) is tuple:
        one = _spell_string(setting) if typing.get_args(kind)[0] is not int else "int"
        return f"{one} | Sequence[{one}]" if setting.limits.or_one or one == "int" else f"Sequence[{one}]"
    if kind is bool or kind is int:
        return str(kind.__name__)
    if kind is object:
        return "str | bool | Number"
    if kind is Decimal:
        return "Number"
    if kind is str or setting.options:
        return _spell_string(setting)
    if kind == Mapping[str, tuple[Decimal, ...]]:
        return "Mapping[str, Sequence[Number]]"
    if kind == Mapping[str, tuple[str, ...]]:
        return "Mapping[str, Sequence[str]]"
    if find_inner_table(kind) is not None:
        return "Mapping[str, Mapping[str, Number | Mapping[str, Number]]]"
    if kind == Mapping[str, str]:
        return "Mapping[str, str]"
    return "Mapping[str, Number]" if kind == Mapping[str, Decimal] else "Mapping[str, str | bool]"


def _spell_string(setting: Setting) -> str:
    return f"Literal[{', '.join(map(repr, setting.options))}]".replace("'", '"') if setting.options else "str"


if __name__ == "__main__":
    FILE.write_text(write_build_classes(), encoding="utf-8")
