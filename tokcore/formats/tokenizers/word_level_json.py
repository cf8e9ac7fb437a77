"""The parts of tokenizer.json for words and characters: WordLevel, over a split that leaves both whole.

Their engine has no model of characters: there, each character is split off and looked up as a word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tokcore.errors import FormatError
from tokcore.formats.tokenizers.gpt2 import make_vocabulary
from tokcore.models.model import ID_LIMIT
from tokcore.models.word import CharacterModel, WordModel, is_of_characters
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.split_steps import write_steps
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec

# Any character, line feeds included.
_ONE = r"[\s\S]"


def make_word_level_parts(spec: TokenizerSpec, spell: Callable[[Mapping[str, str]], str]) -> dict[str, Any]:
    """pre_tokenizer, decoder and model. spell: the pattern of the tokenizer, as their engine reads it."""
    unknown = next(token.text for token in spec.special if token.id == spec.model.unknown)
    if (steps := Pretokenizer.from_spec(spec.pattern).steps) is not None and not is_of_characters(spec.model):
        pre_tokenizer = write_steps(steps)
    else:
        pattern = _ONE if is_of_characters(spec.model) else spell(spec.pattern)
        pre_tokenizer = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {
        "pre_tokenizer": pre_tokenizer,
        "decoder": {"type": "Fuse"},
        "model": {"type": "WordLevel", "vocab": make_vocabulary(spec), "unk_token": unknown},
    }


def read_word_level_model(content: Mapping[str, Any], special: Sequence[SpecialToken]) -> WordModel:
    """The model of a tokenizer.json, of characters if each character is split off.

    Raises FormatError, naming the field, for ids or tokens that a vocabulary cannot have.
    """
    model = content["model"]
    names: dict[str, Any] = model["vocab"]
    for text, id in names.items():
        if type(id) is not int or not 0 <= id < ID_LIMIT:
            raise FormatError(f"model.vocab: token {text!r} has the id {id!r}")
    unknown = model.get("unk_token", "<unk>")
    if unknown not in {token.text for token in special}:
        raise FormatError(f"model.unk_token = {unknown!r} is no special token: unknown text would have no id")
    texts = {token.text for token in special}
    ordinary = sorted(((id, text) for text, id in names.items() if text not in texts), key=lambda one: one[0])
    kind = CharacterModel if is_split_into_characters(content.get("pre_tokenizer")) else WordModel
    ids = np.array([id for id, _ in ordinary], np.int32)
    return kind(tuple(text.encode() for _, text in ordinary), ids, names[unknown])


def is_split_into_characters(pre_tokenizer: Any) -> bool:
    """Whether it is the one that we write for characters."""
    return isinstance(pre_tokenizer, dict) and pre_tokenizer.get("pattern") == {"Regex": _ONE}
