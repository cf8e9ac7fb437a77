"""Tokens of a text on a terminal: one by one with their merges, and the cuts of several tokenizers side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from rich.cells import cell_len

from tokcore.look.explain import BYTE, FEWEST, LISTED, SCORED, SPECIAL, WHOLE
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import WIDTH, format_count, pad_cell
from tokcore_pipelines.look.explained import line_up_cuts

_IN_WORDS = {
    BYTE: "a byte",
    WHOLE: "its pre-token is a token, taken whole",
    SCORED: "a piece, score {score:.4f}",
    FEWEST: "one of the fewest tokens, which no merges made",
    LISTED: "one of the list",
    SPECIAL: "special",
}
_GAP = "  "
_BETWEEN = "|"
_BLANK = "\N{OPEN BOX}"  # one that ends a cell would not be seen


def print_explained(summed: Sequence[dict[str, Any]]) -> None:
    """Print how many tokens there are, then a line for each; below it the merges that made it."""
    for one in summed:
        say(_describe(one))
        print_tokens(one["tokens"])


def print_tokens(listed: Sequence[dict[str, Any]]) -> None:
    """Print a line for each token; below it the merges that made it."""
    widths = [max((len(str(one[name])) for one in listed), default=0) for name in ("id", "token")]
    for one in listed:
        words = _IN_WORDS.get(one["origin"], "").format(score=one["score"] or 0.0)
        told = f"{one['id']:>{widths[0]}}  {one['token']:<{min(widths[1], 32)}}  {bytes.fromhex(one['bytes']).hex(' ')}"
        say(f"{told}  {words}".rstrip())
        for merge in one["merges"]:
            say(f"{'':{widths[0]}}    merge {merge['rank']:,}: {merge['left'][1]} + {merge['right'][1]}")


def print_side_by_side(summed: Sequence[dict[str, Any]]) -> None:
    """Print a column for each tokenizer whose tokens are the same text; below them the cuts of each of the others."""
    for one in summed:
        say(_describe(one))
    texts = ["".join(token["bytes"] for token in one["tokens"]) for one in summed]
    columns = [one for one, text in zip(summed, texts, strict=True) if text == texts[0]]
    apart = [one for one, text in zip(summed, texts, strict=True) if text != texts[0]]
    width = (WIDTH - len(_GAP) * (len(columns) - 1)) // len(columns)
    say("", _join([one["tokenizer"] for one in columns], width))
    ends = [[token["end"] for token in one["tokens"]] for one in columns]
    for bounds in line_up_cuts(ends):
        cells = [[*_wrap(one["tokens"][first:last], width)] for one, (first, last) in zip(columns, bounds, strict=True)]
        for line in zip_longest(*cells, fillvalue=""):
            say(_join(line, width))
    for one in apart:
        say("", f"{one['tokenizer']}, of another text:")
        say(*_wrap(one["tokens"], WIDTH))


def _describe(one: dict[str, Any]) -> str:
    per_token = f", {one['bytes_per_token']:.2f} bytes per token" if one["bytes_per_token"] is not None else ""
    return f"{one['tokenizer']}: {format_count(one['num_tokens'], 'token')}{per_token}"


def _join(cells: Sequence[str], width: int) -> str:
    return _GAP.join(pad_cell(cell, width) for cell in cells).rstrip()


def _wrap(tokens: Sequence[dict[str, Any]], width: int) -> Iterator[str]:
    """Lines of tokens, with their blanks marked; a token that does not fit into a line has one of its own."""
    line = ""
    for number, token in enumerate(tokens):
        shown = token["token"][1:-1].replace(" ", _BLANK) + (_BETWEEN if number < len(tokens) - 1 else "")
        if line and cell_len(line + shown) > width:
            yield line
            line = ""
        line += shown
    if line:
        yield line
