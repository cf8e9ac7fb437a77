"""`tokcore expire`."""

from __future__ import annotations

import click

from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.check.gc import parse_seconds
from tokcore_pipelines.commands.answers import show_progress
from tokcore_pipelines.commands.command_options import ALLOW_CODE, DRY_RUN, JSON, command
from tokcore_pipelines.commands.print_commits import NOTHING_DONE, answer_done
from tokcore_pipelines.history.expire_commits import Expired
from tokcore_pipelines.history.expire_commits import expire as run
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import format_count, format_size
from tokcore_pipelines.store.redaction import redact


@command("tokcore expire out/first --keep 3", "tokcore expire out/first --older-than 30d --keep-commit 7")
@click.argument("output")
@click.option("--keep", type=click.IntRange(1), metavar="N", help="Keep the N newest states of the output.")
@click.option(
    "--older-than", metavar="DURATION", help="Give up what was followed by another commit so long ago: 90s, 24h, 30d."
)
@click.option(
    "--keep-commit",
    type=click.IntRange(0),
    metavar="N",
    help="Keep commit N, which a run reads, and all later ones, whatever else is given.",
)
@DRY_RUN
@ALLOW_CODE
@JSON
def expire(
    output: str, keep: int | None, older_than: str | None, keep_commit: int | None, dry_run: bool, as_json: bool
) -> None:
    """Ends with one commit, which says which one is the oldest from now on. The log stays, so that its chain can be
    checked. Let no other command change the output meanwhile.
    """
    if keep is not None and older_than is not None:
        raise click.UsageError("what is to stay? Name one of the two: --keep N or --older-than DURATION")
    if keep is None and older_than is None and keep_commit is None:
        raise click.UsageError("what is to stay? Name it: --keep N, --older-than DURATION or --keep-commit N")
    url = make_absolute(output)
    seconds = parse_seconds(older_than) if older_than is not None else None
    with show_progress("expire"):
        done = run(url, keep, seconds, keep_commit, dry_run, lambda text: say(text, err=True))
    answer_done(url, done, dry_run, as_json, print_expired)


def print_expired(output: str, done: Expired, dry_run: bool = False) -> None:
    """Print what an expiry did, or would do."""
    if dry_run:
        say(
            f"the oldest that could be read would be commit {done.oldest}; would remove "
            f"{format_count(done.files, 'file')} of {format_size(done.size_bytes)}. {NOTHING_DONE}"
        )
        say(done.out_of_reach)
        return
    if done.commit is None:
        say(f"{redact(output)}: no further commit expires")
    else:
        say(f"commit {done.commit.number}: the oldest that can be read is commit {done.commit.oldest}")
    say(f"removed {format_count(done.files, 'file')} of {format_size(done.size_bytes)}")
    if done.files:
        say(done.out_of_reach)
