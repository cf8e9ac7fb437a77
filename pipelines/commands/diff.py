"""`tokcore diff`."""

from __future__ import annotations

import sys

import click

from tokcore_pipelines.commands.command_inputs import (
    EXIT_PROBLEM,
    is_updated,
    make_absolute,
    print_json,
    show_progress,
)
from tokcore_pipelines.commands.command_options import (
    JSON,
    command,
)


@command("tokcore diff out/first out/second", "tokcore diff out/first --at 3 --with 5")
@click.argument("one", metavar="A")
@click.argument("other", metavar="[B]", default="")
@click.option("--at", type=click.IntRange(0), metavar="COMMIT", help="Compare commits: this one of A; default: newest.")
@click.option(
    "--with", "other_at", type=click.IntRange(0), metavar="COMMIT", help="Compare commits: this one of B; likewise."
)
@JSON
def diff(one: str, other: str, at: int | None, other_at: int | None, as_json: bool) -> None:
    """Compares configuration, inputs, counts, tokenizers, documents and shards, as far as both outputs have them. Of
    commits (named, or the newest if an output was updated since it was built), compares inputs, totals, tombstones,
    counts and tokenizers over all their parts. Exit code 1 if anything differs.
    """
    from tokcore_pipelines.build.output import read_output
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
            found = diff_commits(read_output(one, at), read_output(other, other_at))
    print_json(found) if as_json else print_diff(found, one, other)
    if found:
        sys.exit(EXIT_PROBLEM)
