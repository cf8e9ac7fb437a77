"""Which line of a TOML text sets a key: for messages, so it finds ordinary spellings and is silent about the rest."""

from __future__ import annotations

import re

_HEADER = re.compile(r"\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(#.*)?$")
_ASSIGNMENT = re.compile(
    r"""\s*((?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)(?:\s*\.\s*(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+))*)\s*="""
)
_PART = re.compile(r""""(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+(?:\[\d+\])?""")


def line_of(text: str, key: str) -> int | None:
    """The line, from 1, of a key such as build.output, source[1].files or special."<|x|>".id, or of the nearest table above it.

    >>> line_of('version = 1\\n[build]\\nseed = "x"', "build.seed")
    3
    """
    wanted = _parts(key)
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _parts(header[2])
            if header[1] == "[[":
                index = counts[header[2]] = counts.get(header[2], -1) + 1
                table = (*table[:-1], f"{table[-1]}[{index}]")
            lines.setdefault(table, number)
        elif assignment := _ASSIGNMENT.match(line):
            lines.setdefault((*table, *_parts(assignment[1])), number)
    while wanted:
        if wanted in lines:
            return lines[wanted]
        wanted = wanted[:-1]
    return None


def _parts(key: str) -> tuple[str, ...]:
    return tuple(part[1:-1] if part[0] in "\"'" else part for part in _PART.findall(key))
