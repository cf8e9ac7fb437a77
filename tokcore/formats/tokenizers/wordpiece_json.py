"""The parts of tokenizer.json that are WordPiece's own: normalizer, pre-tokenizer, model and decoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tokcore.errors import FormatError
from tokcore.formats.tokenizers.gpt2 import make_vocabulary
from tokcore.models.model import ID_LIMIT
from tokcore.models.wordpiece.longest_match import MAX_CHARACTERS, WordpieceModel, require_wordpiece
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.split_steps import StepList, write_steps
from tokcore.tokenizer.tokenizer_spec import PLAIN, UNKNOWN, SpecialToken, TokenizerSpec

_REMOVE_WHITE = frozenset(("BertPreTokenizer", "Whitespace", "WhitespaceSplit"))  # steps after which none is left

_CLEAN = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}

# Step -> what it is in tokenizer.json.
NORMALIZERS: Mapping[str, dict[str, Any]] = {
    "bert": {**_CLEAN, "strip_accents": None, "lowercase": True},
    "bert-cased": {**_CLEAN, "strip_accents": None, "lowercase": False},
}


def make_wordpiece_parts(spec: TokenizerSpec) -> dict[str, Any]:
    """pre_tokenizer, decoder and model. Raises FormatError for another model."""
    model = require_wordpiece(spec.model, "these parts of tokenizer.json")
    unknown = next(token.text for token in spec.special if token.id == model.unknown)
    return {
        "pre_tokenizer": _make_pretokenizer(spec.pattern),
        "decoder": {"type": "WordPiece", "prefix": model.prefix, "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": unknown,
            "continuing_subword_prefix": model.prefix,
            # Theirs has no value for "no limit".
            "max_input_chars_per_word": model.max_characters or 2**31 - 1,
            "vocab": make_vocabulary(spec),
        },
    }


def _make_pretokenizer(pattern: Mapping[str, str]) -> dict[str, Any] | None:
    if pattern.get("name") == "bert":
        return {"type": "BertPreTokenizer"}
    if (steps := Pretokenizer.from_spec(pattern).steps) is not None:
        return write_steps(steps)
    text = Pretokenizer.from_spec(pattern).published_text
    raise FormatError(
        f"WordPiece over the split pattern {text[:40]!r}: tokenizer.json has no pre-tokenizer that gives the same ids"
    )


def read_bert_steps(value: Mapping[str, Any]) -> list[str]:
    """The steps that a BertNormalizer is. Raises FormatError for one that ours do not make up."""
    lowercase = value.get("lowercase", True)
    strips = value.get("strip_accents")
    found = (value.get("clean_text", True), value.get("handle_chinese_chars", True), lowercase)
    if found == (True, True, lowercase) and (strips is None or strips == lowercase):
        return ["bert" if lowercase else "bert-cased"]
    if found == (True, True, True) and strips is False:
        return ["bert-cased", "lowercase"]
    raise FormatError(
        f"normalizer BertNormalizer with {dict(value)!r:.200} is not supported: only with clean_text and "
        f"handle_chinese_chars, and with strip_accents only where there is lowercase"
    )


def read_wordpiece_pattern(value: Any, ours: Any) -> dict[str, str]:
    """Pretokenizer.spec of a pre_tokenizer. Raises FormatError for one after which white space may be left."""
    if isinstance(value, dict) and value.get("type") == "BertPreTokenizer":
        return {"name": "bert"}
    listed = StepList(value)
    if listed.is_bytewise or _REMOVE_WHITE.isdisjoint(step["type"] for step in listed.steps):
        kinds = " + ".join(step["type"] for step in listed.steps) or "of no steps"
        raise FormatError(
            f"pre_tokenizer {kinds} of a WordPiece model is not supported: only lists without ByteLevel and with "
            f"{', '.join(sorted(_REMOVE_WHITE))}"
        )
    return {"steps": listed.text}


def read_wordpiece_model(
    model: Mapping[str, Any], special: Sequence[SpecialToken]
) -> tuple[WordpieceModel, list[SpecialToken]]:
    """The model, and the special tokens, among which the unknown one has its role.

    Raises FormatError, naming the field, for ids or tokens that a vocabulary cannot have.
    """
    names: dict[str, Any] = model["vocab"]
    for text, id in names.items():
        if type(id) is not int or not 0 <= id < ID_LIMIT:
            raise FormatError(f"model.vocab: token {text!r} has the id {id!r}")
    unknown = model.get("unk_token", "[UNK]")
    if unknown not in names:
        raise FormatError(f"model.vocab has no {unknown!r}, which unk_token names: unknown text would have no id")
    special = list(special)
    if unknown not in {token.text for token in special}:
        special.append(SpecialToken(unknown, names[unknown]))
    special = [
        dataclasses.replace(token, role=UNKNOWN) if token.text == unknown and token.role == PLAIN else token
        for token in special
    ]
    texts = {token.text for token in special}
    ordinary = sorted(((id, text) for text, id in names.items() if text not in texts), key=lambda one: one[0])
    return (
        WordpieceModel(
            tuple(text.encode() for _, text in ordinary),
            np.array([id for id, _ in ordinary], np.int32),
            names[unknown],
            model.get("continuing_subword_prefix", "##"),
            _read_limit(model.get("max_input_chars_per_word", MAX_CHARACTERS)),
        ),
        special,
    )


def _read_limit(limit: Any) -> int:
    if type(limit) is not int or limit < 1:
        raise FormatError(f"model.max_input_chars_per_word = {limit!r}: expected at least 1")
    return 0 if limit == 2**31 - 1 else limit
