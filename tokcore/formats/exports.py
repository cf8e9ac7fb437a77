"""The formats of the field that a tokenizer is exported to, by name: what `tokcore export` and every build write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tokcore.formats import gpt2, huggingface, tiktoken
from tokcore.tokenizer_spec import TokenizerSpec


class Export(NamedTuple):
    """One format."""

    # (name, content) of each file. Raises FormatError, naming what the format cannot hold.
    files: Callable[[TokenizerSpec], Sequence[tuple[str, bytes]]]
    # What a reader of the files must be told besides; empty if there is nothing.
    left_out: Callable[[TokenizerSpec], str]


EXPORTS: Mapping[str, Export] = {
    "huggingface": Export(lambda spec: [("tokenizer.json", huggingface.tokenizer_json(spec))], lambda spec: ""),
    "tiktoken": Export(lambda spec: [("tokenizer.tiktoken", tiktoken.rank_file(spec))], tiktoken.left_out),
    "gpt2": Export(gpt2.vocabulary_files, gpt2.left_out),
}
