"""Text and figures for a terminal: safe to print, short, and cut to a width."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

# What every report fits into, whatever the terminal's width: reports also end up in logs and in messages.
WIDTH = 80

# Languages of a build and shards of an output that are shown unless all are asked for.
MOST_ROWS = 20

_GAP = "  "


def make_printable(text: str) -> str:
    """Corpus text for a terminal: control characters other than line feeds become spaces."""
    return "".join(c if c == "\n" or c.isprintable() else " " for c in text)


def format_size(num_bytes: int) -> str:
    """A size in at most 8 characters, up to a petabyte: 12 bytes, 1.5 kB, 999.9 GB."""
    for unit, scale in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if num_bytes >= scale:
            return f"{num_bytes / scale:.1f} {unit}"
    return f"{num_bytes} bytes"


def format_number(value: int) -> str:
    """A number in at most 9 characters: exact below ten million, rounded above.

    >>> format_number(9_999_999), format_number(12_345_678), format_number(8_100_000_000_000)
    ('9,999,999', '12.35 M', '8.10 T')
    """
    if value < 10**7:
        return f"{value:,}"
    unit, scale = next((unit, scale) for unit, scale in (("T", 10**12), ("G", 10**9), ("M", 10**6)) if value >= scale)
    return f"{value / scale:,.2f} {unit}"


def format_count(number: int, noun: str) -> str:
    """How many there are.

    >>> format_count(1, "file"), format_count(1_234, "file")
    ('1 file', '1,234 files')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_duration(seconds: int) -> str:
    """A time that is only about right.

    >>> format_duration(59), format_duration(600), format_duration(40_000)
    ('59 s', '10 min', '11 h')
    """
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


def cut_text(text: str, width: int) -> str:
    """The text as it is if it fits into that many columns of a terminal, else its begin and an ellipsis."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 1, 0)).rstrip() + "…"


def format_table(headings: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """The lines of a table that fits into WIDTH columns: the first column is cut as far as the others need it.

    A heading may have several lines. left: number of columns that are aligned to the left, the others to the right.
    """
    height = max(heading.count("\n") + 1 for heading in headings)
    heads = [["", *heading.split("\n")][-height:] if height > 1 else [heading] for heading in headings]
    heads = [[""] * (height - len(head)) + head for head in heads]
    lines = [*zip(*heads, strict=True), *rows]
    widths = [max(cell_len(line[column]) for line in lines) for column in range(len(headings))]
    room = WIDTH - sum(widths[1:]) - len(_GAP) * (len(widths) - 1)
    widths[0] = min(widths[0], max(room, 1))
    return [
        _GAP.join(
            _pad(cut_text(cell, width), width, to_left=column < left)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def pad_cell(text: str, width: int) -> str:
    """The text in exactly that many columns of a terminal, aligned to the left.

    >>> pad_cell("字", 4), pad_cell("abcdef", 4)
    ('字  ', 'abc…')
    """
    cut = cut_text(text, width)
    return cut + " " * (width - cell_len(cut))


def _pad(text: str, width: int, *, to_left: bool) -> str:
    padding = " " * (width - cell_len(text))
    return text + padding if to_left else padding + text
