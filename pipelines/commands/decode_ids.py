"""`tokcore decode-ids`."""

from __future__ import annotations

import sys

from tokcore.errors import ConfigError
from tokcore_pipelines.commands.command_options import PATTERN, TOKENIZER, command
from tokcore_pipelines.commands.named_tokenizers import load_tokenizer
from tokcore_pipelines.local.say import write_data


@command("echo 72 105 | tokcore decode-ids --tokenizer out/first")
@TOKENIZER
@PATTERN
def decode_ids(path: str, pattern: str | None) -> None:
    words = sys.stdin.buffer.read().split()
    if wrong := [word for word in words if not word.isdigit() or len(word) > len(str(2**31))]:
        raise ConfigError(f"stdin: {wrong[0][:20].decode(errors='replace')!r} is not a token id")
    write_data(load_tokenizer(path, pattern).decode([int(word) for word in words]))
