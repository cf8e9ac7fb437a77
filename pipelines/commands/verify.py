"""`tokcore verify`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from tokcore_pipelines.commands.command_options import (
    ALLOW_CODE,
    AT,
    BASE,
    JSON,
    RunChoices,
    add_check_options,
    command,
)
from tokcore_pipelines.local.say import say, say_json
from tokcore_pipelines.local.terminal import format_count, format_size

if TYPE_CHECKING:
    from tokcore_pipelines.check.rebuild import Rebuilt
    from tokcore_pipelines.check.verify import Report
    from tokcore_pipelines.check.verify_removed import RemovalReport


@command(
    "tokcore verify out/first",
    "tokcore verify out/first --decode 1000 --root a689...d024",
    "tokcore verify out/first --sample 0.01 --seed 7",
    "tokcore verify s3://bucket/out --work s3://bucket/verified --slice 1/4",
    "tokcore verify out/first --rebuild train-00000-00000",
    "tokcore verify out/first --prove tokenizer/tokenizer.json",
    "tokcore verify out/first --removed takedown.txt",
)
@click.argument("output")
@click.option(
    "--decode",
    default="0",
    metavar="N|all",
    help="Decode at least N documents and compare them with their source.",
)
@click.option("--root", metavar="HEX", help="Fail unless the output has this root.")
@click.option("--quick", is_flag=True, help="Only hash the files; do not read shards and tables.")
@click.option("--sample", metavar="SHARE", help="Look at this share of shards and tables, and at all sizes.")
@click.option("--seed", type=int, default=0, metavar="N", help="Another seed draws another sample.")
@click.option("--rebuild", metavar="SHARD", help="Only compute this shard again from its inputs, and compare.")
@click.option("--prove", metavar="FILE", help="Only print a proof that the root covers this file, as JSON.")
@click.option("--removed", metavar="FILE", help="Only prove that the documents of these ids, a line each, are gone.")
@click.option("--work", metavar="URL", help="Keep records of what was looked at here, and go on from those there.")
@BASE
@AT
@ALLOW_CODE
@add_check_options
@JSON
def verify(
    chosen: RunChoices,
    decode: str,
    root: str | None,
    quick: bool,
    sample: str | None,
    seed: int,
    rebuild: str | None,
    prove: str | None,
    removed: str | None,
    work: str | None,
    base: str,
    at: int | None,
    as_json: bool,
) -> None:
    """Hashes every file, then checks that shards, tables, ledgers and manifests agree. With --decode, also compares
    documents with their source. Of an output that was updated, checks the log and all parts of one commit. Exit code 1
    if there is a problem. Slices and engines need --work: a folder outside of the output that all hosts see. A run that
    was killed goes on there; what has changed since is looked at again.
    """
    # For help and completion nothing that works is loaded.
    from tokcore_pipelines.build.named_paths import expand_path, make_absolute
    from tokcore_pipelines.check.sampled import parse_sample
    from tokcore_pipelines.check.verify import verify as run
    from tokcore_pipelines.commands.answers import answer
    from tokcore_pipelines.commands.open_build import choose_hosts
    from tokcore_pipelines.local.progress import StageProgress

    output, workers = chosen.output, chosen.workers
    if (removed is not None or prove is not None or rebuild is not None) and (work is not None or not _is_here(chosen)):
        raise click.UsageError(
            "--work, --slice, --engine and their options are for the whole output; "
            "leave out --removed, --prove and --rebuild"
        )
    if sample is not None and (removed is not None or prove is not None or rebuild is not None):
        raise click.UsageError("--sample is for the whole output; leave out --removed, --prove and --rebuild")
    if sample is None and seed:
        raise click.UsageError("--seed draws a sample: give --sample, too")
    if removed is not None:
        if decode != "0" or root is not None or quick or rebuild is not None or prove is not None or at is not None:
            raise click.UsageError(
                "--removed looks through all commits; leave out --decode, --root, --quick, --rebuild, --prove and --at"
            )
        _verify_removed(make_absolute(output), removed, workers, as_json)
        return
    if prove is not None:
        if decode != "0" or root is not None or quick or rebuild is not None:
            raise click.UsageError(
                "--prove proves one file; leave out --decode, --root, --quick and --rebuild, which check others"
            )
        _prove(make_absolute(output), at, prove)
        return
    if rebuild is not None:
        if decode != "0" or root is not None or quick:
            raise click.UsageError(
                "--rebuild checks one shard; leave out --decode, --root and --quick, which check the whole output"
            )
        _rebuild(make_absolute(output), rebuild, expand_path(base), as_json)
        return
    if decode != "all" and not decode.isdecimal():
        raise click.BadParameter(f"{decode!r}: expected a number of documents, or all", param_hint="--decode")
    if root == "":  # a script's empty variable must not pass for a root that was compared
        raise click.BadParameter("expected the root, as hexadecimal digits; found an empty string", param_hint="--root")
    url, where = make_absolute(output), make_absolute(work) if work else ""
    options = choose_hosts(chosen, [("OUTPUT", url), *([("--work", where)] if where else [])])
    report = run(
        url,
        decode=None if decode == "all" else int(decode),
        root=(root or "").lower(),
        quick=quick,
        base=expand_path(base),
        at=at,
        sample=parse_sample(sample, seed) if sample is not None else None,
        work=where,
        options=options,
        progress=StageProgress(),
    )
    answer(report, as_json, print_verified, report.problems)


def _is_here(chosen: RunChoices) -> bool:
    """Whether nothing is said of other hosts."""
    return dataclasses.replace(chosen, workers=None) == RunChoices(chosen.output, ())


def _prove(output: str, at: int | None, file: str) -> None:
    # For help and completion nothing that works is loaded.
    from tokcore_pipelines.build.output import read_output
    from tokcore_pipelines.check.prove_file import prove_file

    say_json(dataclasses.asdict(prove_file(read_output(output, at), file)))


def _rebuild(output: str, shard: str, base: str, as_json: bool) -> None:
    # For help and completion nothing that works is loaded.
    from tokcore_pipelines.check.rebuild import rebuild
    from tokcore_pipelines.commands.answers import answer, show_progress

    with show_progress("rebuild"):
        report = rebuild(output, shard, base)
    answer(report, as_json, print_rebuilt, report.problems)


def _verify_removed(output: str, path: str, workers: int | None, as_json: bool) -> None:
    # For help and completion nothing that works is loaded.
    from tokcore_pipelines.build.named_paths import expand_path
    from tokcore_pipelines.check.verify_removed import verify_removed
    from tokcore_pipelines.commands.answers import answer, show_progress
    from tokcore_pipelines.history.named_ids import read_ids
    from tokcore_pipelines.local.run_options import RunOptions

    with show_progress("verify"):
        report = verify_removed(output, read_ids(expand_path(path)), RunOptions(workers))
    answer(report, as_json, print_removal_report, report.problems)


def print_removal_report(report: RemovalReport) -> None:
    """Print what is left of documents that were removed."""
    for line in (*report.problems, *(f"note: {note}" for note in report.notes)):
        say(line)
    if not report.problems:
        say(f"none of the documents is left in {format_count(report.commits, 'commit')}")


def print_verified(report: Report) -> None:
    """Print the report of `tokcore verify`."""
    # For help and completion nothing that works is loaded.
    from tokcore_pipelines.check.sampled import describe_sample
    from tokcore_pipelines.check.verify import describe_problems

    rate = report.size_bytes / 1e6 / report.seconds if report.seconds else 0
    if report.problems:
        say(*describe_problems(report.problems))
        say(f"{format_count(len(report.problems), 'problem')} in {format_count(report.num_files, 'file')}")
        return
    files = f"{format_count(report.num_files, 'file')}, {format_size(report.size_bytes)}"
    if report.num_pieces:
        say(f"{files}: all of the committed sizes; manifests, small files and what was drawn as committed")
    else:
        say(f"{files}, {rate:.0f} MB/s: all as committed")
    if report.num_read:
        agree = "they agree with manifests" if report.num_pieces else "tables, shards, ledgers and manifests agree"
        say(f"{format_count(report.num_read, 'document')} read: {agree}")
    if report.num_decoded:
        source = "its source" if report.num_decoded == 1 else "their source"
        done = f"decoded and equal to {source}" if report.lossless else "encoded again, with equal tokens"
        say(f"{format_count(report.num_decoded, 'document')} {done}")
    if report.num_pieces:
        say(describe_sample(report.num_pieces, report.num_drawn, report.seed))
    if report.num_leftovers:
        say(f"{format_count(report.num_leftovers, 'file')} of unfinished work in _attempts: `tokcore gc` removes them")
    say(f"root {report.root}")


def print_rebuilt(report: Rebuilt) -> None:
    """Print the report of `tokcore verify --rebuild`."""
    # For help and completion nothing that works is loaded.
    from tokcore_pipelines.check.verify import describe_problems

    if report.problems:
        say(*describe_problems(report.problems))
        say(f"{report.shard}: {format_count(len(report.problems), 'problem')}")
        return
    for note in report.notes:
        say(note)
    same = "the same content" if report.notes else "every byte is the same"
    held = f"{format_count(report.documents, 'document')}, {format_count(report.tokens, 'token')}"
    say(f"{report.shard}: {held} computed again: {same}")
