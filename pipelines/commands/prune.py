"""`tokcore prune`."""

from __future__ import annotations

import functools

import click

from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.commands.answers import answer, show_progress
from tokcore_pipelines.commands.command_options import JSON, PATTERN, command
from tokcore_pipelines.commands.named_tokenizers import load_tokenizer
from tokcore_pipelines.local.say import say
from tokcore_pipelines.look.prune import GONE, PrunedReport, prune_tokenizer


@command(
    "tokcore prune cl100k --counts out/first --vocab-size 32768 -o pruned",
    "tokcore prune out/a --counts out/b --vocab-size 16384 --renumber -o pruned",
)
@click.argument("tokenizer")
@click.option("--counts", required=True, metavar="OUTPUT", help="Says how often tokens occur.")
@click.option(
    "--vocab-size", type=click.IntRange(1), required=True, metavar="N", help="Tokens that stay, special ones too."
)
@click.option("-o", "target", required=True, metavar="FOLDER", help="The folder to make; it must not exist yet.")
@click.option("--renumber", is_flag=True, help="Give ids without gaps, in their order; else all ids stay.")
@PATTERN
@JSON
def prune(
    tokenizer: str, counts: str, vocab_size: int, target: str, renumber: bool, pattern: str | None, as_json: bool
) -> None:
    """Only tokens that are part of no other go, one after the other, the least used first; so every token that stays is
    still reached. gone.parquet names those that went, ids.parquet the new ids. Shards have to be encoded again: without
    `ab`, `abc` may become `a` and `bc`.
    """
    with show_progress("prune"):
        spec = load_tokenizer(tokenizer, pattern).spec
        report = prune_tokenizer(spec, make_absolute(counts), vocab_size, make_absolute(target), renumber)
    answer(report, as_json, functools.partial(print_pruned, target))


def print_pruned(target: str, report: PrunedReport) -> None:
    """Print what is left. target: where, as the command line names it."""
    say(
        f"{target}: {report.tokens:,} tokens, ids below {report.vocab_size:,}; {report.gone:,} went, which the corpus "
        f"used {report.uses_of_gone:,} times ({GONE})"
    )
