"""What BERT's tokenizer does to each code point, as tokenizers 0.23.3 does it; it follows no version of Unicode.

bert_data packs ranges as unicode_data does, and what becomes of a character as `character=code points`. The kernel has
the same tables in another form.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tokcore.text import bert_characters_data as bert_data
from tokcore.text.unicode import unpack_ranges

TABLES_SHA256 = bert_data.SHA256


class BertTable(NamedTuple):
    """What becomes of code points that do not stay.

    marks: of the marks that stay, the class by which neighbours are sorted. barriers: removed, but not sorted across.
    """

    becomes: Mapping[int, str]
    marks: Mapping[int, int]
    barriers: frozenset[int]


@functools.cache
def load_table(cased: bool) -> BertTable:
    """The table of the step "bert-cased", or of "bert"."""
    data = bert_data
    removed, spaces, surrounded, mapped = (
        (data.CASED_REMOVED, data.CASED_SPACE, data.CASED_SURROUNDED, data.CASED_MAPPED)
        if cased
        else (data.LOWER_REMOVED, data.LOWER_SPACE, data.LOWER_SURROUNDED, data.LOWER_MAPPED)
    )
    becomes = dict.fromkeys(_list_members(removed), "")
    becomes |= dict.fromkeys(_list_members(spaces), " ")
    becomes |= {c: f" {chr(c)} " for c in _list_members(surrounded)}
    for word in mapped.split():
        c, to = word.split("=")
        becomes[int(c, 16)] = "".join(chr(int(x, 16)) for x in to.split(","))
    if cased:
        return BertTable(becomes, {}, frozenset())
    becomes |= {c: _decompose_hangul(c) for c in range(0xAC00, 0xD7A4)}
    marks = {int(c, 16): int(order, 16) for c, order in (word.split("=") for word in data.MARKS.split())}
    return BertTable(becomes, marks, frozenset(_list_members(data.REMOVED_STARTERS)))


def normalize_text(text: str, table: BertTable) -> str:
    """The text as BERT's normalizer leaves it. A lone surrogate is removed, as is U+FFFD.

    >>> normalize_text("Élan\\t你", load_table(cased=False))
    'elan  你 '
    """
    out: list[str] = []
    row: list[str] = []  # of marks

    def end_row() -> None:
        out.extend(sorted(row, key=lambda mark: table.marks[ord(mark)]))
        row.clear()

    for character in text:
        if 0xD800 <= ord(character) < 0xE000:
            continue
        if ord(character) in table.barriers:
            end_row()
        for c in table.becomes.get(ord(character), character):
            if ord(c) in table.marks:
                row.append(c)
            else:
                end_row()
                out.append(c)
    end_row()
    return "".join(out)


def write_pattern() -> str:
    """The split pattern as a regular expression: white space, a punctuation character, or a word."""
    alone = "".join(_spell_range(first, last) for first, last in unpack_ranges(bert_data.ALONE))
    return rf"\s+|[{alone}]|[^\s{alone}]+"


def _list_members(packed: str) -> Iterable[int]:
    return (c for first, last in unpack_ranges(packed) for c in range(first, last + 1))


def _decompose_hangul(c: int) -> str:
    lead, rest = divmod(c - 0xAC00, 588)
    vowel, tail = divmod(rest, 28)
    return chr(0x1100 + lead) + chr(0x1161 + vowel) + (chr(0x11A7 + tail) if tail else "")


def _spell_range(first: int, last: int) -> str:
    ends = (f"\\{chr(c)}" if c < 0x80 else chr(c) for c in ([first] if first == last else [first, last]))
    return "-".join(ends)
