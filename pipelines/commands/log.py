"""`tokcore log`."""

from __future__ import annotations

import click

from tokcore_pipelines.commands.command_inputs import (
    make_absolute,
    print_json,
)
from tokcore_pipelines.commands.command_options import (
    JSON,
    format_examples,
)


@click.command(epilog=format_examples("tokcore log out/first"))
@click.argument("output")
@JSON
def log(output: str, as_json: bool) -> None:
    """Show the commits of an output: when, why, and what it held then."""
    from tokcore_pipelines.commands.print_log import describe_log, print_log

    commits = describe_log(make_absolute(output))
    print_json(commits) if as_json else print_log(commits)
