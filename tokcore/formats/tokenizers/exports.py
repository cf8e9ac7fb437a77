"""The formats of the field that a tokenizer is exported to, by name: what `tokcore export` and every build write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tokcore.errors import ConfigError, FormatError
from tokcore.formats.tokenizers import (
    bert,
    byt5,
    gguf,
    gpt2,
    huggingface,
    sentencepiece,
    tekken,
    tiktoken,
    token_bytes,
    transformers,
)
from tokcore.formats.tokenizers.converted_pieces import describe_difference
from tokcore.tokenizer.tokenizer_spec import FILE_NAME, TokenizerSpec


class Export(NamedTuple):
    """One format."""

    # (name, content) of each file. Raises FormatError, naming what the format cannot hold.
    files: Callable[[TokenizerSpec], Sequence[tuple[str, bytes]]]
    # What the files do not hold and their reader must know; empty if there is nothing.
    left_out: Callable[[TokenizerSpec], str]
    # How a path ends that is to hold the first file alone. Any other is a folder; None: it never is.
    alone: str | None = None
    in_builds: bool = True  # whether every build writes these files


def make_huggingface_files(
    spec: TokenizerSpec, tokenizer_json: bytes, *, as_before: bool = False
) -> list[tuple[str, bytes]]:
    """(name, content) of a tokenizer.json and of the files that transformers has beside it.

    as_before: the latter as releases until 2026-11-27 wrote them.
    """
    return [
        ("tokenizer.json", tokenizer_json),
        ("tokenizer_config.json", transformers.write_tokenizer_config(spec, as_before=as_before)),
        ("special_tokens_map.json", transformers.write_special_tokens_map(spec, as_before=as_before)),
    ]


def list_hub_files(spec: TokenizerSpec) -> list[tuple[str, bytes]]:
    """(name, content) of what a repository holds: our own file, and those of transformers if they can hold it."""
    own = (FILE_NAME, spec.to_json_bytes())
    try:
        return [own, *make_huggingface_files(spec, huggingface.write_tokenizer_json(spec))]
    except FormatError:
        return [own]


EXPORTS: Mapping[str, Export] = {
    "huggingface": Export(
        lambda spec: make_huggingface_files(spec, huggingface.write_tokenizer_json(spec)),
        describe_difference,
        alone=".json",
    ),
    "tiktoken": Export(
        lambda spec: [(tiktoken.FILE_NAME, tiktoken.write_rank_file(spec))], tiktoken.describe_left_out, alone=""
    ),
    "gpt2": Export(gpt2.write_vocabulary_files, gpt2.describe_left_out),
    # Its files have the names of others, and put tokens around a text.
    "bert": Export(bert.write_bert_files, bert.describe_left_out, in_builds=False),
    "byt5": Export(byt5.write_byt5_files, lambda spec: "", in_builds=False),
    "sentencepiece": Export(
        lambda spec: [(sentencepiece.FILE_NAME, sentencepiece.write_sentencepiece_model(spec))],
        sentencepiece.describe_left_out,
        alone=".model",
    ),
    "tekken": Export(
        lambda spec: [(tekken.FILE_NAME, tekken.write_tekken(spec))],
        tekken.describe_left_out,
        alone=".json",
        in_builds=False,
    ),
    # Its name in a folder of a build would say that it is a model.
    "gguf": Export(
        lambda spec: [(gguf.FILE_NAME, gguf.write_gguf(spec))],
        gguf.describe_left_out,
        alone=".gguf",
        in_builds=False,
    ),
    "token_bytes": Export(
        lambda spec: [("token_bytes.npy", token_bytes.write_token_bytes(spec))], lambda spec: "", alone=".npy"
    ),
}


def export_to(spec: TokenizerSpec, to: str, path: Path, replace: bool) -> list[Path]:
    """Write the files of that format into the folder path, or the first alone if path ends as it asks; their paths.

    Raises ConfigError for an unknown format, FormatError if it cannot hold this tokenizer, FileExistsError as
    write_files does.
    """
    if to not in EXPORTS:
        raise ConfigError(f"there is no format {to!r}: expected one of {', '.join(EXPORTS)}")
    return write_files(path, EXPORTS[to].files(spec), EXPORTS[to].alone, replace)


def write_files(path: Path, files: Sequence[tuple[str, bytes]], alone: str | None, replace: bool) -> list[Path]:
    """Write (name, content) into the folder path, or the first to path itself if that ends with alone; their paths.

    Missing folders are made. Raises FileExistsError, before anything is written, if a file is there with other content,
    unless replace is set.
    """
    named = {path / name: data for name, data in files}
    if alone is not None and path.name.endswith(alone) and not path.is_dir():
        named = {path: files[0][1]}
    for file, data in named.items():
        if not replace and file.exists() and file.read_bytes() != data:
            raise FileExistsError(f"{file} is there already, with other content: choose another path, or replace it")
    for file, data in named.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_name(f"{file.name}.unfinished")
        unfinished.write_bytes(data)
        unfinished.replace(file)
    return list(named)
