"""The tokenizer of a build's output, wherever it is stored."""

from __future__ import annotations

from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import FILE_NAME, TokenizerSpec
from tokcore_pipelines.store import storage, urls
from tokcore_schemas.stage_manifests import TokenizerManifest


def load_tokenizer(output: str) -> Tokenizer:
    """The tokenizer of an output."""
    return Tokenizer(load_spec(output))


def load_spec(output: str) -> TokenizerSpec:
    """What the tokenizer of an output is made of, for callers that encode nothing."""
    return load_spec_of_folder(output, "tokenizer")


def load_checked_spec(output: str, learned: TokenizerManifest) -> TokenizerSpec:
    """The same, checked by the sha256 in the tokenizer's manifest, which is quicker.

    Raises ChecksumError if the file is not the one that the manifest names.
    """
    url = urls.join(output, learned.stage, FILE_NAME)
    return TokenizerSpec.from_json_bytes(storage.read_bytes(url), url, learned.file(FILE_NAME).sha256)


def load_spec_of_folder(output: str, *below: str) -> TokenizerSpec:
    """What a tokenizer in a folder of an output is made of. Raises FormatError if it is damaged."""
    url = urls.join(output, *below, FILE_NAME)
    return TokenizerSpec.from_json_bytes(storage.read_bytes(url), url)
