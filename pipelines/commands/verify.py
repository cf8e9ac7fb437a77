"""`tokcore verify`."""

from __future__ import annotations

import dataclasses
import sys

import click

from tokcore_pipelines.commands.command_inputs import (
    EXIT_PROBLEM,
    expand_path,
    make_absolute,
    print_json,
    read_lines,
    show_progress,
)
from tokcore_pipelines.commands.command_options import (
    AT,
    JSON,
    WORKERS,
    command,
)


@command(
    "tokcore verify out/first",
    "tokcore verify out/first --decode 1000 --root a689...d024",
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
@click.option("--rebuild", metavar="SHARD", help="Only compute this shard again from its inputs, and compare.")
@click.option("--prove", metavar="FILE", help="Only print a proof that the root covers this file, as JSON.")
@click.option("--removed", metavar="FILE", help="Only prove that the documents of these ids, a line each, are gone.")
@click.option("--base", default="", metavar="FOLDER", help="Folder of the build file, if it has moved.")
@AT
@WORKERS
@JSON
def verify(
    output: str,
    decode: str,
    root: str | None,
    quick: bool,
    rebuild: str | None,
    prove: str | None,
    removed: str | None,
    base: str,
    at: int | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Hashes every file, then checks that shards, tables, ledgers and manifests agree. With --decode, also compares
    documents with their source. Of an output that was updated, checks the log and all parts of one commit. Exit code 1
    if there is a problem.
    """
    from tokcore_pipelines.check.verify import verify as run
    from tokcore_pipelines.commands.print_reports import print_verified
    from tokcore_pipelines.local.progress import StageProgress
    from tokcore_pipelines.local.run_options import RunOptions

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
        from tokcore_pipelines.build.output import read_output
        from tokcore_pipelines.check.prove_file import prove_file

        print_json(dataclasses.asdict(prove_file(read_output(make_absolute(output), at), prove)))
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
    report = run(
        make_absolute(output),
        decode=None if decode == "all" else int(decode),
        root=(root or "").lower(),
        quick=quick,
        base=expand_path(base),
        at=at,
        options=RunOptions(workers),
        progress=StageProgress(),
    )
    print_json(dataclasses.asdict(report)) if as_json else print_verified(report)
    if report.problems:
        sys.exit(EXIT_PROBLEM)


def _rebuild(output: str, shard: str, base: str, as_json: bool) -> None:
    from tokcore_pipelines.check.rebuild import rebuild
    from tokcore_pipelines.commands.print_reports import print_rebuilt

    with show_progress("rebuild"):
        report = rebuild(output, shard, base)
    print_json(dataclasses.asdict(report)) if as_json else print_rebuilt(report)
    if report.problems:
        sys.exit(EXIT_PROBLEM)


def _verify_removed(output: str, path: str, workers: int | None, as_json: bool) -> None:
    from tokcore_pipelines.check.verify_removed import verify_removed
    from tokcore_pipelines.commands.print_log import print_removal_report
    from tokcore_pipelines.local.run_options import RunOptions

    with show_progress("verify"):
        report = verify_removed(output, read_lines(path), RunOptions(workers))
    print_json(dataclasses.asdict(report)) if as_json else print_removal_report(report)
    if report.problems:
        sys.exit(EXIT_PROBLEM)
