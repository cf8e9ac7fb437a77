"""Commands that inspect or repair an output: verify, repair, show, curve, audit, diff, gc."""

from __future__ import annotations

import dataclasses
import sys

import click

from pipelines.commands.command_inputs import (
    EXIT_PROBLEM,
    expand_path,
    load_tokenizer,
    make_absolute,
    print_json,
    show_progress,
)
from pipelines.commands.command_options import ALL, JSON, VOCAB_SIZE, WORKERS, format_examples


@click.command(
    epilog=format_examples(
        "tokcore verify out/first",
        "tokcore verify out/first --decode 1000 --root a689...d024",
        "tokcore verify out/first --rebuild train-00000-00000",
    )
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
@click.option("--base", default="", metavar="FOLDER", help="Folder of the build file, if it has moved.")
@WORKERS
@JSON
def verify(
    output: str,
    decode: str,
    root: str | None,
    quick: bool,
    rebuild: str | None,
    base: str,
    workers: int | None,
    as_json: bool,
) -> None:
    """Check that an output is what was committed.

    Hashes every file, then checks that shards, tables, ledgers and manifests agree. With --decode, also compares
    documents with their source. Exit code 1 if there is a problem.
    """
    from pipelines.inspect.verify import verify as run
    from pipelines.local.progress import StageProgress
    from pipelines.local.run_options import RunOptions
    from pipelines.print_reports import print_verified

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
        options=RunOptions(workers),
        progress=StageProgress(),
    )
    print_json(dataclasses.asdict(report)) if as_json else print_verified(report)
    if report.problems:
        sys.exit(EXIT_PROBLEM)


def _rebuild(output: str, shard: str, base: str, as_json: bool) -> None:
    from pipelines.inspect.rebuild import rebuild
    from pipelines.print_reports import print_rebuilt

    with show_progress("rebuild"):
        report = rebuild(output, shard, base)
    print_json(dataclasses.asdict(report)) if as_json else print_rebuilt(report)
    if report.problems:
        sys.exit(EXIT_PROBLEM)


@click.command(epilog=format_examples("tokcore repair out/first"))
@click.argument("output")
@click.option("--base", default="", metavar="FOLDER", help="Folder of the build file, if it has moved.")
@WORKERS
@JSON
def repair(output: str, base: str, workers: int | None, as_json: bool) -> None:
    """Make damaged and missing files of an output again.

    Makes them from the pinned inputs, and from what is left. A file is put in its place only if it has the bytes that
    were committed. Exit code 1 if a file stays damaged: each such file is named, with what to do.
    """
    from pipelines.inspect.repair import repair as run
    from pipelines.local.run_options import RunOptions
    from pipelines.print_reports import print_repaired

    report = run(make_absolute(output), base, RunOptions(workers))
    print_json(dataclasses.asdict(report)) if as_json else print_repaired(report)
    if report.left:
        sys.exit(EXIT_PROBLEM)


@click.command(
    epilog=format_examples(
        "tokcore show out/first",
        "tokcore show out/first/shards/arrow/train-00000-00000-KEY.arrow",
        "tokcore show out/first/shards/arrow/train-00000-00000-KEY.arrow:7 --all",
    )
)
@click.argument("what", metavar="OUTPUT|SHARD[:N]")
@click.option("--tokenizer", "path", default="", help="Tokenizer that wrote the shard; default: that of its output.")
@ALL
@JSON
def show(what: str, path: str, show_all: bool, as_json: bool) -> None:
    """Show an output's shards, a shard's header, or a document.

    For document N, counted from 0, shows the text beside the tokens, as much as fits on a screen.
    """
    from pipelines import show as run

    url = make_absolute(what)
    name, _, row = url.rpartition(":")
    if name and row.isdecimal():
        document = run.read_document(name, int(row), load_tokenizer(path) if path else None)
        print_json(document.as_json()) if as_json else run.print_document(document, show_all)
    elif run.names_a_shard(url):
        described = run.describe_shard(url)
        print_json(described) if as_json else run.print_described(described)
    else:
        shards = run.list_shards(url)
        print_json(shards) if as_json else run.print_shards(url, shards, show_all)


@click.command(epilog=format_examples("tokcore audit out/first --sources"))
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
@JSON
def audit(output: str, rare: int, sources: bool, vocab_size: int | None, as_json: bool) -> None:
    """List odd tokens of an output.

    Lists tokens that were written rarely or never, that no text encodes to, that come from one document (with
    --sources, from one file), or that hold invisible characters.
    """
    from pipelines.inspect.audit import audit as run
    from pipelines.inspect.audit import print_audit

    with show_progress("audit"):
        report = run(make_absolute(output), load_tokenizer(output, vocab_size=vocab_size), rare, sources)
    print_json(report) if as_json else print_audit(report)


@click.command(epilog=format_examples("tokcore curve out/first", "tokcore curve out/first --sizes 512,8192,32768"))
@click.argument("output")
@click.option("--sizes", default="", metavar="N,N,...", help="Sizes: 256 + merges, without special tokens.")
@JSON
def curve(output: str, sizes: str, as_json: bool) -> None:
    """Show bytes per token of every language at every size.

    Needs one learned BPE and its count tables. The numbers are those of tokenizers learned for these sizes. Without
    --sizes: the powers of two from 512 on, and the tokenizer's own size.
    """
    from pipelines.inspect.curve import compute_curve, print_curve

    if not all(size.strip().isdecimal() for size in sizes.split(",") if sizes):
        raise click.BadParameter(f"{sizes!r}: expected numbers with commas between them", param_hint="--sizes")
    chosen = [int(size) for size in sizes.split(",")] if sizes else []
    with show_progress("curve"):
        report = compute_curve(make_absolute(output), load_tokenizer(output), chosen)
    print_json(report) if as_json else print_curve(report)


@click.command(epilog=format_examples("tokcore diff out/first out/second"))
@click.argument("one", metavar="A")
@click.argument("other", metavar="B")
@JSON
def diff(one: str, other: str, as_json: bool) -> None:
    """Show what differs between two outputs.

    Compares configuration, inputs, counts, tokenizers, documents and shards, as far as both outputs have them. Exit
    code 1 if anything differs.
    """
    from pipelines.inspect.diff import diff as run
    from pipelines.print_reports import print_diff

    one, other = (make_absolute(output) for output in (one, other))
    with show_progress("diff"):
        found = run(one, other)
    print_json(found) if as_json else print_diff(found, one, other)
    if found:
        sys.exit(EXIT_PROBLEM)


@click.command("gc", epilog=format_examples("tokcore gc out/first --dry-run", "tokcore gc out/first --older-than 0"))
@click.argument("output")
@click.option("--dry-run", is_flag=True, help="Show what would be removed.")
@click.option(
    "--older-than",
    default="24h",
    show_default=True,
    metavar="DURATION",
    help="Remove nothing younger: 90s, 30m, 24h, 7d, or 0.",
)
@JSON
def collect(output: str, dry_run: bool, older_than: str, as_json: bool) -> None:
    """Remove files that no manifest names.

    These are left by builds that were killed: unfinished work, and files of stages that were never committed. If any of
    them is younger than DURATION, nothing is removed, so that a running build is safe.
    """
    from pipelines.inspect.gc import gc as run
    from pipelines.print_reports import print_collected

    with show_progress("gc"):
        collected = run(make_absolute(output), older_than, dry_run)
    if as_json:
        print_json({"dry_run": dry_run, **dataclasses.asdict(collected)})
    else:
        print_collected(collected, dry_run, older_than)
