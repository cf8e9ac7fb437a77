"""`tokcore tokenize`."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import click

from tokcore.errors import ConfigError
from tokcore.look.explain import Explainer
from tokcore_pipelines.commands.answers import answer
from tokcore_pipelines.commands.command_options import JSON, PATTERN, command
from tokcore_pipelines.commands.named_tokenizers import load_against, load_tokenizer, name_apart
from tokcore_pipelines.commands.print_tokens import print_explained, print_side_by_side
from tokcore_pipelines.local.say import say
from tokcore_pipelines.look.explained import list_explained, sum_up_tokens

MOST_TOKENIZERS = 5  # whose columns still hold words


@command(
    'tokcore tokenize "lower than" --tokenizer out/first',
    "tokcore tokenize README.md --tokenizer out/first --tokenizer other.json",
    "tokcore tokenize - --ids --tokenizer out/first < text.txt",
)
@click.argument("text", metavar="TEXT|FILE")
@click.option(
    "--tokenizer",
    "paths",
    required=True,
    multiple=True,
    metavar="URL",
    help="An output, tokcore.json, tokenizer.json, a folder of them, or PATTERN@FILE of a rank file. Repeatable.",
)
@PATTERN
@click.option("--special", "with_special", is_flag=True, help="Special tokens that the text spells become their ids.")
@click.option("--ids", "only_ids", is_flag=True, help="Print the ids alone: a line for each tokenizer.")
@JSON
def tokenize(
    text: str, paths: tuple[str, ...], pattern: str | None, with_special: bool, only_ids: bool, as_json: bool
) -> None:
    """TEXT is the text itself, or the name of a file that is there, or - for stdin.

    By one tokenizer: a line for each token, with its id, its text (invisible characters as escapes), its bytes, and how
    it came to be; below it are the merges that made it, each with its rank. By several: their cuts side by side, a row
    for each stretch of text that all of them cut at both ends, | between tokens.
    """
    if pattern is not None and len(paths) > 1:
        raise ConfigError("--pattern is for one --tokenizer: of several, write --tokenizer PATTERN@FILE")
    if len(paths) == 1 and "@" not in paths[0]:
        tokenizers = {name_apart(paths[0], ()): load_tokenizer(paths[0], pattern)}
    else:
        tokenizers = load_against(paths, MOST_TOKENIZERS, "--tokenizer")
    data = read_text(text)
    if only_ids:
        allowed = "all" if with_special else ()
        for one in tokenizers.values():
            say(" ".join(map(str, one.encode(data, allow_special=allowed).tolist())))
        return
    explained = {
        name: list_explained(one, Explainer(one).explain(data, with_special=with_special))
        for name, one in tokenizers.items()
    }
    summed = [sum_up_tokens(name, len(data), tokens) for name, tokens in explained.items()]
    answer(summed, as_json, print_explained if len(summed) == 1 else print_side_by_side)


def read_text(named: str) -> bytes:
    """The text that a command line names: stdin, a file, or the text itself."""
    if named == "-":
        return sys.stdin.buffer.read()
    is_file = False
    with contextlib.suppress(OSError):  # a text may be longer than names can be
        is_file = Path(named).is_file()
    return Path(named).read_bytes() if is_file else os.fsencode(named)
