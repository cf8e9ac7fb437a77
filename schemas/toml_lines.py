"""The line of a TOML text that sets a key, which tomllib does not tell; and how keys and strings are written."""

from __future__ import annotations

import bisect
import functools
import json
import re
import tomllib
from collections.abc import Mapping, Sequence

# The option of the command line that sets keys, too.
OPTION = "--set"

Key = tuple[str | int, ...]  # names, and positions in arrays: ("source", 1, "files")

_PART = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)"""
_KEY = re.compile(rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*")
# Between statements, and between the values of an array or inline table.
_BLANK = re.compile(r"(?:[\s,]|#[^\n]*)*")
# The three closing quotes may come after two more that belong to the text.
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}' + r"|'''.*?'{3,5}" + r'|"(?:\\.|[^"\\])*"' + r"|'[^']*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]+")  # a date may have a space in it


@functools.lru_cache(maxsize=1)
def find_key_lines(text: str) -> Mapping[Key, int]:
    """The line, from 1, of every key, table and array value of a valid TOML text.

    >>> find_key_lines('version = 1\\n[[source]]\\nlang = "en"')[("source", 0, "lang")]
    3
    """
    return _Scanner(text).lines


def find_line(lines: Mapping[Key, int], key: Key) -> int | None:
    """The line of a key or, if the key is not there, of the nearest table around it."""
    while key and key not in lines:
        key = key[:-1]
    return lines.get(key)


def find_place(key: Key, path: str, text: str, assigned: Sequence[Key]) -> str:
    """Where a key is set, for the start of a message: file and line, or the command line."""
    lines = find_key_lines(text)
    for one in assigned:
        if one == key[: len(one)] or (one[: len(key)] == key and key not in lines):
            return OPTION
    line = find_line(lines, key)
    return f"{path}:{line}" if line else path


def spell_key(key: Key) -> str:
    """The key as a build file spells it.

    >>> spell_key(("source", 1, "files")), spell_key(("special", "<|pad|>", "id"))
    ('source[1].files', 'special."<|pad|>".id')
    """
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + quote_key(part)
    return text


def quote_text(text: str) -> str:
    """A TOML basic string; JSON's escapes are among TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def quote_key(name: str) -> str:
    """The name as a key of TOML.

    >>> quote_key("vocab_size"), quote_key("<|pad|>")
    ('vocab_size', '"<|pad|>"')
    """
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quote_text(name)


def parse_names_at_start(text: str) -> tuple[tuple[str, ...], int] | None:
    """(the parts of the key that a text begins with, where it ends); None if it begins with none.

    >>> parse_names_at_start('special."<|pad|>".id=5')
    (('special', '<|pad|>', 'id'), 20)
    """
    match = _KEY.match(text)
    return (_parse_names(match[0]), match.end()) if match else None


class _Scanner:
    """Walks over a text that tomllib has accepted, so it checks nothing again."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Key, int] = {}
        self._text = text
        self._at = 0
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._last: dict[Key, int] = {}  # array of tables -> position of its last table so far
        table: Key = ()
        while self._skip():
            if self._peek() == "[":
                table = self._header()
            else:
                self._assignment(table)

    def _skip(self) -> bool:
        """Skip blanks and comments; returns whether there is more text."""
        self._take(_BLANK)
        return self._at < len(self._text)

    def _peek(self) -> str:
        return self._text[self._at]

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        assert match is not None, f"tomllib accepted what stands at character {self._at}"
        self._at = match.end()
        return match[0]

    def _record(self, key: Key) -> None:
        self.lines.setdefault(key, bisect.bisect_right(self._line_starts, self._at))

    def _header(self) -> Key:
        several = self._text.startswith("[[", self._at)
        self._at += 2 if several else 1
        self._take(_BLANK)
        start = self._at
        table: Key = ()
        names = _parse_names(self._take(_KEY))
        end, self._at = self._at, start
        for i, name in enumerate(names):
            table += (name,)
            self._record(table)
            if several and i == len(names) - 1:
                self._last[table] = self._last.get(table, -1) + 1
            if table in self._last:
                table += (self._last[table],)
                self._record(table)
        self._at = end
        self._take(_BLANK)
        self._at += 2 if several else 1
        return table

    def _assignment(self, table: Key) -> None:
        start = self._at
        names = _parse_names(self._take(_KEY))
        end, self._at = self._at, start
        for name in names:
            table += (name,)
            self._record(table)
        self._at = self._text.index("=", end) + 1
        self._value(table)

    def _value(self, key: Key) -> None:
        self._skip()
        first = self._peek()
        if first in "\"'":
            self._take(_STRING)
        elif first == "[":
            self._at += 1
            position = 0
            while self._skip() and self._peek() != "]":
                self._record((*key, position))
                self._value((*key, position))
                position += 1
            self._at += 1
        elif first == "{":
            self._at += 1
            while self._skip() and self._peek() != "}":
                self._assignment(key)
            self._at += 1
        else:
            self._take(_SCALAR)


def _parse_names(key: str) -> tuple[str, ...]:
    """The parts of a dotted key, which tomllib unquotes."""
    value = tomllib.loads(f"{key} = 0")
    names = []
    while isinstance(value, dict):
        ((name, value),) = value.items()
        names.append(name)
    return tuple(names)
