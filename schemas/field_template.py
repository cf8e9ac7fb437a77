"""Templates over the fields of a record: `{question}\\n{answer?}`.

Text in braces names a field, or a path (tokcore_schemas.field_path). What stands around them is text; a brace of it is
written twice. `{tags[*]:, }` joins what a list holds with what comes after the colon; without one, with a line feed.

A record without a field has no value, unless the name ends with `?`. Then a field that is missing or empty is left out,
with the text between it and the one before: text between two fields is there if the second one is, and any before it.
The text at the two ends always stays. A record without all of the fields has no value.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import AnyStr, NamedTuple

from tokcore_schemas.field_path import EACH, JOINER, parse_steps


class Part(NamedTuple):
    """A field in a template."""

    name: str  # of a field, or a path
    joiner: str  # between the texts of a list
    is_optional: bool


class Template(NamedTuple):
    """literals: one more than there are parts; part i stands between literals i and i + 1."""

    literals: tuple[str, ...]
    parts: tuple[Part, ...]


def is_template(value: str) -> bool:
    """Whether a setting that names a field is a template instead.

    >>> is_template("data.text"), is_template("{title}: {text}")
    (False, True)
    """
    return "{" in value or "}" in value


@functools.lru_cache(maxsize=256)
def parse_template(value: str) -> Template:
    """The template with this text; of the name of a field, that field alone. Raises ValueError, saying what is wrong.

    >>> parse_template("{title}: {data.tags[*]:, }").parts[1]
    Part(name='data.tags[*]', joiner=', ', is_optional=False)
    """
    if not is_template(value):
        return Template(("", ""), (Part(value, JOINER, False),))
    literals, parts = [""], list[Part]()
    at = 0
    while at < len(value):
        character = value[at]
        if value[at : at + 2] in ("{{", "}}"):
            literals[-1] += character
            at += 2
        elif character == "}":
            raise ValueError("a brace closes and none was opened; a brace that is text is written twice")
        elif character == "{":
            end = value.find("}", at)
            if end < 0:
                raise ValueError("a brace opens and none closes; a brace that is text is written twice")
            parts.append(_parse_part(value[at + 1 : end]))
            literals.append("")
            at = end + 1
        else:
            literals[-1] += character
            at += 1
    if not parts:
        raise ValueError("no field is named in braces")
    return Template(tuple(literals), tuple(parts))


def _parse_part(inside: str) -> Part:
    name, colon, joiner = inside.partition(":")
    is_optional = name.endswith("?")
    name = name.removesuffix("?")
    if not name or "{" in name:
        raise ValueError(f"{{{inside}}} names no field")
    if colon and EACH not in parse_steps(name):
        raise ValueError(f"{{{inside}}} joins what a list holds, and leads to none: write {{{name}[*]:{joiner}}}")
    return Part(name, joiner if colon else JOINER, is_optional)


def fill_template(literals: Sequence[AnyStr], values: Sequence[AnyStr | None]) -> AnyStr | None:
    """The text of a template with these values for its parts, None for those that are left out; None if all are.

    >>> fill_template(("Q: ", " A: ", " (", ")"), ("2 + 2", None, "sums"))
    'Q: 2 + 2 (sums)'
    """
    found: list[AnyStr] = [literals[0]]
    for literal, value in zip(literals, values, strict=False):
        if value is not None:
            found += [value] if len(found) == 1 else [literal, value]
    if len(found) == 1:
        return None
    found.append(literals[-1])
    return literals[0][:0].join(found)


def list_paths(value: str, *, required: bool = False) -> list[str]:
    """The fields that a setting names: one, or those of its template. required: without those that may be missing.

    >>> list_paths("{title?}\\n{text}"), list_paths("{title?}\\n{text}", required=True), list_paths("text")
    (['title', 'text'], ['text'], ['text'])
    """
    parts = parse_template(value).parts if value else ()
    return [part.name for part in parts if not (required and part.is_optional)]
