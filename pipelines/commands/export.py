"""`tokcore export`."""

from __future__ import annotations

import click

from tokcore.errors import ConfigError
from tokcore.formats.tokenizers.exports import EXPORTS, export_to
from tokcore_pipelines.build.named_paths import expand_path, make_absolute
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.build.tokenizer_files import export_to_store
from tokcore_pipelines.build.tokenizers_beside import find_tokenizer
from tokcore_pipelines.commands.command_inputs import expand_local_path
from tokcore_pipelines.commands.command_options import AT, VOCAB_SIZE, command
from tokcore_pipelines.commands.named_tokenizers import load_tokenizer
from tokcore_pipelines.local.say import say
from tokcore_pipelines.store import urls


@command(
    "tokcore export out/first --to huggingface -o tokenizer.json",
    "tokcore export out/first --to gpt2 -o gpt2",
    "tokcore export out/first --vocab-size 8192 --to tiktoken -o small.tiktoken",
)
@click.argument("output")
@click.option(
    "--to",
    "target",
    type=click.Choice(list(EXPORTS)),
    required=True,
    metavar="FORMAT",
    help=f"One of {', '.join(EXPORTS)}.",
)
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
    """huggingface: a folder that AutoTokenizer reads, or with FILE.json its tokenizer.json alone. tiktoken: a rank
    file. gpt2: a folder with vocab.json and merges.txt. bert: a folder with vocab.txt, tokenizer.json and the
    configuration that makes AutoTokenizer put [CLS] and [SEP] around a text. byt5: a folder that AutoTokenizer reads as
    ByT5's. sentencepiece: FILE.model. tekken: Mistral's tekken.json. gguf: FILE.gguf, llama.cpp's vocabulary without a
    model; refused where llama.cpp would give other ids. token_bytes: an array with the number of bytes of each
    token.

    All commits of an output have one tokenizer; --tokenizer names another that was learned from one. Folders are made;
    a file that is there is not replaced.
    """
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
