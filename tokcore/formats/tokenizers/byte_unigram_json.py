"""The model of a tokenizer.json for Unigram in byte form: Split and ByteLevel, then Unigram.

A vocabulary there lists special tokens, too, and text that spells one becomes it; ours stays text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from tokcore.errors import FormatError
from tokcore.formats.tokenizers.json_floats import write_float
from tokcore.models.unigram.byte_unigram import ByteUnigramModel
from tokcore.models.unigram.pathpiece import make_byte_unigram
from tokcore.text.byte_alphabet import from_printable
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec


def is_byte_unigram(content: Mapping[str, Any]) -> bool:
    """Whether a tokenizer.json has such a model."""
    pre_tokenizer = content.get("pre_tokenizer")
    if content["model"].get("type") != "Unigram" or not isinstance(pre_tokenizer, dict):
        return False
    parts = pre_tokenizer.get("pretokenizers") or [pre_tokenizer]
    return any(isinstance(part, dict) and part.get("type") == "ByteLevel" for part in parts)


def make_byte_unigram_model(spec: TokenizerSpec, model: ByteUnigramModel) -> dict[str, Any]:
    """The part model. Raises FormatError for an id that no token has."""
    named = dict(zip(model.ids.tolist(), zip(model.names, model.scores.tolist(), strict=True), strict=True))
    named |= {token.id or 0: (token.text, 0.0) for token in spec.special}
    last = int(model.ids.max())
    if missing := [id for id in range(last + 1) if id not in named]:
        raise FormatError(f"the ids of a Unigram are places in its vocabulary, and no token has the id {missing[0]}")
    written = (named[id] for id in range(last + 1))
    vocab = [[text, orjson.Fragment(write_float(score))] for text, score in written]
    return {"type": "Unigram", "unk_id": None, "vocab": vocab, "byte_fallback": False}


def read_byte_unigram_model(model: Mapping[str, Any], special: Sequence[SpecialToken]) -> ByteUnigramModel:
    """The model of a tokenizer.json. Raises FormatError, naming the field, for what it cannot have."""
    if model.get("unk_id") is not None or model.get("byte_fallback"):
        raise FormatError(
            f"model.unk_id = {model.get('unk_id')!r:.80}, byte_fallback = {model.get('byte_fallback')!r:.80}: after "
            f"ByteLevel no text is unknown; expected null and false"
        )
    vocab = model.get("vocab")
    if not isinstance(vocab, list):
        raise FormatError(f"model.vocab is {type(vocab).__name__}: expected a list of [piece, score]")
    taken = {token.id: token.text for token in special}
    tokens, ids, scores = [], [], []
    for id, entry in enumerate(vocab):
        is_pair = isinstance(entry, list) and len(entry) == 2 and type(entry[0]) is str
        if not is_pair or type(entry[1]) not in (int, float):
            raise FormatError(f"model.vocab[{id}] is {entry!r:.80}: expected [piece, score]")
        if id in taken:
            if taken[id] != entry[0]:
                raise FormatError(
                    f"added token {taken[id]!r:.80} has the id {id}, and model.vocab has {entry[0]!r:.80}"
                )
            continue
        token = from_printable(entry[0])
        if not token:
            raise FormatError(f"model.vocab[{id}]: {entry[0]!r:.80} has a character that stands for no byte, or none")
        tokens.append(token)
        ids.append(id)
        scores.append(float(entry[1]))
    return make_byte_unigram(tuple(tokens), np.array(ids, np.int32), np.array(scores, np.float64))
