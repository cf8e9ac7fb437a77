"""ByT5's folder: what transformers' ByT5Tokenizer is loaded from. It has no vocabulary file, as its ids are bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tokcore.errors import FormatError
from tokcore.models.byte import BYT5, LAYOUTS, ByteModel, find_layout
from tokcore.text.patterns import DEFAULT_PATTERN
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec

_CLASS = "ByT5Tokenizer"
_TOKENS = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
_NUM_EXTRA_IDS = sum(text.startswith("<extra_id_") for text in LAYOUTS[BYT5])


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
    content = {**_TOKENS, "extra_ids": _NUM_EXTRA_IDS, "tokenizer_class": _CLASS}
    return [("tokenizer_config.json", json.dumps(content, indent=1, sort_keys=True).encode() + b"\n")]


def is_byt5_config(content: object) -> bool:
    """Whether the JSON of a file is the tokenizer_config.json of a ByT5 folder."""
    return isinstance(content, dict) and content.get("tokenizer_class") == _CLASS


def read_byt5_config(content: Mapping[str, Any], name: str) -> TokenizerSpec:
    """The tokenizer of a ByT5 folder; content: the JSON of its tokenizer_config.json, name: the file's, for errors.

    Raises FormatError, naming the field, for other special tokens than ByT5's own, and for another number of them.
    """
    for key, text in _TOKENS.items():
        found = content.get(key, text)
        if isinstance(found, dict):
            found = found.get("content")
        if found != text:
            raise FormatError(f"{name}: {key} = {found!r:.80}: expected {text!r}, as ByT5 has it")
    if (found := content.get("extra_ids", _NUM_EXTRA_IDS)) != _NUM_EXTRA_IDS:
        raise FormatError(f"{name}: extra_ids = {found!r:.80}: expected {_NUM_EXTRA_IDS}")
    own = {token.id: text for text, token in LAYOUTS[BYT5].items()}
    for number, token in (content.get("added_tokens_decoder") or {}).items():
        added = token.get("content") if isinstance(token, dict) else token
        if own.get(int(number) if number.isdigit() else -1) != added:
            raise FormatError(
                f"{name}: added_tokens_decoder.{number:.20} is {added!r:.80}: ByT5 has no such token there"
            )
    for text in content.get("additional_special_tokens") or []:
        if text not in LAYOUTS[BYT5]:
            raise FormatError(f"{name}: additional_special_tokens has {text!r:.80}: ByT5 has no such token")
    special = tuple(SpecialToken(text, token.id, token.role) for text, token in LAYOUTS[BYT5].items())
    return TokenizerSpec((), {"name": DEFAULT_PATTERN}, ByteModel(BYT5), special)
