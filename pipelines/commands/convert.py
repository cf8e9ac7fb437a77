"""`tokcore convert`."""

from __future__ import annotations

import functools
from typing import Any

import click

from tokcore.shards.conversion import Reading
from tokcore.shards.format_table import SHARD_FORMATS
from tokcore_pipelines.commands.answers import answer, show_progress
from tokcore_pipelines.commands.command_inputs import make_absolute
from tokcore_pipelines.commands.command_options import AT, END_ID, JSON, READ_DTYPE, SHARDS_VOCAB_SIZE, command
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import format_count
from tokcore_pipelines.look.convert import Report, convert_shards


class _Format(click.Choice[str]):
    """A format of ours, which completion names, or one of another distribution."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value) if value in SHARD_FORMATS else super().convert(value, param, ctx)


_FORMATS_TO = f"One of {', '.join(sorted(SHARD_FORMATS))}."


@command(
    "tokcore convert out/first --to mds -o out/mds",
    "tokcore convert their_text_document.bin --to parquet -o rows",
    "tokcore convert fineweb --to megatron --end 50256 -o fineweb-megatron",
)
@click.argument("source", metavar="FROM")
@click.option("--to", "target", type=_Format(list(SHARD_FORMATS)), required=True, metavar="FORMAT", help=_FORMATS_TO)
@click.option("-o", "path", required=True, metavar="FOLDER", help="The folder to make; it must not exist yet.")
@click.option("--dtype", default="", metavar="DTYPE", help="Dtype of the ids, in formats that leave the choice.")
@click.option(
    "--compression",
    type=click.Choice(["zstd", "lz4", "none"]),
    default="zstd",
    show_default=True,
    help="Of Arrow files.",
)
@END_ID
@click.option("--whole", is_flag=True, help="Take each file without bounds for one document.")
@READ_DTYPE
@SHARDS_VOCAB_SIZE
@AT
@JSON
def convert(
    source: str,
    target: str,
    path: str,
    dtype: str,
    compression: str,
    end: int | None,
    whole: bool,
    read_dtype: str,
    vocab_size: int | None,
    at: int | None,
    as_json: bool,
) -> None:
    """FROM is an output, a folder of shards of any format, or a file of one, written by tokcore or by others. The
    format's own reader opens FOLDER. Ids, languages and sources are kept; formats without room for them get a
    .documents file beside each shard. FOLDER appears only when it is complete. If the command is killed, run it again.
    """
    if end is not None and whole:
        raise click.UsageError("--end and --whole exclude each other: leave one of them out")
    with show_progress("convert"):
        report = convert_shards(
            make_absolute(source),
            target,
            make_absolute(path),
            Reading(end, whole, read_dtype),
            vocab_size,
            compression,
            dtype,
            at,
        )
    answer(report, as_json, functools.partial(print_converted, path))


def print_converted(path: str, report: Report) -> None:
    """Print the report of `tokcore convert`. path: where the shards are."""
    for note in report.notes:
        say(f"note: {note}", err=True)
    counted = (("shard", report.shards), ("document", report.documents), ("token", report.tokens))
    say(f"{path}: {', '.join(format_count(number, noun) for noun, number in counted)}")
