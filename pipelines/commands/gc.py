"""`tokcore gc`."""

from __future__ import annotations

import dataclasses

import click

from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.check.gc import Collected
from tokcore_pipelines.check.gc import gc as run
from tokcore_pipelines.commands.answers import show_progress
from tokcore_pipelines.commands.command_options import DRY_RUN, JSON, command
from tokcore_pipelines.local.say import say, say_json
from tokcore_pipelines.local.terminal import format_count, format_size, make_printable


@command("tokcore gc out/first --dry-run", "tokcore gc out/first --older-than 0")
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
def gc(output: str, dry_run: bool, older_than: str, as_json: bool) -> None:
    """These are left by builds that were killed: unfinished work, and files of stages that were never committed. If any
    of them is younger than DURATION, nothing is removed, so that a running build is safe.
    """
    with show_progress("gc"):
        collected = run(make_absolute(output), older_than, dry_run)
    if as_json:
        say_json({"dry_run": dry_run, **dataclasses.asdict(collected)})
    else:
        print_collected(collected, dry_run, older_than)


def print_collected(collected: Collected, dry_run: bool, older_than: str) -> None:
    """Print the report of `tokcore gc`."""
    for path in collected.removed:
        say(make_printable(path))
    for path in collected.left:
        say(f"kept: {make_printable(path)}: no manifest names it, but no build wrote it")
    if collected.too_young:
        minutes = int(collected.youngest_seconds or 0) // 60
        say(
            f"nothing removed: a file of unfinished work changed {minutes} minutes ago, so a build may be running. "
            f"The limit is --older-than {older_than}; use 0 if no build is running."
        )
        return
    verb = "would be removed" if dry_run else "removed"
    if collected.num_uploads:
        say(f"{collected.num_uploads:,} unfinished uploads {verb}")
    if collected.uploads_expire:
        say("unfinished uploads: not listed; this store drops them by itself after a week")
    say(f"{format_count(len(collected.removed), 'file')}, {format_size(collected.size_bytes)} {verb}")
