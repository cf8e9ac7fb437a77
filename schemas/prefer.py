"""Which one of several equal documents stays: the members of dedup.prefer, and how they order documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from tokcore_schemas.field_path import has_each

TEXT = "text"  # dedup.by: the text of the document
LINE, PARAGRAPH = "line", "paragraph"  # dedup.by: pieces of its text, within a source
PIECES = (LINE, PARAGRAPH)
SOURCE_ORDER = "source_order"
_SPLIT = "split:"
_SPLITS = ("train", "validation")


class Preference(NamedTuple):
    """One member: of two documents, the one with the smaller value is preferred."""

    kind: Literal["split", "source_order", "field"]
    name: str = ""  # of the split that comes first, or of the field
    descends: bool = False  # of a field: whether the larger value comes first


def parse_preference(spelled: str) -> Preference:
    """What a member of dedup.prefer means. Raises ValueError for one that means nothing.

    >>> parse_preference("split:validation").kind, parse_preference("-quality")
    ('split', Preference(kind='field', name='quality', descends=True))
    """
    if spelled == SOURCE_ORDER:
        return Preference("source_order")
    if spelled.startswith(_SPLIT):
        split = spelled.removeprefix(_SPLIT)
        if split not in _SPLITS:
            raise ValueError(f"expected split:train or split:validation, found {spelled}")
        return Preference("split", split)
    name = spelled.removeprefix("-")
    if not name or has_each(name):
        raise ValueError(f"expected split:..., {SOURCE_ORDER}, or a field that holds one number, found {spelled!r}")
    return Preference("field", name, spelled.startswith("-"))


def parse_preferences(spelled: Sequence[str]) -> tuple[Preference, ...]:
    """The members, in their order. Raises ValueError as parse_preference."""
    return tuple(map(parse_preference, spelled))
