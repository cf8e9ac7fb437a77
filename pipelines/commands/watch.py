"""`tokcore watch`."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from tokcore.errors import ConfigError
from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.commands.command_options import BUILD_FILE, RunChoices, add_unsliced_run_options, command
from tokcore_pipelines.commands.open_build import open_build
from tokcore_pipelines.watch.service import Service
from tokcore_pipelines.watch.stream import Stream
from tokcore_schemas.build_tables import TokenizerTable


@command(
    "tokcore watch BUILD.toml",
    "tokcore watch BUILD.toml --output s3://bucket/out --tokenizer tokcore.json",
    "tokcore watch BUILD.toml --set watch.batch_seconds=300 --log-format json",
    "tokcore watch BUILD.toml --streaming --engine flink",
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
    """Does what `tokcore update` does, again and again, in batches. Takes files that have settled. SIGTERM and Ctrl-C
    end it after the batch; SIGHUP has it read the build file again. Start it twice, and one stands by for the other.
    """
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

    build = open_build(build_file, chosen)
    build.progress.as_json = log_format == "json"
    if streaming:
        Stream(complete(build.config), build.options, build.output, build.progress).run()
        return
    # Of the new settings: a build file that cannot be read leaves the service as it is.
    reload = lambda: complete(open_build(build_file, chosen).config)  # noqa: E731
    Service(complete(build.config), build.options, build.output, build.progress, reload=reload).run()
