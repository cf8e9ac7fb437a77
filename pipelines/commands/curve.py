"""`tokcore curve`."""

from __future__ import annotations

import click

from tokcore_pipelines.commands.command_inputs import (
    make_absolute,
    print_json,
    show_progress,
)
from tokcore_pipelines.commands.command_options import (
    AT,
    JSON,
    command,
)
from tokcore_pipelines.commands.named_tokenizers import load_tokenizer


@command("tokcore curve out/first", "tokcore curve out/first --sizes 512,8192,32768")
@click.argument("output")
@click.option("--sizes", default="", metavar="N,N,...", help="Sizes: 256 + merges, without special tokens.")
@AT
@JSON
def curve(output: str, sizes: str, at: int | None, as_json: bool) -> None:
    """Needs one learned BPE and its count tables. The numbers are those of tokenizers learned for these sizes. Without
    --sizes: the powers of two from 512 on, and the tokenizer's own size.
    """
    from tokcore_pipelines.build.output import read_output
    from tokcore_pipelines.look.curve import compute_curve, print_curve

    if not all(size.strip().isdecimal() for size in sizes.split(",") if sizes):
        raise click.BadParameter(f"{sizes!r}: expected numbers with commas between them", param_hint="--sizes")
    chosen = [int(size) for size in sizes.split(",")] if sizes else []
    with show_progress("curve"):
        report = compute_curve(read_output(make_absolute(output), at), load_tokenizer(output), chosen)
    print_json(report) if as_json else print_curve(report)
