"""What `tokcore show` prints of a document: its text beside its tokens."""

from __future__ import annotations

import codecs
import dataclasses
import itertools
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click
from rich.cells import cell_len

from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import WIDTH, cut_text, make_printable
from tokcore_pipelines.look.show_document import ShownDocument

# Colours of neighbouring tokens, so that one can see where each ends.
_COLORS = ("cyan", "yellow", "green", "magenta")

# Lines of a screen that are left to the header of a document and to the shell's prompt.
_OTHER_LINES = 9

# Columns of the text of a document and, beside it, of its tokens' ids.
_TEXT_WIDTH = 38

_IDS_WIDTH = WIDTH - _TEXT_WIDTH - 2


def print_document(document: ShownDocument, all_lines: bool) -> None:
    """Print where a document is from, and its text beside its tokens.

    On a terminal each token has another colour than the next, elsewhere a | parts their texts. What does not fit on a
    screen is cut unless all lines are asked for.
    """
    about = {"id": document.id, "lang": document.lang, "source": document.source, "ordinal": document.ordinal}
    own = {name: make_printable(str(value)) for name, value in document.metadata.items() if value is not None}
    print_described({name: value for name, value in {**about, **own}.items() if value is not None})
    if document.tokenizer is None:
        say(f"tokens: {len(document.tokens):,}", "")
        say("note: no folder above has its tokenizer; --tokenizer PATH shows the text", err=True)
        lines = textwrap.wrap(" ".join(map(str, document.tokens)), WIDTH)
    else:
        text_bytes = len(document.tokenizer.decode(document.tokens))
        say(f"tokens: {len(document.tokens):,}, text: {text_bytes:,} bytes", "")
        special = frozenset(document.tokenizer.specials.values())
        rows = _cut_into_rows(_cut_into_pieces(document.tokenizer, document.tokens))
        lines = list(_color(rows, special) if sys.stdout.isatty() else _part(rows))
    height = max(shutil.get_terminal_size((WIDTH, 24)).lines - _OTHER_LINES, 5)
    shown = lines if all_lines else lines[:height]
    say(*shown, colored=True)
    if len(shown) < len(lines):
        say(f"and {len(lines) - len(shown):,} more lines (--all shows all)")


def print_described(report: dict[str, Any]) -> None:
    """Print a name and a value on each line."""
    for name, value in report.items():
        say(f"{name}: {value}")


@dataclasses.dataclass(frozen=True, slots=True)
class _Piece:
    """Whole characters and the tokens that make them: one token, or several that share a character."""

    text: str  # safe to print, at most as wide as its column
    ids: tuple[int, ...]
    ends_line: bool

    @property
    def ids_text(self) -> str:
        return " ".join(map(str, self.ids))


def _cut_into_pieces(tokenizer: Tokenizer, tokens: Sequence[int]) -> Iterator[_Piece]:
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    text, ids = "", []
    for position, id in enumerate(tokens):
        last = position == len(tokens) - 1
        text += decoder.decode(tokenizer.token_bytes(id), last)
        ids.append(id)
        if last or not decoder.getstate()[0]:
            yield _Piece(cut_text(_make_visible(text), _TEXT_WIDTH), tuple(ids), text.endswith("\n"))
            text, ids = "", []


def _make_visible(text: str) -> str:
    """The text with a sign for each line feed and tab, and other invisible characters escaped."""
    signs = {"\n": "\u21b5", "\t": "\u21e5"}
    return "".join(
        signs.get(c, c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode()) for c in text
    )


def _cut_into_rows(pieces: Iterable[_Piece]) -> Iterator[list[_Piece]]:
    """As many pieces in each line as both columns have room for; a line feed ends a line."""
    row: list[_Piece] = []
    width = ids_width = 0
    for piece in pieces:
        more, more_ids = cell_len(piece.text) + 1, len(piece.ids_text) + 1  # and what parts them from the next
        if row and (row[-1].ends_line or width + more > _TEXT_WIDTH + 1 or ids_width + more_ids > _IDS_WIDTH + 1):
            yield row
            row, width, ids_width = [], 0, 0
        row.append(piece)
        width += more
        ids_width += more_ids
    if row:
        yield row


def _part(rows: Iterable[list[_Piece]]) -> Iterator[str]:
    for row in rows:
        text = "|".join(piece.text for piece in row)
        yield f"{text}{_pad(text)}  {' '.join(piece.ids_text for piece in row)}"


def _color(rows: Iterable[list[_Piece]], special: frozenset[int]) -> Iterator[str]:
    colors = itertools.cycle(_COLORS)
    for row in rows:
        styles = [(next(colors), special.issuperset(piece.ids)) for piece in row]
        texts = "".join(_style(piece.text, *style) for piece, style in zip(row, styles, strict=True))
        ids = " ".join(_style(piece.ids_text, *style) for piece, style in zip(row, styles, strict=True))
        yield f"{texts}{_pad(''.join(piece.text for piece in row))}  {ids}"


def _style(text: str, color: str, is_special: bool) -> str:
    return click.style(text, fg=color, reverse=is_special or None)


def _pad(text: str) -> str:
    return " " * (_TEXT_WIDTH - cell_len(text))
