"""`tokcore explain`."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from tokcore.look.explain import BYTE, LISTED, SCORED, SPECIAL, WHOLE, Explainer
from tokcore_pipelines.commands.answers import answer
from tokcore_pipelines.commands.command_options import JSON, PATTERN, TOKENIZER, command
from tokcore_pipelines.commands.named_tokenizers import load_tokenizer
from tokcore_pipelines.local.say import say
from tokcore_pipelines.look.explained import list_explained


@command(
    'tokcore explain "lower than" --tokenizer out/first',
    "tokcore explain - --tokenizer cl100k_base.tiktoken < text.txt",
)
@click.argument("text")
@TOKENIZER
@PATTERN
@click.option("--special", "with_special", is_flag=True, help="Special tokens that the text spells become their ids.")
@JSON
def explain(text: str, path: str, pattern: str | None, with_special: bool, as_json: bool) -> None:
    """TEXT is the text itself, or - for stdin. A line for each token: its id, its text (invisible characters as
    escapes), its bytes, and how it came to be. Below it are the merges that made it, in their order, each with its
    rank.
    """
    data = sys.stdin.buffer.read() if text == "-" else os.fsencode(text)
    explainer = Explainer(load_tokenizer(path, pattern))
    tokens = explainer.explain(data, with_special=with_special)
    answer(list_explained(explainer.tokenizer, tokens), as_json, _print_explained)


_IN_WORDS = {
    BYTE: "a byte",
    WHOLE: "its pre-token is a token, taken whole",
    SCORED: "a piece, score {score:.4f}",
    LISTED: "one of the list",
    SPECIAL: "special",
}


def _print_explained(listed: list[dict[str, Any]]) -> None:
    """Print a line for each token; below it the merges that made it."""
    widths = [max((len(str(one[name])) for one in listed), default=0) for name in ("id", "token")]
    for one in listed:
        words = _IN_WORDS.get(one["origin"], "").format(score=one["score"] or 0.0)
        told = f"{one['id']:>{widths[0]}}  {one['token']:<{min(widths[1], 32)}}  {bytes.fromhex(one['bytes']).hex(' ')}"
        say(f"{told}  {words}".rstrip())
        for merge in one["merges"]:
            say(f"{'':{widths[0]}}    merge {merge['rank']:,}: {merge['left'][1]} + {merge['right'][1]}")
