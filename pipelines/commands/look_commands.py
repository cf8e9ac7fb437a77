"""Commands for people who look at a build in a browser: report, view."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

import click

from tokcore.errors import ConfigError
from tokcore.text.patterns import PATTERNS
from tokcore_pipelines.commands.command_inputs import expand_local_path, load_tokenizer, make_absolute, show_progress
from tokcore_pipelines.commands.command_options import AT, format_examples
from tokcore_pipelines.local.say import say
from tokcore_schemas.stage_table import SHARDS

if TYPE_CHECKING:
    from tokcore.tokenizer.tokenizer import Tokenizer
    from tokcore_pipelines.look.view.shelf import Shelf

_MOST_AGAINST = 7


@click.command(
    epilog=format_examples(
        "tokcore report out/first",
        "tokcore report out/first --against o200k_base.tiktoken -o first.html",
        "tokcore report out/first --parallel flores --reference eng_Latn",
    )
)
@click.argument("output")
@click.option(
    "--against",
    multiple=True,
    metavar="OUTPUT|TOKENIZER",
    help="Another tokenizer to compare with: an output, tokenizer.json, .model, rank file, ... A rank file that is not "
    "a published one has the name of its pattern before it: cl100k@ranks.tiktoken. Repeatable.",
)
@click.option(
    "--parallel",
    default="",
    metavar="FOLDER",
    help="LANG.txt or LANG.txt.zst, line N the same sentence in all of them.",
)
@click.option("--reference", default="", metavar="LANG", help="Of the parallel text: the language to compare with.")
@click.option("--sample", type=click.IntRange(2), metavar="N", help="Texts to draw of each language; default: 400.")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME:LAYERS:WIDTH:KV_HEADS:HEAD_SIZE",
    help="Tell the costs of a model of this size. Repeatable; replaces the default sizes.",
)
@click.option("-o", "path", default="report.html", metavar="FILE.html", help="The page; its numbers go to FILE.json.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@AT
def report(
    output: str,
    against: tuple[str, ...],
    parallel: str,
    reference: str,
    sample: int | None,
    models: tuple[str, ...],
    path: str,
    force: bool,
    at: int | None,
) -> None:
    """Write a report of a build: one page that works offline, and its numbers as JSON beside it.

    The page has the corpus, the tokenizer beside others, the health of the vocabulary, what tokens cost, and where the
    build came from. Totals are exact; what needs text is estimated from texts that are drawn by hash, with margins.
    Nothing is written into OUTPUT.
    """
    from tokcore_pipelines.build.output import read_output
    from tokcore_pipelines.local.progress import StageProgress
    from tokcore_pipelines.look.report.compose import SAMPLE, Wishes, make_report
    from tokcore_pipelines.look.report.money import MODEL_SIZES, parse_model_size
    from tokcore_pipelines.look.report.report_files import check_place, write_report

    if reference and not parallel:
        raise click.UsageError("--reference is a language of the parallel text: name its folder with --parallel")
    url = make_absolute(output)
    place = expand_local_path(path)
    check_place(place, url, force)
    wishes = Wishes(
        load_against(against, _MOST_AGAINST),
        make_absolute(parallel) if parallel else "",
        reference,
        sample or SAMPLE,
        [parse_model_size(text) for text in models] or MODEL_SIZES,
    )
    progress = StageProgress()
    with progress.stage("report", minor=True):
        written = write_report(make_report(read_output(url, at), wishes, progress), place)
    for file in written:
        say(f"{file}: {file.stat().st_size:,} bytes")


@click.command(
    epilog=format_examples(
        "tokcore view out/first",
        "tokcore view out/first out/second cl100k_base.tiktoken",
    )
)
@click.argument("named", nargs=-1, metavar="[OUTPUT|TOKENIZER ...]")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Of 127.0.0.1; default: one that is free.")
@AT
def view(named: tuple[str, ...], port: int, at: int | None) -> None:
    """Look at tokens in a browser: of typed text, and of documents.

    Serves a page to this machine alone, until Ctrl-C, and prints its URL, which holds a token: keep it to yourself. Up
    to four outputs and tokenizers stand beside each other; without any, the output in the current folder. A rank file
    that is not a published one has the name of its pattern before it: cl100k@ranks.tiktoken. Outputs are shown as they
    were at the commit --at, or as they are when the command begins. Nothing is written.
    """
    from tokcore_pipelines.look.view.server import ViewServer
    from tokcore_pipelines.look.view.shelf import MOST

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
    from tokcore_pipelines.build.commit import find_manifest
    from tokcore_pipelines.build.output import read_output
    from tokcore_pipelines.look.view.shelf import Volume
    from tokcore_pipelines.store import urls

    volumes: dict[str, Volume] = {}
    for text in named:
        (tokenizer,) = load_against((text,), 1).values()
        path = _split_pattern(text)[1]
        url = make_absolute(path)
        is_file = urls.is_local(url) and not urls.get_local_path(url).is_dir()
        name = _name_apart(path if path != "." else url, volumes)
        is_alone = is_file or find_manifest(url, SHARDS) is None
        volumes[name] = Volume(name, tokenizer, None if is_alone else read_output(url, at))
    return tuple(volumes.values())


def load_against(named: tuple[str, ...], most: int) -> dict[str, Tokenizer]:
    """Name -> tokenizer, for what the command line names. Raises ConfigError for more than most of them."""
    if len(named) > most:
        raise ConfigError(f"--against: {len(named)} tokenizers named, at most {most} fit beside each other")
    found: dict[str, Tokenizer] = {}
    for text in named:
        pattern, path = _split_pattern(text)
        tokenizer = load_tokenizer(path, pattern)
        found[_name_apart(path, found)] = tokenizer
    return found


def _split_pattern(text: str) -> tuple[str | None, str]:
    """The pattern that stands before a rank file, if one does, and the path."""
    pattern, at, path = text.partition("@")
    return (pattern, path) if at and pattern in PATTERNS else (None, text)


def _name_apart(path: str, taken: Container[str]) -> str:
    """The last part of a path that says something, with a number if another tokenizer has that name."""
    parts = [part for part in path.rstrip("/").split("/") if part not in ("", ".", "..")]
    while len(parts) > 1 and parts[-1] in ("tokenizer", "tokenizer.json", "tokcore.json", "tokenizer.model"):
        parts.pop()
    name = parts[-1] if parts else path
    number, apart = 2, name
    while apart in taken:
        apart, number = f"{name} ({number})", number + 1
    return apart


COMMANDS = (report, view)
