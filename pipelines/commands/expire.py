"""`tokcore expire`."""

from __future__ import annotations

import click

from tokcore.files.jsonable import to_jsonable
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


@command("tokcore expire out/first --keep 3", "tokcore expire out/first --older-than 30d")
@click.argument("output")
@click.option("--keep", type=click.IntRange(1), metavar="N", help="Keep the N newest states of the output.")
@click.option(
    "--older-than", metavar="DURATION", help="Give up what was followed by another commit so long ago: 90s, 24h, 30d."
)
@DRY_RUN
@JSON
def expire(output: str, keep: int | None, older_than: str | None, dry_run: bool, as_json: bool) -> None:
    """Ends with one commit, which says which one is the oldest from now on. The log stays, so that its chain can be
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
