"""`tokcore view`."""

from __future__ import annotations

import click

from tokcore.errors import ConfigError
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.commands.answers import show_progress
from tokcore_pipelines.commands.command_options import AT, command
from tokcore_pipelines.commands.named_tokenizers import load_against, name_apart, split_pattern
from tokcore_pipelines.local.say import say
from tokcore_pipelines.look.view.server import ViewServer
from tokcore_pipelines.look.view.shelf import MOST, Shelf, Volume
from tokcore_pipelines.store import urls
from tokcore_schemas.stage_table import SHARDS


@command("tokcore view out/first", "tokcore view out/first out/second cl100k_base.tiktoken")
@click.argument("named", nargs=-1, metavar="[OUTPUT|TOKENIZER ...]")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Of 127.0.0.1; default: one that is free.")
@AT
def view(named: tuple[str, ...], port: int, at: int | None) -> None:
    """Serves a page to this machine alone, until Ctrl-C, and prints its URL, which holds a token: keep it to yourself.
    Up to four outputs and tokenizers stand beside each other; without any, the output in the current folder. A rank
    file that is not a published one has the name of its pattern before it: cl100k@ranks.tiktoken. Outputs are shown as
    they were at the commit --at, or as they are when the command begins. Nothing is written.
    """
    if len(named) > MOST:
        raise ConfigError(f"{len(named)} outputs and tokenizers named, at most {MOST} fit beside each other")
    try:
        with show_progress("open"):
            server = ViewServer(_fill_shelf(named or (".",), at), port)
    except OSError as error:
        raise ConfigError(f"--port {port}: {error.strerror}: leave it out to get a free one") from error
    say(server.url)
    say("Ctrl-C ends it.", err=True)
    with server:
        server.serve_forever()


def _fill_shelf(named: tuple[str, ...], at: int | None) -> Shelf:
    volumes: dict[str, Volume] = {}
    for text in named:
        (tokenizer,) = load_against((text,), 1).values()
        path = split_pattern(text)[1]
        url = make_absolute(path)
        is_file = urls.is_local(url) and not urls.get_local_path(url).is_dir()
        name = name_apart(path if path != "." else url, volumes)
        is_alone = is_file or find_manifest(url, SHARDS) is None
        volumes[name] = Volume(name, tokenizer, None if is_alone else read_output(url, at))
    return tuple(volumes.values())
