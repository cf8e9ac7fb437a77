"""The parts of tokenizer.json that are those of a BPE of other symbols than the 256 bytes: its model and decoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tokcore.errors import FormatError
from tokcore.formats.tokenizers.converted_json import list_shared
from tokcore.models.model import ID_LIMIT
from tokcore.models.symbol_bpe import SymbolBpeModel
from tokcore.text.byte_alphabet import to_printable
from tokcore.tokenizer.tokenizer_spec import PLAIN, UNKNOWN, SpecialToken, TokenizerSpec


def read_symbol_bpe(
    model: Mapping[str, Any], special: Sequence[SpecialToken], *, bytewise: bool
) -> tuple[SymbolBpeModel, list[SpecialToken]]:
    """The model, and the special tokens, among which the unknown one has its role.

    bytewise: the pre-tokenizer makes characters of bytes. Raises FormatError, naming the field, for ids, tokens or
    merges that a vocabulary cannot have.
    """
    names: dict[str, Any] = model.get("vocab") or {}
    if not isinstance(names, dict):
        raise FormatError(f"model.vocab is {type(names).__name__}: expected an object of tokens and ids for BPE")
    for text, id in names.items():
        if type(id) is not int or not 0 <= id < ID_LIMIT:
            raise FormatError(f"model.vocab: token {text!r:.80} has the id {id!r:.80}")
    for key in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix"):
        if not isinstance(model.get(key), str | None):
            raise FormatError(f"model.{key} = {model[key]!r:.80}: expected a string or null")
    special = list(special)
    unknown = model.get("unk_token")
    if unknown is not None and unknown not in names:
        raise FormatError(f"model.vocab has no {unknown!r:.80}, which unk_token names: unknown text would have no id")
    texts = {token.text: token.id for token in special}
    for text in list_shared(model, [token.text for token in special if not token.is_special]):
        del texts[text]
    for text in [token.text for token in special if not token.is_special and len(token.text) == 1]:
        texts.pop(text, None)  # a character, which each text may need
    for text, id in texts.items():
        if names.get(text, id) != id:
            raise FormatError(f"added token {text!r:.80} has the id {id}, and in model.vocab it has {names[text]}")
    if unknown is not None:
        if unknown not in texts:
            texts[unknown] = names[unknown]
            special = [token for token in special if token.text != unknown]
            special.append(SpecialToken(unknown, names[unknown], UNKNOWN))
        special = [
            dataclasses.replace(token, role=UNKNOWN) if token.text == unknown and token.role == PLAIN else token
            for token in special
        ]
    ordinary = sorted(((id, text) for text, id in names.items() if text not in texts), key=lambda one: one[0])
    merges = []
    for i, merge in enumerate(model.get("merges", [])):
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if len(pair) != 2 or any(part not in names or part in texts for part in pair):
            raise FormatError(f"model.merges[{i}] = {merge!r:.80}: expected two ordinary tokens")
        merges.append((names[pair[0]], names[pair[1]]))
    read = SymbolBpeModel(
        tuple(text.encode() for _, text in ordinary),
        np.array([id for id, _ in ordinary], np.int32),
        np.array(merges, np.int32).reshape(-1, 2),
        names[unknown] if unknown is not None else None,
        bytewise,
        model.get("continuing_subword_prefix") or "",
        model.get("end_of_word_suffix") or "",
        bool(model.get("fuse_unk")),
        bool(model.get("byte_fallback")),
        bool(model.get("ignore_merges")),
    )
    return read, special


def make_symbol_bpe_parts(spec: TokenizerSpec, model: SymbolBpeModel, *, as_before: bool = False) -> dict[str, Any]:
    """decoder and model of a tokenizer.json. as_before: as releases until 2026-11-28 wrote them."""
    name = dict(zip(model.ids.tolist(), model.names, strict=True))
    vocab = {text: id for id, text in name.items()} | {token.text: token.id or 0 for token in spec.special}
    vocab = dict(sorted(vocab.items(), key=lambda item: item[1]))
    # Added tokens at the end get their ids anyway. In the vocabulary, they would be symbols that characters become.
    for text, id in reversed([*vocab.items()]):
        if id in name or id == model.unknown or id != len(vocab) - 1:
            break
        del vocab[text]
    if model.bytewise:
        decoder: dict[str, Any] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
        decoder |= {"use_regex": True}
        if model.suffix and not as_before:
            blank = {"type": "Replace", "pattern": {"String": model.suffix}, "content": to_printable(b" ")}
            # Their Strip fails where there is nothing.
            last = {"type": "Replace", "pattern": {"Regex": " \\z"}, "content": ""}
            decoder = {"type": "Sequence", "decoders": [blank, decoder, last]}
    elif model.suffix:
        decoder = {"type": "BPEDecoder", "suffix": model.suffix}
    else:
        decoder = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}
    return {
        "decoder": decoder,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": next((token.text for token in spec.special if token.id == model.unknown), None),
            "continuing_subword_prefix": model.prefix or None,
            "end_of_word_suffix": model.suffix or None,
            "fuse_unk": model.fuses_unknown,
            "byte_fallback": model.spells_bytes,
            "ignore_merges": model.ignore_merges,
            "vocab": vocab,
            "merges": [[name[left], name[right]] for left, right in model.merges.tolist()],
        },
    }
