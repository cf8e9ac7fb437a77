"""`tokcore explain`: an earlier name of `tokcore tokenize`, for one more release."""

from __future__ import annotations

import os
import sys

import click

from tokcore.look.explain import Explainer
from tokcore_pipelines.commands.answers import answer
from tokcore_pipelines.commands.command_options import JSON, PATTERN, TOKENIZER, command
from tokcore_pipelines.commands.named_tokenizers import load_tokenizer
from tokcore_pipelines.commands.print_tokens import print_tokens
from tokcore_pipelines.local.say import say
from tokcore_pipelines.look.explained import list_explained


@command('tokcore tokenize "lower than" --tokenizer out/first')
@click.argument("text")
@TOKENIZER
@PATTERN
@click.option("--special", "with_special", is_flag=True, help="Special tokens that the text spells become their ids.")
@JSON
def explain(text: str, path: str, pattern: str | None, with_special: bool, as_json: bool) -> None:
    say("note: explain is called tokenize now; the next release does not know this name", err=True)
    tokenizer = load_tokenizer(path, pattern)
    data = sys.stdin.buffer.read() if text == "-" else os.fsencode(text)
    tokens = Explainer(tokenizer).explain(data, with_special=with_special)
    answer(list_explained(tokenizer, tokens), as_json, print_tokens)
