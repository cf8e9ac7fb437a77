"""`tokcore log`."""

from __future__ import annotations

import click

from tokcore_pipelines.commands.command_inputs import (
    make_absolute,
    print_json,
)
from tokcore_pipelines.commands.command_options import (
    JSON,
    command,
)


@command("tokcore log out/first")
@click.argument("output")
@JSON
def log(output: str, as_json: bool) -> None:
    from tokcore_pipelines.commands.print_log import describe_log, print_log

    commits = describe_log(make_absolute(output))
    print_json(commits) if as_json else print_log(commits)
