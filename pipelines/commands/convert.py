"""`tokcore convert`."""

from __future__ import annotations

import functools
from typing import Any

import click

from tokcore.errors import ConfigError
from tokcore.shards.conversion import NewIds, Reading
from tokcore.shards.format_table import SHARD_FORMATS
from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.commands.answers import answer, show_progress
from tokcore_pipelines.commands.command_options import (
    AT,
    END_ID,
    JSON,
    READ_DTYPE,
    WORKERS,
    RunChoices,
    command,
)
from tokcore_pipelines.commands.named_tokenizers import load_tokenizer
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import format_count
from tokcore_pipelines.look.convert import Report, convert_shards, encode_again, find_own_tokenizer, take_apart


class _Format(click.Choice[str]):
    """A format of ours, which completion names, or one of another distribution."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value) if value in SHARD_FORMATS else super().convert(value, param, ctx)


_FORMATS_TO = f"One of {', '.join(sorted(SHARD_FORMATS))}."


@command(
    "tokcore convert out/first --to mds -o out/mds",
    "tokcore convert their_text_document.bin --to parquet -o rows",
    "tokcore convert fineweb --to megatron --end 50256 -o fineweb-megatron",
    "tokcore convert out/first --vocab-size 16384 -o out/small",
    "tokcore convert out/first --partition-by lang,topic -o out/by-topic",
    "tokcore convert gpt2 --from-tokenizer r50k --vocab-size 16384 --to npy -o s",
    "tokcore convert out/first --tokenizer tokenizer.json --to arrow -o out/again",
)
@click.argument("source", metavar="FROM")
@click.option(
    "--to",
    "target",
    type=_Format(list(SHARD_FORMATS)),
    metavar="FORMAT",
    help=f"{_FORMATS_TO} Left out with --vocab-size or --partition-by of an output, which make a new output.",
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
@END_ID
@click.option("--whole", is_flag=True, help="Take each file without bounds for one document.")
@READ_DTYPE
@click.option(
    "--vocab-size",
    type=click.IntRange(1),
    metavar="N",
    help="Of an output, or with --from-tokenizer: ids under the first merges, N tokens with special ones. Else: every "
    "id is below it; default: what the files say.",
)
@click.option("--from-tokenizer", metavar="URL", help="The tokenizer that encoded FROM, if it is no output.")
@click.option("--tokenizer", metavar="URL", help="Decode documents, and encode them again with this tokenizer; slower.")
@click.option(
    "--partition-by",
    metavar="KEY,KEY",
    help="Of an output: deal its documents to folders by lang and fields of [metadata], as shards.partition_by does.",
)
@click.option(
    "--bins",
    multiple=True,
    metavar="KEY=N,N",
    help="With --partition-by: bounds of the bins of a field of numbers. May be given several times.",
)
@click.option(
    "--max-partitions",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    metavar="N",
    help="With --partition-by: more end the command.",
)
@WORKERS
@AT
@JSON
def convert(
    source: str,
    target: str | None,
    path: str,
    dtype: str,
    compression: str,
    end: int | None,
    whole: bool,
    read_dtype: str,
    vocab_size: int | None,
    from_tokenizer: str | None,
    tokenizer: str | None,
    partition_by: str | None,
    bins: tuple[str, ...],
    max_partitions: int,
    workers: int | None,
    at: int | None,
    as_json: bool,
) -> None:
    """FROM is an output, a folder of shards of any format, or a file of one, written by tokcore or by others. The
    format's own reader opens FOLDER. Ids, languages and sources are kept; formats without room for them get a
    .documents file beside each shard. FOLDER appears only when it is complete. If the command is killed, run it again.

    With --vocab-size documents get the ids that a byte-level BPE gives them under its first merges. No text is needed
    for that. The new output is the one that a build of that size makes, with the same root. With --partition-by, it is
    the one that a build with this shards.partition_by makes: documents are dealt anew, and not tokenized.
    """
    if end is not None and whole:
        raise click.UsageError("--end and --whole exclude each other: leave one of them out")
    if vocab_size is not None and tokenizer is not None:
        raise click.UsageError(
            "--vocab-size and --tokenizer exclude each other: convert twice, or leave one of them out"
        )
    source, url = make_absolute(source), make_absolute(path)
    if partition_by is not None or bins:
        others = {"--to": target, "--vocab-size": vocab_size, "--tokenizer": tokenizer, "--at": at}
        if (other := next((name for name, value in others.items() if value is not None), None)) is not None:
            raise click.UsageError(
                f"--partition-by and {other} exclude each other: the new output has the formats and the vocabulary of "
                f"FROM. Convert twice"
            )
        _write_partitioned(source, url, partition_by or "", bins, max_partitions, workers, as_json)
        return
    if target is None:
        _write_output(source, url, vocab_size, workers, as_json)
        return
    new_ids = _find_new_ids(source, vocab_size, from_tokenizer, tokenizer)
    with show_progress("convert"):
        report = convert_shards(
            source, target, url, Reading(end, whole, read_dtype), vocab_size, compression, dtype, at, new_ids
        )
    answer(report, as_json, functools.partial(print_converted, path))


def _write_output(source: str, path: str, vocab_size: int | None, workers: int | None, as_json: bool) -> None:
    """Make a new output of a smaller vocabulary."""
    if vocab_size is None:
        raise click.UsageError("--to FORMAT is missing: name a format, or the size of a vocabulary with --vocab-size")
    # A conversion to a format needs nothing of builds.
    from tokcore_pipelines.commands.run_stages import print_made
    from tokcore_pipelines.history.smaller_output import make_smaller_output
    from tokcore_pipelines.local.progress import StageProgress
    from tokcore_pipelines.local.run_options import RunOptions

    build = make_smaller_output(source, vocab_size, path, RunOptions(workers), StageProgress())
    print_made(build, build.run(), "converted", RunChoices("", ()), as_json)


def _write_partitioned(
    source: str, path: str, keys: str, bins: tuple[str, ...], max_partitions: int, workers: int | None, as_json: bool
) -> None:
    """Make a new output with the documents in other folders."""
    # A conversion to a format needs nothing of builds.
    from tokcore_pipelines.commands.run_stages import print_made
    from tokcore_pipelines.history.partitioned_output import make_partitioned_output, parse_partitioning
    from tokcore_pipelines.local.progress import StageProgress
    from tokcore_pipelines.local.run_options import RunOptions

    by = parse_partitioning(keys, bins)
    build = make_partitioned_output(source, by, max_partitions, path, RunOptions(workers), StageProgress())
    print_made(build, build.run(), "converted", RunChoices("", ()), as_json)


def _find_new_ids(
    source: str, vocab_size: int | None, from_tokenizer: str | None, tokenizer: str | None
) -> NewIds | None:
    """The ids that documents get; None: those that they have."""
    given = None if from_tokenizer is None else load_tokenizer(from_tokenizer).spec
    own = given or find_own_tokenizer(source)
    if tokenizer is not None:
        if own is None:
            raise ConfigError("--tokenizer: what encoded FROM, which is no output? Name it with --from-tokenizer URL.")
        return encode_again(own, load_tokenizer(tokenizer).spec)
    if vocab_size is None or own is None or (given is None and vocab_size >= own.vocab_size):
        return None
    return take_apart(own, vocab_size)


def print_converted(path: str, report: Report) -> None:
    """Print the report of `tokcore convert`. path: where the shards are."""
    for note in report.notes:
        say(f"note: {note}", err=True)
    counted = (("shard", report.shards), ("document", report.documents), ("token", report.tokens))
    say(f"{path}: {', '.join(format_count(number, noun) for noun, number in counted)}")
