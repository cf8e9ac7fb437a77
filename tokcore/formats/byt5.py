"""ByT5's folder: what transformers' ByT5Tokenizer is loaded from. It has no vocabulary file, as its ids are bytes."""

from __future__ import annotations

import json

from tokcore.errors import FormatError
from tokcore.models.byte import BYT5, LAYOUTS, find_layout
from tokcore.tokenizer_spec import TokenizerSpec


def write_byt5_files(spec: TokenizerSpec) -> list[tuple[str, bytes]]:
    """(name, content) of tokenizer_config.json.

    Raises FormatError for a tokenizer that is not of bytes in ByT5's layout, or that has other special tokens.
    """
    if find_layout(spec.model) != BYT5:
        raise FormatError('ByT5\'s folder holds bytes in its own layout: learn with model = "byte", layout = "byt5"')
    if spec.normalizer:
        raise FormatError(f"ByT5's folder cannot hold the normalizer {', '.join(spec.normalizer)}")
    expected = {text: token.id for text, token in LAYOUTS[BYT5].items()}
    found = {token.text: token.id for token in spec.special}
    if found != expected:
        other = next(text for text in {**found, **expected} if found.get(text) != expected.get(text))
        raise FormatError(f"ByT5's folder holds its own special tokens only, and {other!r} differs")
    content = {
        "eos_token": "</s>",
        "extra_ids": sum(text.startswith("<extra_id_") for text in expected),
        "pad_token": "<pad>",
        "tokenizer_class": "ByT5Tokenizer",
        "unk_token": "<unk>",
    }
    return [("tokenizer_config.json", json.dumps(content, indent=1).encode() + b"\n")]
