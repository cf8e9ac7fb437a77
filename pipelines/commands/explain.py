"""`tokcore explain`."""

from __future__ import annotations

import os
import sys

import click

from tokcore_pipelines.commands.command_inputs import (
    print_json,
)
from tokcore_pipelines.commands.command_options import JSON, PATTERN, TOKENIZER, command
from tokcore_pipelines.commands.named_tokenizers import load_tokenizer
from tokcore_pipelines.local.say import say


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
    from tokcore.look.explain import Explainer
    from tokcore_pipelines.look.explained import format_explained, list_explained

    data = sys.stdin.buffer.read() if text == "-" else os.fsencode(text)
    explainer = Explainer(load_tokenizer(path, pattern))
    tokens = explainer.explain(data, with_special=with_special)
    if as_json:
        print_json(list_explained(explainer.tokenizer, tokens))
    else:
        say(*format_explained(explainer.tokenizer, tokens))
