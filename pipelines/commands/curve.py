"""`tokcore curve`."""

from __future__ import annotations

from typing import Any

import click

from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.commands.answers import answer, show_progress
from tokcore_pipelines.commands.command_options import AT, JSON, command
from tokcore_pipelines.commands.named_tokenizers import load_tokenizer
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import format_table, make_printable
from tokcore_pipelines.look.curve import compute_curve


@command("tokcore curve out/first", "tokcore curve out/first --sizes 512,8192,32768")
@click.argument("output")
@click.option("--sizes", default="", metavar="N,N,...", help="Sizes: 256 + merges, without special tokens.")
@AT
@JSON
def curve(output: str, sizes: str, at: int | None, as_json: bool) -> None:
    """Needs one learned BPE and its count tables. The numbers are those of tokenizers learned for these sizes. Without
    --sizes: the powers of two from 512 on, and the tokenizer's own size.
    """
    if not all(size.strip().isdecimal() for size in sizes.split(",") if sizes):
        raise click.BadParameter(f"{sizes!r}: expected numbers with commas between them", param_hint="--sizes")
    chosen = [int(size) for size in sizes.split(",")] if sizes else []
    with show_progress("curve"):
        report = compute_curve(read_output(make_absolute(output), at), load_tokenizer(output), chosen)
    answer(report, as_json, print_curve)


def print_curve(report: dict[str, Any]) -> None:
    """Print bytes per token, a row for each language and one for all."""
    languages = report["languages"]
    total = {
        "bytes": sum(one["bytes"] for one in languages.values()),
        "tokens": [sum(column) for column in zip(*(one["tokens"] for one in languages.values()), strict=True)],
    }
    rows = [
        [make_printable(name), *(f"{one['bytes'] / tokens:.4f}" if tokens else "" for tokens in one["tokens"])]
        for name, one in [*languages.items(), ("all", total)]
    ]
    say(*format_table(["bytes per token", *(f"{size:,}" for size in report["sizes"])], rows))
