"""The reader of GPT-2's pair of files, vocab.json and merges.txt; tokcore.formats.tokenizers.gpt2 writes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from tokcore.errors import FormatError
from tokcore.formats.tokenizers.gpt2 import HEADER
from tokcore.formats.tokenizers.huggingface import read_bpe_model
from tokcore.models import find_own_form
from tokcore.text.byte_alphabet import to_printable
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec, assign_ids

NAMES = ("vocab.json", "merges.txt")

_WORD_END = "</w>"  # of the first GPT and of CLIP


def read_vocabulary_files(
    vocabulary: bytes, merges: bytes, name: str, pattern: Mapping[str, str], special: Iterable[SpecialToken] = ()
) -> TokenizerSpec:
    """The tokenizer of the bytes of the two files. pattern: Pretokenizer.spec, which the files do not hold.

    A token is special if it is no single byte and no merge makes it. special: the roles of such tokens, and further
    special tokens, which get the next ids. name: what errors call the files. Raises FormatError, naming the entry or
    line, unless the files are a byte-level BPE.
    """
    try:
        ids = _parse_vocabulary(vocabulary)
        pairs = _parse_merges(merges)
        made = {*map(to_printable, (bytes([byte]) for byte in range(256))), *map("".join, pairs)}
        own = [SpecialToken(text, id) for text, id in ids.items() if text not in made]
        model = read_bpe_model({"vocab": ids, "merges": pairs}, {token.text for token in own})
        return TokenizerSpec((), dict(pattern), find_own_form(model), _add_declared(own, special, max(ids.values())))
    except FormatError as error:
        raise FormatError(f"{name}: {error}") from error


def _parse_vocabulary(data: bytes) -> dict[str, int]:
    try:
        ids: Any = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise FormatError(f"vocab.json is not JSON: {error}") from error
    if not isinstance(ids, dict) or not ids or not all(type(id) is int for id in ids.values()):
        raise FormatError("vocab.json is not an object of tokens and their ids")
    if any(text.endswith(_WORD_END) and len(text) > len(_WORD_END) for text in ids):
        raise FormatError(
            f"vocab.json has tokens that end with {_WORD_END}: what comes of white space between words, these files do "
            f"not say. Load the tokenizer.json of the same vocabulary"
        )
    return ids


def _parse_merges(data: bytes) -> list[tuple[str, str]]:
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise FormatError(f"merges.txt is not UTF-8: {error}") from error
    is_versioned = lines[0].startswith(HEADER.split(" ")[0])
    pairs = []
    for number, line in enumerate(lines[is_versioned:], 1 + is_versioned):
        left, _, right = line.rstrip("\r").partition(" ")
        if not line.strip() and number == len(lines):
            continue
        if not left or not right or " " in right:
            raise FormatError(f"merges.txt:{number}: {line[:80]!r}: expected two tokens and a space between them")
        pairs.append((left, right))
    return pairs


def _add_declared(own: Iterable[SpecialToken], declared: Iterable[SpecialToken], last: int) -> tuple[SpecialToken, ...]:
    """The special tokens of the files with the roles that are declared for them, and the other declared ones.

    Raises FormatError for a declared id that is not the one of the files.
    """
    rest = {token.text: token for token in declared}
    found = []
    for token in own:
        if (same := rest.pop(token.text, None)) is not None:
            if same.id not in (None, token.id):
                raise FormatError(f"{token.text!r} has the id {token.id} in vocab.json, and {same.id} is declared")
            token = dataclasses.replace(token, role=same.role)
        found.append(token)
    return (*found, *assign_ids(rest.values(), last + 1))
