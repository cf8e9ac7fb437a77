"""`tokcore gc`."""

from __future__ import annotations

import dataclasses

import click

from tokcore_pipelines.commands.command_inputs import (
    make_absolute,
    print_json,
    show_progress,
)
from tokcore_pipelines.commands.command_options import (
    DRY_RUN,
    JSON,
    command,
)


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
    from tokcore_pipelines.check.gc import gc as run
    from tokcore_pipelines.commands.print_reports import print_collected

    with show_progress("gc"):
        collected = run(make_absolute(output), older_than, dry_run)
    if as_json:
        print_json({"dry_run": dry_run, **dataclasses.asdict(collected)})
    else:
        print_collected(collected, dry_run, older_than)
