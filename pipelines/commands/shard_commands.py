"""Commands for token shards of any origin: convert, fsck."""

from __future__ import annotations

import dataclasses
import sys

import click

from tokcore.shards.format_table import SHARD_FORMATS
from tokcore_pipelines.commands.command_inputs import EXIT_PROBLEM, make_absolute, print_json, show_progress
from tokcore_pipelines.commands.command_options import AT, JSON, format_examples
from tokcore_pipelines.local.say import say

_FORMATS_TO = f"One of {', '.join(sorted(SHARD_FORMATS))}."


_END = click.option(
    "--end", type=click.IntRange(0), metavar="ID", help="The id that ends each document, for files without bounds."
)

_READ_DTYPE = click.option(
    "--from-dtype",
    "read_dtype",
    default="",
    metavar="DTYPE",
    help="Dtype of the ids, for files that do not say it: uint16, ...",
)

_VOCAB_SIZE = click.option(
    "--vocab-size", type=click.IntRange(1), metavar="N", help="Every id is below it; default: what the files say."
)


@click.command(
    epilog=format_examples(
        "tokcore convert out/first --to mds -o out/mds",
        "tokcore convert their_text_document.bin --to parquet -o rows",
        "tokcore convert fineweb --to megatron --end 50256 -o fineweb-megatron",
    )
)
@click.argument("source", metavar="FROM")
@click.option(
    "--to", "target", type=click.Choice(list(SHARD_FORMATS)), required=True, metavar="FORMAT", help=_FORMATS_TO
)
@click.option("-o", "path", required=True, metavar="FOLDER", help="The folder to make; it must not exist yet.")
@click.option("--dtype", default="", metavar="DTYPE", help="Dtype of the ids, in formats that leave the choice.")
@click.option(
    "--compression",
    type=click.Choice(["zstd", "lz4", "none"]),
    default="zstd",
    show_default=True,
    help="Of Arrow files.",
)
@_END
@click.option("--whole", is_flag=True, help="Take each file without bounds for one document.")
@_READ_DTYPE
@_VOCAB_SIZE
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
    """Write token shards in another format, without tokenizing again.

    FROM is an output, a folder of shards of any format, or a file of one, written by tokcore or by others. The
    format's own reader opens FOLDER. Ids, languages and sources are kept; formats without room for them get a
    .documents file beside each shard. FOLDER appears only when it is complete. If the command is killed, run it again.
    """
    from tokcore.shards.conversion import Reading
    from tokcore_pipelines.local.terminal import format_count
    from tokcore_pipelines.look.convert import convert_shards

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
    if as_json:
        print_json(dataclasses.asdict(report))
        return
    for note in report.notes:
        say(f"note: {note}", err=True)
    counted = (("shard", report.shards), ("document", report.documents), ("token", report.tokens))
    say(f"{path}: {', '.join(format_count(number, noun) for noun, number in counted)}")


@click.command(epilog=format_examples("tokcore fsck out/first/shards/mds", "tokcore fsck theirs --end 50256 --repair"))
@click.argument("path", metavar="PATH")
@click.option("--repair", is_flag=True, help="Make missing and wrong indexes again, where the data allow it.")
@_END
@_READ_DTYPE
@_VOCAB_SIZE
@JSON
def fsck(path: str, repair: bool, end: int | None, read_dtype: str, vocab_size: int | None, as_json: bool) -> None:
    """Check that shards keep the rules of their formats.

    PATH is a folder of shards, or a file of one, written by tokcore or by others. Reads all of it: sizes, headers,
    bounds, dtypes, ids and, with --end, ends of documents; then indexes of folders. Names each breach with file and
    byte, row or document. --repair makes these again: the .idx of Megatron, the bounds of datatrove and OLMo (from
    documents files, or with --end), and index.json. Exit code 1 if something is wrong.
    """
    from tokcore.shards.shard_checks import Rules
    from tokcore_pipelines.check.fsck import check_shards
    from tokcore_pipelines.local.terminal import format_count

    with show_progress("fsck"):
        report = check_shards(make_absolute(path), Rules(vocab_size, end, read_dtype), repair)
    if as_json:
        print_json(dataclasses.asdict(report))
    else:
        for problem in report.problems:
            say(problem)
        for file in report.repaired:
            say(f"made again: {file}")
        shards, documents = format_count(report.shards, "shard"), format_count(report.documents, "document")
        problems = format_count(len(report.problems), "problem") if report.problems else "no problems"
        tokens = format_count(report.tokens, "token")
        formats = f" ({', '.join(report.formats)})" if report.formats else ""
        say(f"{shards}{formats}, {documents}, {tokens}: {problems}")
    if report.problems:
        sys.exit(EXIT_PROBLEM)


COMMANDS = (convert, fsck)
