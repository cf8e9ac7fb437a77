"""A line of JSON as a value, with the numbers that some programs write and JSON has no place for."""

from __future__ import annotations

import math
import re
from typing import Any

import orjson

# A hint that a line may hold such numbers: most lines that are no JSON do not.
_HINT = re.compile(rb"NaN|Infinity|\d[eE]|\d{300}")
# Strings, so that what is in them stays; one that does not end goes to the end of the line.
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)'
_NUMBER = rb"(?<![\w.+-])(?:NaN|-?Infinity|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.+-])"
_PARTS = re.compile(_STRING + rb"|" + _NUMBER, re.DOTALL)
_A_FRACTION = b"0.5"  # which is neither text nor an id, as the number that it stands for


def parse_json_line(line: bytes) -> Any:
    """The value of a line. NaN, Infinity and numbers too large for a float are some fraction: nothing reads them.

    Raises orjson.JSONDecodeError.

    >>> parse_json_line(b'{"text": "NaN", "loss": NaN, "odds": 1e999}')
    {'text': 'NaN', 'loss': 0.5, 'odds': 0.5}
    """
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        if (tamed := tame_numbers(line)) == line:
            raise
        return orjson.loads(tamed)


def tame_numbers(line: bytes) -> bytes:
    """The line with a fraction in place of each number that is no JSON, or is too large for a float."""
    return _PARTS.sub(_tame, line) if _HINT.search(line) else line


def _tame(found: re.Match[bytes]) -> bytes:
    part = found[0]
    return part if part.startswith(b'"') or math.isfinite(float(part)) else _A_FRACTION
