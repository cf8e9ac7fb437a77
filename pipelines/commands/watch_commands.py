"""watch and status: the service, and what it says of itself."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from tokcore.errors import ConfigError
from tokcore_pipelines.commands.build_commands import open_to_run
from tokcore_pipelines.commands.command_inputs import make_absolute, print_json
from tokcore_pipelines.commands.command_options import (
    BUILD_FILE,
    JSON,
    RunChoices,
    add_unsliced_run_options,
    format_examples,
)


@click.command(
    epilog=format_examples(
        "tokcore watch BUILD.toml",
        "tokcore watch BUILD.toml --output s3://bucket/out --tokenizer tokcore.json",
        "tokcore watch BUILD.toml --set watch.batch_seconds=300 --log-format json",
        "tokcore watch BUILD.toml --streaming --engine flink",
    )
)
@BUILD_FILE
@add_unsliced_run_options
@click.option(
    "--tokenizer", "tokenizer", metavar="URL", help="Encode with this one; needed where nothing is built yet."
)
@click.option("--count", "counts_too", is_flag=True, help="With --tokenizer: also count, for drift and learn_bpe.")
@click.option("--listen", metavar="HOST:PORT", help="Of /healthz, /readyz and /metrics; replaces watch.listen.")
@click.option(
    "--streaming",
    is_flag=True,
    help="As one pipeline that does not end, on --engine flink, prism, dataflow or portable.",
)
@click.option(
    "--log-format", "log_format", type=click.Choice(("text", "json")), default="text", help="Of lines on stderr."
)
def watch(
    build_file: str,
    chosen: RunChoices,
    tokenizer: str | None,
    counts_too: bool,
    listen: str | None,
    streaming: bool,
    log_format: str,
) -> None:
    """Follow the inputs until told to end.

    Does what `tokcore update` does, again and again, in batches. Takes files that have settled. SIGTERM and Ctrl-C end
    it after the batch; SIGHUP has it read the build file again. Start it twice, and one stands by for the other.
    """
    from tokcore_pipelines.watch.service import Service
    from tokcore_pipelines.watch.stream import Stream
    from tokcore_schemas.build_tables import TokenizerTable

    if chosen.detach and not streaming:
        raise ConfigError("watch: --detach is for builds and --streaming. Leave it out.")
    if counts_too and tokenizer is None:
        raise ConfigError("--count: is for an output that begins with --tokenizer; others count as they were built")

    def complete(config: Any) -> Any:
        if tokenizer is not None:
            table = TokenizerTable(from_=make_absolute(tokenizer))
            config = dataclasses.replace(config, tokenizer=table, special=(), counts_too=counts_too)
        if listen is not None:
            config = dataclasses.replace(config, watch=dataclasses.replace(config.watch, listen=listen))
        return config

    build = open_to_run(build_file, chosen)
    build.progress.as_json = log_format == "json"
    if streaming:
        Stream(complete(build.config), build.options, build.output, build.progress).run()
        return
    # Of the new settings: a build file that cannot be read leaves the service as it is.
    reload = lambda: complete(open_to_run(build_file, chosen).config)  # noqa: E731
    Service(complete(build.config), build.options, build.output, build.progress, reload=reload).run()


@click.command(
    epilog=format_examples(
        "tokcore status out/first", "tokcore status s3://bucket/out --json", "tokcore status out/first --drift"
    )
)
@click.argument("output")
@click.option("--drift", "with_drift", is_flag=True, help="Measure drift here, also where no watcher commits.")
@click.option("--baseline", metavar="OUTPUT", help="With --drift: compare with this output, by the same tokenizer.")
@JSON
def status(output: str, with_drift: bool, baseline: str | None, as_json: bool) -> None:
    """Show who watches for an output, what waits, which files are left alone, and whether the tokenizer still fits."""
    from tokcore_pipelines.commands.print_log import print_status
    from tokcore_pipelines.watch.read_status import read_status

    url = make_absolute(output)
    if baseline is not None and not with_drift:
        raise ConfigError("--baseline: is for --drift; a watcher has watch.drift_baseline")
    found = read_status(url, with_drift, make_absolute(baseline) if baseline is not None else "")
    print_json(found) if as_json else print_status(url, found)


COMMANDS = (watch, status)
