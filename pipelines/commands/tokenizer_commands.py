"""Commands for a tokenizer: export, encode-text, decode-ids, explain."""

from __future__ import annotations

import os
import sys

import click

from tokcore.errors import ConfigError
from tokcore.formats.tokenizers.exports import EXPORTS, export_to
from tokcore_pipelines.commands.command_inputs import (
    expand_local_path,
    expand_path,
    load_tokenizer,
    make_absolute,
    print_json,
)
from tokcore_pipelines.commands.command_options import AT, JSON, PATTERN, TOKENIZER, VOCAB_SIZE, format_examples
from tokcore_pipelines.local.say import say, write_data


@click.command(
    epilog=format_examples(
        "tokcore export out/first --to huggingface -o tokenizer.json",
        "tokcore export out/first --to gpt2 -o gpt2",
        "tokcore export out/first --vocab-size 8192 --to tiktoken -o small.tiktoken",
    )
)
@click.argument("output")
@click.option("--to", "target", type=click.Choice(list(EXPORTS)), required=True)
@click.option("-o", "path", required=True, metavar="PATH|URL", help="File or folder to write.")
@VOCAB_SIZE
@click.option(
    "--tokenizer", "named", metavar="FINGERPRINT", help="Of an output with several: by how its fingerprint begins."
)
@AT
@click.option("--force", is_flag=True, help="Replace files that are there.")
def export(
    output: str, target: str, path: str, vocab_size: int | None, named: str | None, at: int | None, force: bool
) -> None:
    """Write the tokenizer in another format.

    huggingface: a folder that AutoTokenizer reads, or with FILE.json its tokenizer.json alone. tiktoken: a rank file.
    gpt2: a folder with vocab.json and merges.txt. bert: a folder with vocab.txt, tokenizer.json and the
    configuration that makes AutoTokenizer put [CLS] and [SEP] around a text. byt5: a folder that AutoTokenizer reads
    as ByT5's. sentencepiece: FILE.model. token_bytes: an array with the number of bytes of each token.

    All commits of an output have one tokenizer; --tokenizer names another that was learned from one. Folders are made;
    a file that is there is not replaced.
    """
    from tokcore_pipelines.build.read_log import read_log
    from tokcore_pipelines.build.tokenizer_files import export_to_store
    from tokcore_pipelines.build.tokenizers_beside import find_tokenizer
    from tokcore_pipelines.store import urls

    if named is not None and vocab_size is not None:
        raise click.UsageError("--tokenizer and --vocab-size both choose a tokenizer: leave one of them out")
    if at is not None:
        read_log(make_absolute(output), at)  # the same one at every commit that can be read
    place = output if named is None else find_tokenizer(make_absolute(output), named)
    spec = load_tokenizer(place, vocab_size=vocab_size).spec
    try:
        if urls.is_local(url := expand_path(path)):
            export_to(spec, target, expand_local_path(path), replace=force)
        else:
            export_to_store(spec, target, url, force)
    except FileExistsError as error:
        if error.filename is not None:
            raise
        raise ConfigError(f"{error} with --force") from error
    if left_out := EXPORTS[target].left_out(spec):
        say(f"note: {left_out}", err=True)


@click.command("encode-text", epilog=format_examples("tokcore encode-text --tokenizer out/first < text.txt"))
@TOKENIZER
@PATTERN
def encode_text(path: str, pattern: str | None) -> None:
    """Encode stdin; print ids separated by spaces."""
    ids = load_tokenizer(path, pattern).encode(sys.stdin.buffer.read())
    say(" ".join(map(str, ids.tolist())))


@click.command("decode-ids", epilog=format_examples("echo 72 105 | tokcore decode-ids --tokenizer out/first"))
@TOKENIZER
@PATTERN
def decode_ids(path: str, pattern: str | None) -> None:
    """Decode ids from stdin; write their bytes."""
    words = sys.stdin.buffer.read().split()
    if wrong := [word for word in words if not word.isdigit() or len(word) > len(str(2**31))]:
        raise ConfigError(f"stdin: {wrong[0][:20].decode(errors='replace')!r} is not a token id")
    write_data(load_tokenizer(path, pattern).decode([int(word) for word in words]))


@click.command(
    epilog=format_examples(
        'tokcore explain "lower than" --tokenizer out/first',
        "tokcore explain - --tokenizer cl100k_base.tiktoken < text.txt",
    )
)
@click.argument("text")
@TOKENIZER
@PATTERN
@click.option("--special", "with_special", is_flag=True, help="Special tokens that the text spells become their ids.")
@JSON
def explain(text: str, path: str, pattern: str | None, with_special: bool, as_json: bool) -> None:
    """Show the tokens of a text, and the merges that made each.

    TEXT is the text itself, or - for stdin. A line for each token: its id, its text (invisible characters as escapes),
    its bytes, and how it came to be. Below it are the merges that made it, in their order, each with its rank.
    """
    from tokcore.look.explain import Explainer
    from tokcore_pipelines.look.explained import format_explained, list_explained

    data = sys.stdin.buffer.read() if text == "-" else os.fsencode(text)
    explainer = Explainer(load_tokenizer(path, pattern))
    tokens = explainer.explain(data, with_special=with_special)
    if as_json:
        print_json(list_explained(explainer.tokenizer, tokens))
    else:
        say(*format_explained(explainer.tokenizer, tokens))


COMMANDS = (export, encode_text, decode_ids, explain)
