"""`tokcore log`."""

from __future__ import annotations

import click

from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.commands.answers import answer
from tokcore_pipelines.commands.command_options import JSON, command
from tokcore_pipelines.commands.print_commits import describe_log, print_log


@command("tokcore log out/first")
@click.argument("output")
@JSON
def log(output: str, as_json: bool) -> None:
    answer(describe_log(make_absolute(output)), as_json, print_log)
