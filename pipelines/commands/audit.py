"""`tokcore audit`."""

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
    VOCAB_SIZE,
    command,
)
from tokcore_pipelines.commands.named_tokenizers import load_tokenizer


@command("tokcore audit out/first --sources")
@click.argument("output")
@click.option(
    "--rare",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    metavar="N",
    help="Ids written at most N times are rare.",
)
@click.option("--sources", is_flag=True, help="Also list ids that come from one file. Reads all shards.")
@VOCAB_SIZE
@AT
@JSON
def audit(output: str, rare: int, sources: bool, vocab_size: int | None, at: int | None, as_json: bool) -> None:
    """Lists tokens that were written rarely or never, that no text encodes to, that come from one document (with
    --sources, from one file), or that hold invisible characters.
    """
    from tokcore_pipelines.build.output import read_output
    from tokcore_pipelines.look.audit import audit as run
    from tokcore_pipelines.look.audit import print_audit

    with show_progress("audit"):
        tokenizer = load_tokenizer(output, vocab_size=vocab_size)
        report = run(read_output(make_absolute(output), at), tokenizer, rare, sources)
    print_json(report) if as_json else print_audit(report)
