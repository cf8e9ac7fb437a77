"""`tokcore show`."""

from __future__ import annotations

import click

from tokcore_pipelines.commands.command_inputs import (
    is_updated,
    make_absolute,
    print_json,
    show_progress,
)
from tokcore_pipelines.commands.command_options import (
    ALL,
    JSON,
    command,
)
from tokcore_pipelines.commands.named_tokenizers import load_tokenizer


@command(
    "tokcore show out/first",
    "tokcore show out/first --at 3",
    "tokcore show out/first/shards/arrow/train-00000-00000-KEY.arrow",
    "tokcore show out/first/shards/arrow/train-00000-00000-KEY.arrow:7 --all",
)
@click.argument("what", metavar="OUTPUT|SHARD[:N]")
@click.option("--tokenizer", "path", default="", help="Tokenizer that wrote the shard; default: that of its output.")
@click.option(
    "--at",
    type=click.IntRange(0),
    metavar="COMMIT",
    help="The shards of all parts of this commit; default: the newest.",
)
@ALL
@JSON
def show(what: str, path: str, at: int | None, show_all: bool, as_json: bool) -> None:
    """For document N, counted from 0, shows the text beside the tokens, as much as fits on a screen."""
    from tokcore_pipelines.build.output import read_output
    from tokcore_pipelines.local.terminal import MOST_ROWS
    from tokcore_pipelines.look import show as run

    url = make_absolute(what)
    is_shard = run.names_a_shard(url)
    follows = at is not None or (not is_shard and is_updated(url))
    if not follows and (is_shard or url.rpartition(":")[2].isdecimal()):
        _show_shard(url, path, show_all, as_json)
        return
    most = None if show_all or as_json else MOST_ROWS
    with show_progress("show"):
        output = read_output(url, at) if follows else None
        listed = run.list_shards(url, most) if output is None else run.list_shards_at(output, most)
    print_json(listed.shards) if as_json else run.print_shards(url, listed, output.at if output else None)


def _show_shard(url: str, path: str, show_all: bool, as_json: bool) -> None:
    """Show a shard's header; at SHARD:N a document, decoded by the tokenizer at path, if one is named."""
    from tokcore_pipelines.look import show_document as run

    name, _, row = url.rpartition(":")
    if name and row.isdecimal():
        document = run.read_document(name, int(row), load_tokenizer(path) if path else None)
        print_json(document.as_json()) if as_json else run.print_document(document, show_all)
    else:
        described = run.describe_shard(url)
        print_json(described) if as_json else run.print_described(described)
