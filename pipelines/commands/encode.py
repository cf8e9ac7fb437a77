"""`tokcore encode`."""

from __future__ import annotations

import operator
from typing import Any

import click

from tokcore.errors import ConfigError
from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.commands.command_options import RunChoices
from tokcore_pipelines.commands.run_stages import make_stage_command, print_made
from tokcore_schemas.stage_table import SHARDS

_AT = click.option(
    "--at", type=click.IntRange(0), metavar="COMMIT", help="With -o: the documents of this commit; default: the newest."
)
_OF_TOKENIZER = click.option(
    "--tokenizer",
    metavar="FINGERPRINT|URL",
    help="With -o: one of the output's tokenizers, by how its fingerprint begins, or another one.",
)
_INTO = click.option("-o", "target", metavar="OUTPUT", help="Write the documents of a commit into this new output.")


def _encode_at(
    build: Any, chosen: RunChoices, as_json: bool, at: int | None, tokenizer: str | None, target: str | None
) -> bool:
    """Encode the documents of a commit into a new output, if one is named."""
    # Workers of a plain `tokcore encode` start before this is imported.
    from tokcore_pipelines.history.encode_commit import is_fingerprint, make_encoding

    if at is None and tokenizer is None and target is None:
        return False
    if target is None:
        raise ConfigError("--at and --tokenizer make a new output: name it with -o OUTPUT")
    named = tokenizer if not tokenizer or is_fingerprint(tokenizer) else make_absolute(tokenizer)
    encoding = make_encoding(build, make_absolute(target), at, named or "")
    print_made(encoding, encoding.run(), "encoded", chosen, as_json)
    return True


encode = make_stage_command(
    SHARDS,
    operator.methodcaller("encode"),
    examples=("tokcore encode BUILD.toml", "tokcore encode BUILD.toml --at 3 --tokenizer 0a1b2c3d -o out/second"),
    options=(_INTO, _OF_TOKENIZER, _AT),
    of_commit=_encode_at,
)
