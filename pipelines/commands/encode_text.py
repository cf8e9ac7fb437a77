"""`tokcore encode-text`: an earlier name of `tokcore tokenize - --ids`, for one more release."""

from __future__ import annotations

from tokcore_pipelines.commands.command_options import PATTERN, TOKENIZER, command
from tokcore_pipelines.commands.named_tokenizers import load_tokenizer
from tokcore_pipelines.commands.tokenize import read_text
from tokcore_pipelines.local.say import say


@command("tokcore tokenize - --ids --tokenizer out/first < text.txt")
@TOKENIZER
@PATTERN
def encode_text(path: str, pattern: str | None) -> None:
    say("note: encode-text is called tokenize - --ids now; the next release does not know this name", err=True)
    say(" ".join(map(str, load_tokenizer(path, pattern).encode(read_text("-")).tolist())))
