"""`tokcore fsck`."""

from __future__ import annotations

import click

from tokcore.shards.shard_checks import Rules
from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.check.fsck import Report, check_shards
from tokcore_pipelines.commands.answers import answer, show_progress
from tokcore_pipelines.commands.command_options import END_ID, JSON, READ_DTYPE, SHARDS_VOCAB_SIZE, command
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import format_count


@command("tokcore fsck out/first/shards/mds", "tokcore fsck theirs --end 50256 --repair")
@click.argument("path", metavar="PATH")
@click.option("--repair", is_flag=True, help="Make missing and wrong indexes again, where the data allow it.")
@END_ID
@READ_DTYPE
@SHARDS_VOCAB_SIZE
@JSON
def fsck(path: str, repair: bool, end: int | None, read_dtype: str, vocab_size: int | None, as_json: bool) -> None:
    """PATH is a folder of shards, or a file of one, written by tokcore or by others. Reads all of it: sizes, headers,
    bounds, dtypes, ids and, with --end, ends of documents; then indexes of folders. Names each breach with file and
    byte, row or document. --repair makes these again: the .idx of Megatron, the bounds of datatrove and OLMo (from
    documents files, or with --end), and index.json. Exit code 1 if something is wrong.
    """
    with show_progress("fsck"):
        report = check_shards(make_absolute(path), Rules(vocab_size, end, read_dtype), repair)
    answer(report, as_json, print_checked, report.problems)


def print_checked(report: Report) -> None:
    """Print the report of `tokcore fsck`."""
    say(*report.problems, *(f"made again: {file}" for file in report.repaired))
    shards, documents = format_count(report.shards, "shard"), format_count(report.documents, "document")
    problems = format_count(len(report.problems), "problem") if report.problems else "no problems"
    tokens = format_count(report.tokens, "token")
    formats = f" ({', '.join(report.formats)})" if report.formats else ""
    say(f"{shards}{formats}, {documents}, {tokens}: {problems}")
