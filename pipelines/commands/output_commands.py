"""Commands that look at an output or change it: verify, log, remove, expire, compact, repair, show and so on."""

from __future__ import annotations

import dataclasses
import sys

import click

from tokcore.files.jsonable import to_jsonable
from tokcore_pipelines.commands.command_inputs import (
    EXIT_PROBLEM,
    expand_path,
    is_updated,
    load_tokenizer,
    make_absolute,
    print_json,
    read_lines,
    show_progress,
)
from tokcore_pipelines.commands.command_options import (
    ALL,
    AT,
    AT_ANY,
    DRY_RUN,
    JSON,
    VOCAB_SIZE,
    WORKERS,
    format_examples,
)


@click.command(
    epilog=format_examples(
        "tokcore verify out/first",
        "tokcore verify out/first --decode 1000 --root a689...d024",
        "tokcore verify out/first --rebuild train-00000-00000",
        "tokcore verify out/first --prove tokenizer/tokenizer.json",
        "tokcore verify out/first --removed takedown.txt",
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
    """Check that an output is what was committed.

    Hashes every file, then checks that shards, tables, ledgers and manifests agree. With --decode, also compares
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
        from tokcore_pipelines.check.prove_file import prove_file

        print_json(dataclasses.asdict(prove_file(make_absolute(output), prove, at)))
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


@click.command(epilog=format_examples("tokcore log out/first"))
@click.argument("output")
@JSON
def log(output: str, as_json: bool) -> None:
    """Show the commits of an output: when, why, and what it held then."""
    from tokcore_pipelines.commands.print_log import describe_log, print_log

    commits = describe_log(make_absolute(output))
    print_json(commits) if as_json else print_log(commits)


@click.command(
    epilog=format_examples(
        "tokcore remove out/first --ids takedown.txt",
        "tokcore remove out/first --source 'crawl/2024-*.jsonl' --lang xx",
        "tokcore remove out/first --lang xx --dry-run",
    )
)
@click.argument("output")
@click.option("--ids", metavar="FILE", help="Remove the documents of these ids, a line each.")
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="GLOB",
    help="Remove the documents of these input files, named as the build file does; without / by name. Repeatable.",
)
@click.option("--lang", "langs", multiple=True, metavar="XX", help="Remove the documents of this language. Repeatable.")
@click.option("--base", default="", metavar="FOLDER", help="Folder of the build file, if it has moved.")
@click.option("--allow-missing", is_flag=True, help="Accept names that nothing has, to keep later documents away.")
@DRY_RUN
@WORKERS
@JSON
def remove(
    output: str,
    ids: str | None,
    sources: tuple[str, ...],
    langs: tuple[str, ...],
    base: str,
    allow_missing: bool,
    dry_run: bool,
    workers: int | None,
    as_json: bool,
) -> None:
    """Take documents out of a finished output.

    Makes the parts that hold them again from their pinned inputs, without them, and ends with one commit. It keeps a
    keyed hash of each name, so that no later commit brings a document back. Earlier commits still hold the documents:
    `tokcore verify --removed` names these. --source goes by the names of files: if one is renamed, its documents come
    back. Use --ids where documents must stay away whatever their file is called. `tokcore restore` takes it back.
    """
    from tokcore_pipelines.commands.print_log import print_removed
    from tokcore_pipelines.history.remove_documents import Remove
    from tokcore_pipelines.local.progress import StageProgress
    from tokcore_pipelines.local.run_options import RunOptions

    if ids is None and not sources and not langs:
        raise click.UsageError("what is to be removed? Name it: --ids FILE, --source GLOB or --lang XX")
    url = make_absolute(output)
    chosen = tuple(read_lines(ids)) if ids is not None else ()
    done = Remove(
        url,
        chosen,
        langs,
        sources,
        expand_path(base),
        RunOptions(workers),
        StageProgress(),
        allow_missing=allow_missing,
        dry_run=dry_run,
    ).run()
    if as_json:
        commit = to_jsonable(done.commit) if done.commit is not None else None
        more = {name: getattr(done, name) for name in ("unknown", "documents", "parts", "read_again")}
        print_json({"dry_run": dry_run, "commit": commit, **more})
    else:
        print_removed(url, done, dry_run)


@click.command(
    epilog=format_examples("tokcore restore out/first --lang xx", "tokcore restore out/first --ids back.txt --dry-run")
)
@click.argument("output")
@click.option("--ids", metavar="FILE", help="Take back what keeps away the documents of these ids, a line each.")
@click.option("--source", "sources", multiple=True, metavar="GLOB", help="The same of these input files. Repeatable.")
@click.option("--lang", "langs", multiple=True, metavar="XX", help="The same of this language. Repeatable.")
@click.option("--allow-missing", is_flag=True, help="Accept names that were never removed.")
@DRY_RUN
@JSON
def restore(
    output: str,
    ids: str | None,
    sources: tuple[str, ...],
    langs: tuple[str, ...],
    allow_missing: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Take a removal back: what `tokcore remove` took out may come again.

    Ends with one commit, after which no commit leaves such documents out. It reads nothing: it names the input files
    that lack documents, and the next `tokcore update`, or a watcher, reads these again.
    """
    from tokcore_pipelines.commands.print_log import print_restored
    from tokcore_pipelines.history.restore_documents import Restore

    if ids is None and not sources and not langs:
        raise click.UsageError("what is to be restored? Name it: --ids FILE, --source GLOB or --lang XX")
    url = make_absolute(output)
    chosen = tuple(read_lines(ids)) if ids is not None else ()
    with show_progress("restore"):
        done = Restore(url, chosen, langs, sources, allow_missing, dry_run).run()
    if as_json:
        commit = to_jsonable(done.commit) if done.commit is not None else None
        print_json({"dry_run": dry_run, **done._asdict(), "commit": commit})
    else:
        print_restored(url, done, dry_run)


@click.command(epilog=format_examples("tokcore expire out/first --keep 3", "tokcore expire out/first --older-than 30d"))
@click.argument("output")
@click.option("--keep", type=click.IntRange(1), metavar="N", help="Keep the N newest states of the output.")
@click.option(
    "--older-than", metavar="DURATION", help="Give up what was followed by another commit so long ago: 90s, 24h, 30d."
)
@DRY_RUN
@JSON
def expire(output: str, keep: int | None, older_than: str | None, dry_run: bool, as_json: bool) -> None:
    """Give up earlier commits of an output, and remove what only they name.

    Ends with one commit, which says which one is the oldest from now on. The log stays, so that its chain can be
    checked. Let no other command change the output meanwhile.
    """
    from tokcore_pipelines.check.gc import parse_seconds
    from tokcore_pipelines.commands.print_log import print_expired
    from tokcore_pipelines.history.expire_commits import expire as run

    if (keep is None) == (older_than is None):
        raise click.UsageError("what is to stay? Name one of the two: --keep N or --older-than DURATION")
    url = make_absolute(output)
    with show_progress("expire"):
        done = run(url, keep, parse_seconds(older_than) if older_than is not None else None, dry_run)
    if as_json:
        commit = to_jsonable(done.commit) if done.commit is not None else None
        print_json({"dry_run": dry_run, **done._asdict(), "commit": commit})
    else:
        print_expired(url, done, dry_run)


@click.command(epilog=format_examples("tokcore compact out/first"))
@click.argument("output")
@click.option("--base", default="", metavar="FOLDER", help="Folder of the build file, if it has moved.")
@DRY_RUN
@WORKERS
@JSON
def compact(output: str, base: str, dry_run: bool, workers: int | None, as_json: bool) -> None:
    """Make few large shards out of the many small ones of updates.

    Reads the inputs of parts with small shards again, into one part, and compares all documents by their digest. Ends
    with one commit; readers of earlier ones go on. `tokcore expire` gives the room of the small shards back.
    """
    from tokcore_pipelines.commands.print_log import print_compacted
    from tokcore_pipelines.history.compact_output import Compact
    from tokcore_pipelines.local.progress import StageProgress
    from tokcore_pipelines.local.run_options import RunOptions

    url = make_absolute(output)
    done = Compact(url, expand_path(base), RunOptions(workers), StageProgress(), dry_run).run()
    if as_json:
        commit = to_jsonable(done.commit) if done.commit is not None else None
        print_json({"dry_run": dry_run, **done._asdict(), "commit": commit})
    else:
        print_compacted(url, done, dry_run)


@click.command(epilog=format_examples("tokcore repair out/first"))
@click.argument("output")
@click.option("--base", default="", metavar="FOLDER", help="Folder of the build file, if it has moved.")
@AT_ANY
@WORKERS
@JSON
def repair(output: str, base: str, at: int | None, workers: int | None, as_json: bool) -> None:
    """Make damaged and missing files of an output again.

    Looks at the parts of all commits that can be read, or of the commit --at, and at all tokenizers. Makes them from
    the pinned inputs, and from what is left. A file is put in its place only if it has the bytes that were committed.
    Then verifies the output, without --decode. Exit code 1 if verify would find a problem: each is named, with what to
    do. Writes nothing while the build's manifest or the log is damaged.
    """
    from tokcore_pipelines.check.repair import repair as run
    from tokcore_pipelines.commands.print_reports import print_repaired
    from tokcore_pipelines.local.run_options import RunOptions

    report = run(make_absolute(output), expand_path(base), RunOptions(workers), at)
    print_json(dataclasses.asdict(report)) if as_json else print_repaired(report)
    if report.left:
        sys.exit(EXIT_PROBLEM)


@click.command(
    epilog=format_examples(
        "tokcore show out/first",
        "tokcore show out/first --at 3",
        "tokcore show out/first/shards/arrow/train-00000-00000-KEY.arrow",
        "tokcore show out/first/shards/arrow/train-00000-00000-KEY.arrow:7 --all",
    )
)
@click.argument("what", metavar="OUTPUT|SHARD[:N]")
@click.option("--tokenizer", "path", default="", help="Tokenizer that wrote the shard; default: that of its output.")
@click.option(
    "--at",
    type=click.IntRange(0),
    metavar="COMMIT",
    help="The shards of all parts of this commit; default: the newest.",
)
@ALL
@JSON
def show(what: str, path: str, at: int | None, show_all: bool, as_json: bool) -> None:
    """Show an output's shards, a shard's header, or a document.

    For document N, counted from 0, shows the text beside the tokens, as much as fits on a screen.
    """
    from tokcore_pipelines.local.terminal import MOST_ROWS
    from tokcore_pipelines.look import show as run

    url = make_absolute(what)
    is_shard = run.names_a_shard(url)
    if at is None and not is_shard and is_updated(url):
        at = run.find_newest(url)
    if at is None and (is_shard or url.rpartition(":")[2].isdecimal()):
        _show_shard(url, path, show_all, as_json)
        return
    most = None if show_all or as_json else MOST_ROWS
    with show_progress("show"):
        listed = run.list_shards(url, most) if at is None else run.list_shards_at(url, at, most)
    print_json(listed.shards) if as_json else run.print_shards(url, listed, at)


def _show_shard(url: str, path: str, show_all: bool, as_json: bool) -> None:
    """Show a shard's header; at SHARD:N a document, decoded by the tokenizer at path, if one is named."""
    from tokcore_pipelines.look import show_document as run

    name, _, row = url.rpartition(":")
    if name and row.isdecimal():
        document = run.read_document(name, int(row), load_tokenizer(path) if path else None)
        print_json(document.as_json()) if as_json else run.print_document(document, show_all)
    else:
        described = run.describe_shard(url)
        print_json(described) if as_json else run.print_described(described)


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
@AT
@JSON
def audit(output: str, rare: int, sources: bool, vocab_size: int | None, at: int | None, as_json: bool) -> None:
    """List odd tokens of an output.

    Lists tokens that were written rarely or never, that no text encodes to, that come from one document (with
    --sources, from one file), or that hold invisible characters.
    """
    from tokcore_pipelines.build.output import read_output
    from tokcore_pipelines.look.audit import audit as run
    from tokcore_pipelines.look.audit import print_audit

    with show_progress("audit"):
        tokenizer = load_tokenizer(output, vocab_size=vocab_size)
        report = run(read_output(make_absolute(output), at), tokenizer, rare, sources)
    print_json(report) if as_json else print_audit(report)


@click.command(epilog=format_examples("tokcore curve out/first", "tokcore curve out/first --sizes 512,8192,32768"))
@click.argument("output")
@click.option("--sizes", default="", metavar="N,N,...", help="Sizes: 256 + merges, without special tokens.")
@AT
@JSON
def curve(output: str, sizes: str, at: int | None, as_json: bool) -> None:
    """Show bytes per token of every language at every size.

    Needs one learned BPE and its count tables. The numbers are those of tokenizers learned for these sizes. Without
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


@click.command(epilog=format_examples("tokcore diff out/first out/second", "tokcore diff out/first --at 3 --with 5"))
@click.argument("one", metavar="A")
@click.argument("other", metavar="[B]", default="")
@click.option("--at", type=click.IntRange(0), metavar="COMMIT", help="Compare commits: this one of A; default: newest.")
@click.option(
    "--with", "other_at", type=click.IntRange(0), metavar="COMMIT", help="Compare commits: this one of B; likewise."
)
@JSON
def diff(one: str, other: str, at: int | None, other_at: int | None, as_json: bool) -> None:
    """Show what differs between two outputs, or between two commits of one: B is A, then.

    Compares configuration, inputs, counts, tokenizers, documents and shards, as far as both outputs have them. Of
    commits (named, or the newest if an output was updated since it was built), compares inputs, totals, tombstones,
    counts and tokenizers over all their parts. Exit code 1 if anything differs.
    """
    from tokcore_pipelines.commands.print_reports import print_diff
    from tokcore_pipelines.look.diff import diff as run
    from tokcore_pipelines.look.diff_commits import diff_commits

    if not other and at is None and other_at is None:
        raise click.UsageError("name a second output, or two commits of this one with --at and --with")
    one, other = make_absolute(one), make_absolute(other or one)
    if at is None and other_at is None and not (is_updated(one) or is_updated(other)):
        with show_progress("diff"):
            found = run(one, other)
    else:
        with show_progress("diff"):
            found = diff_commits(one, other, at, other_at)
    print_json(found) if as_json else print_diff(found, one, other)
    if found:
        sys.exit(EXIT_PROBLEM)


@click.command("gc", epilog=format_examples("tokcore gc out/first --dry-run", "tokcore gc out/first --older-than 0"))
@click.argument("output")
@DRY_RUN
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
    from tokcore_pipelines.check.gc import gc as run
    from tokcore_pipelines.commands.print_reports import print_collected

    with show_progress("gc"):
        collected = run(make_absolute(output), older_than, dry_run)
    if as_json:
        print_json({"dry_run": dry_run, **dataclasses.asdict(collected)})
    else:
        print_collected(collected, dry_run, older_than)


COMMANDS = (verify, log, remove, restore, expire, compact, repair, show, curve, audit, diff, collect)
