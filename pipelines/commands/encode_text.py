"""`tokcore encode-text`."""

from __future__ import annotations

import sys

from tokcore_pipelines.commands.command_options import PATTERN, TOKENIZER, command
from tokcore_pipelines.commands.named_tokenizers import load_tokenizer
from tokcore_pipelines.local.say import say


@command("tokcore encode-text --tokenizer out/first < text.txt")
@TOKENIZER
@PATTERN
def encode_text(path: str, pattern: str | None) -> None:
    ids = load_tokenizer(path, pattern).encode(sys.stdin.buffer.read())
    say(" ".join(map(str, ids.tolist())))
