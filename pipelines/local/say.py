"""The one door of all that is said, on stdout and stderr: nothing else prints.

Messages name files, ids, languages and keys that others chose. So what could move the cursor, colour the terminal,
reorder, hide or break a line is shown as an escape, line feeds included: what is said as one line is one. Leaves to
others: secrets (tokcore_pipelines.store.redaction), widths (terminal).
"""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import Any, TextIO

from tokcore_pipelines.store.printable import UNPRINTABLE, escape

_COLOR = re.compile("(\x1b\\[[0-9;]*m)")
_INDENT = "  "


def say(*lines: str, err: bool = False, colored: bool = False) -> None:
    """Print lines, each of which is one line of harmless characters then. err: on stderr. colored: keep colors.

    What the stream cannot encode is shown as an escape, too.
    """
    shown = [_escape_colored(line) if colored else escape(line) for line in lines]
    _write(sys.stderr if err else sys.stdout, "".join(f"{line}\n" for line in shown))


def say_message(text: str, err: bool = True) -> None:
    """Print a message of several lines. All but its first are indented, so that none of them passes for another one."""
    first, *more = text.rstrip("\n").split("\n")
    say(first, *(f"{_INDENT}{line}".rstrip() for line in more), err=err)


def say_json(value: Any, indent: int | None = 1, err: bool = False) -> None:
    """Print a value as JSON. Readers get it back as it is: what could harm a terminal is written in JSON's escapes."""
    stream = sys.stderr if err else sys.stdout
    text = json.dumps(value, ensure_ascii=False, indent=indent, sort_keys=indent is not None, default=str)
    if not _can_encode(stream, text):
        text = json.dumps(value, indent=indent, sort_keys=indent is not None, default=str)
    # Outside of strings JSON has no such characters but line feeds, and strings have these escaped already.
    lines = (UNPRINTABLE.sub(lambda found: json.dumps(found[0])[1:-1], line) for line in text.split("\n"))
    _write(stream, "\n".join(lines) + "\n")


def redraw(text: str) -> None:
    """Write a line over the last one of a terminal, on stderr."""
    _write(sys.stderr, f"\r{escape(text)}\x1b[K")


def write_data(data: bytes) -> None:
    """Write the bytes that a command was asked for, as they are, on stdout."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


class LogFormatter(logging.Formatter):
    """What libraries log, as messages of ours."""

    def format(self, record: logging.LogRecord) -> str:
        first, *more = super().format(record).split("\n")
        return "\n".join([escape(first), *(f"{_INDENT}{escape(line)}" for line in more)])


def _escape_colored(line: str) -> str:
    return "".join(piece if number % 2 else escape(piece) for number, piece in enumerate(_COLOR.split(line)))


def _can_encode(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()
