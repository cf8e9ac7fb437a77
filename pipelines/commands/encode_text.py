"""`tokcore encode-text`."""

from __future__ import annotations

import sys

import click

from tokcore_pipelines.commands.command_options import PATTERN, TOKENIZER, format_examples
from tokcore_pipelines.commands.named_tokenizers import load_tokenizer
from tokcore_pipelines.local.say import say


@click.command("encode-text", epilog=format_examples("tokcore encode-text --tokenizer out/first < text.txt"))
@TOKENIZER
@PATTERN
def encode_text(path: str, pattern: str | None) -> None:
    """Encode stdin; print ids separated by spaces."""
    ids = load_tokenizer(path, pattern).encode(sys.stdin.buffer.read())
    say(" ".join(map(str, ids.tolist())))
