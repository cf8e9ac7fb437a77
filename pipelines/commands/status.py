"""`tokcore status`."""

from __future__ import annotations

import click

from tokcore.errors import ConfigError
from tokcore_pipelines.commands.command_inputs import make_absolute, print_json
from tokcore_pipelines.commands.command_options import (
    JSON,
    command,
)


@command("tokcore status out/first", "tokcore status s3://bucket/out --json", "tokcore status out/first --drift")
@click.argument("output")
@click.option("--drift", "with_drift", is_flag=True, help="Measure drift here, also where no watcher commits.")
@click.option("--baseline", metavar="OUTPUT", help="With --drift: compare with this output, by the same tokenizer.")
@JSON
def status(output: str, with_drift: bool, baseline: str | None, as_json: bool) -> None:
    from tokcore_pipelines.commands.print_log import print_status
    from tokcore_pipelines.watch.read_status import read_status

    url = make_absolute(output)
    if baseline is not None and not with_drift:
        raise ConfigError("--baseline: is for --drift; a watcher has watch.drift_baseline")
    found = read_status(url, with_drift, make_absolute(baseline) if baseline is not None else "")
    print_json(found) if as_json else print_status(url, found)
