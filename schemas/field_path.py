"""Names of fields that lead into nested values: `data.body`, `messages[*].content`.

A name is first that of a field exactly so called. Only if there is none, a dot leads into an object, and `[*]` to each
member of a list. The texts that a path with `[*]` finds are joined by a line feed, in order; members that are null, and
objects without the field, add nothing.
"""

from __future__ import annotations

import re
from typing import Final

EACH: Final = None  # the step to each member of a list
Step = str | None

JOINER = "\n"
TEXT_NAMES = ("content", "text", "value", "body")  # what a text in a list of objects is called, most often
MAX_HINT_LENGTH = 150  # no advice to write a longer path

_PART = re.compile(r"(.*?)((?:\[\*\])*)", re.DOTALL)


def has_each(name: str) -> bool:
    """Whether a name leads to the members of a list, unless there is a field of just that name."""
    return EACH in parse_steps(name)


def parse_steps(name: str) -> tuple[Step, ...]:
    """The steps of a path: names of fields, and EACH.

    >>> parse_steps("data.messages[*].content")
    ('data', 'messages', None, 'content')
    """
    steps: list[Step] = []
    for part in name.split("."):
        found = _PART.fullmatch(part)
        assert found is not None
        steps += [found[1], *[EACH] * (len(found[2]) // len("[*]"))]
    return tuple(steps)
