"""Spans of a text that a field of its record holds, which another tool found: as it has them, and as one string."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import orjson

from tokcore_schemas.plan import DEFAULT_SPAN_KIND

FieldSpan = tuple[int, int, str]  # start and end in characters, kind

# A kind is named in ledgers. Another one is DEFAULT_SPAN_KIND.
_KIND = re.compile("[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_KIND_NAMES = ("kind", "type", "label", "entity_type")  # members of an object that tell it


def read_spans(value: Any) -> list[FieldSpan] | None:
    """The spans of a list, or of a text that is such a list in JSON; None if it is none.

    A member is [start, end], [start, end, kind], or an object with start and end and perhaps a kind (also called type,
    label or entity_type). Whether they are inside of a text is not looked at.

    >>> read_spans([[0, 4], {"start": 6, "end": 9, "label": "PER"}]), read_spans("[[1, 2, 3]]"), read_spans(7)
    ([(0, 4, 'span'), (6, 9, 'PER')], [(1, 2, 'span')], None)
    """
    if isinstance(value, str):
        if not value.strip():
            return []
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
    if not isinstance(value, list):
        return None
    spans = [_read_span(member) for member in value]
    return None if None in spans else [span for span in spans if span is not None]


def spell_spans(spans: list[FieldSpan]) -> str:
    """Spans as one string, which read_spans() reads."""
    return json.dumps(spans, separators=(",", ":"))


def _read_span(member: Any) -> FieldSpan | None:
    if isinstance(member, Mapping):
        kind = next((member[name] for name in _KIND_NAMES if member.get(name) is not None), DEFAULT_SPAN_KIND)
        member = [member.get("start"), member.get("end"), kind]
    if not isinstance(member, list) or not 2 <= len(member) <= 3:
        return None
    start, end = member[:2]
    if type(start) is not int or type(end) is not int or not 0 <= start <= end:
        return None
    kind = member[2] if len(member) == 3 else DEFAULT_SPAN_KIND
    return start, end, kind if isinstance(kind, str) and _KIND.fullmatch(kind) else DEFAULT_SPAN_KIND
