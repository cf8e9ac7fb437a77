"""`tokcore chunk`."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import click

from tokcore.errors import ConfigError
from tokcore.tokenizer.chunks import Chunker
from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.commands.answers import answer, show_progress
from tokcore_pipelines.commands.command_options import JSON, PATTERN, command
from tokcore_pipelines.commands.named_tokenizers import load_tokenizer
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import format_count
from tokcore_pipelines.look.chunk import Chunked, chunk_files, chunk_output, find_output_tokenizer


@command(
    "tokcore chunk out/first -o chunks.parquet",
    "tokcore chunk '*.jsonl' --tokenizer cl100k --tokens 256 -o chunks.parquet",
)
@click.argument("sources", nargs=-1, required=True, metavar="OUTPUT|FILES...")
@click.option("-o", "target", required=True, metavar="FILE", help="The Parquet file to write.")
@click.option("--tokens", type=int, default=512, show_default=True, metavar="N", help="No chunk has more.")
@click.option("--overlap", type=int, default=64, show_default=True, metavar="N", help="Tokens that two may share.")
@click.option("--tokenizer", metavar="URL", help="What counts tokens; default: that of the output.")
@PATTERN
@click.option("--text", metavar="FIELD", help="Of files: the field with the text.")
@click.option("--id", "id_field", metavar="FIELD", help="Of files: the field with the document's id.")
@click.option("--lang", default="und", show_default=True, metavar="CODE", help="Of files: their language.")
@JSON
def chunk(
    sources: tuple[str, ...],
    target: str,
    tokens: int,
    overlap: int,
    tokenizer: str | None,
    pattern: str | None,
    text: str | None,
    id_field: str | None,
    lang: str,
    as_json: bool,
) -> None:
    """A row of the file is a chunk: its text, and where it is in its document, in bytes and in tokens. It ends where a
    paragraph, a line or a sentence ends, if one does in the last quarter of --tokens; else at the end of a word. Files
    are read as those of a [[source]].
    """
    url = make_absolute(target)
    first = make_absolute(sources[0]) if len(sources) == 1 else ""
    own = find_output_tokenizer(first) if first else None
    if tokenizer is not None:
        counting = load_tokenizer(tokenizer, pattern)
    elif own is None:
        raise ConfigError(f"{sources[0]}: is no output, so name what counts tokens: --tokenizer URL")
    else:
        counting = own
    chunker = Chunker(counting, tokens, overlap)
    with show_progress("chunk"):
        if own is not None:
            done = chunk_output(first, chunker, url)
        else:
            given = {"text": text, "id": id_field}
            settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
            done = chunk_files({**settings, "files": [*sources], "lang": lang}, str(Path.cwd()), chunker, url)
    answer(done, as_json, functools.partial(print_chunked, target))


def print_chunked(target: str, done: Chunked) -> None:
    """Print what was written. target: where, as the command line names it."""
    for reason, number in sorted(done.rejected.items()):
        say(f"rejected: {reason}, {number:,}", err=True)
    counted = (("chunk", done.chunks), ("document", done.documents), ("token", done.tokens))
    say(f"{target}: {', '.join(format_count(number, noun) for noun, number in counted)}")
