"""Mistral's tekken.json: a list of tokens by rank, the split pattern, and special tokens that come before all ranks.

The id of a token is its rank + default_num_special_tokens. Files may list more ranks than count: only the first
default_vocab_size - default_num_special_tokens do. Image and audio settings change no id of text and are ignored.

Written, ids change wherever special tokens are not the first ones: the file has no place for them elsewhere.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson

from tokcore.errors import ConfigError, FormatError
from tokcore.formats.tokenizers.tiktoken import read_split_pattern
from tokcore.models.bpe import RanksModel
from tokcore.models.model import ID_LIMIT, MAX_VOCABULARY_BYTES
from tokcore.text.patterns import find_named_pattern
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.regex_spelling import spell
from tokcore.text.regex_tree import parse
from tokcore.tokenizer.tokenizer_spec import PLAIN, UNKNOWN, SpecialToken, TokenizerSpec

_ROLES: Mapping[str, str] = {
    "<unk>": UNKNOWN,
    "<s>": "document_begin",
    "</s>": "document_end",
    "<pad>": "padding",
}
# The special tokens of files that list none. Only files up to version 7 may do so.
_FIRST_TOKENS = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]"),
    *("[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]"),
    *("[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"),
)
_LAST_VERSION_WITHOUT_TOKENS = 7
_BYTES = tuple(bytes([byte]) for byte in range(256))
_MAX_SPECIAL = 2**20  # a few bytes of JSON must not ask for any number of filler tokens


FILE_NAME = "tekken.json"


def write_tekken(spec: TokenizerSpec) -> bytes:
    """The tekken.json: mistral-common gives the same tokens with it, at the ids that describe_left_out says.

    Raises FormatError for a normalizer, an added token that is not special, a split pattern that its engine cannot be
    told, and where ranks alone do not lead to a token.
    """
    if spec.normalizer:
        raise FormatError(f"a tekken.json cannot hold the normalizer {', '.join(spec.normalizer)}")
    spec.require_all_special("a tekken.json")
    model = spec.model.as_bpe()
    model.check_ranks_suffice()
    tokens = [*_BYTES, *(token for token in model.tokens if len(token) > 1)]
    special = [{"rank": rank, "token_str": token.text, "is_control": True} for rank, token in enumerate(spec.special)]
    listed = []
    for rank, token in enumerate(tokens):
        text = token.decode(errors="replace")
        named = {"token_str": text if text.encode() == token else None}
        listed.append({"rank": rank, "token_bytes": binascii.b2a_base64(token, newline=False).decode(), **named})
    config = {
        "pattern": _spell_pattern(spec),
        "num_vocab_tokens": len(tokens),
        "default_vocab_size": len(tokens) + len(special),
        "default_num_special_tokens": len(special),
        "version": "v7",
    }
    return orjson.dumps({"config": config, "vocab": listed, "special_tokens": special}, option=orjson.OPT_INDENT_2)


def describe_left_out(spec: TokenizerSpec) -> str:
    """How ids differ from those of the tokenizer; empty if they do not."""
    moves = len(spec.special)
    model = spec.model.as_bpe()
    if [token.id for token in spec.special] == [*range(moves)] and model.tokens[:256] == _BYTES:
        return ""
    return (
        f"a tekken.json has special tokens before all others, so ids change: special tokens are 0 to {moves - 1}, in "
        f"their order, and the bytes {moves} to {moves + 255}, by value"
    )


def _spell_pattern(spec: TokenizerSpec) -> str:
    """The split pattern as tiktoken's engine, which mistral-common has, is told it."""
    own = Pretokenizer.from_spec(spec.pattern)
    try:
        return own.published_text if own.native_name is not None else spell(parse(own.published_text, "regex"))
    except ConfigError as error:
        raise FormatError(f"a tekken.json cannot hold the split pattern: {error}") from error


def is_tekken(content: object) -> bool:
    """Whether the JSON of a file is a tekken.json's."""
    return isinstance(content, dict) and isinstance(content.get("config"), dict) and "vocab" in content


def read_tekken(content: Mapping[str, Any], name: str, *, as_before: bool = False) -> TokenizerSpec:
    """The tokenizer of a tekken.json; content: its JSON, name: the file's, for errors.

    as_before: its split pattern is taken as it is, as by releases until 2026-11-27. Raises FormatError, naming the
    field, for sizes that the lists do not have, for a rank that is not its place, for special tokens given twice, and
    for a split pattern that engines cannot all be told.
    """
    try:
        config = content["config"]
        num_special = _read_size(config, "default_num_special_tokens", 0, _MAX_SPECIAL)
        vocab_size = _read_size(config, "default_vocab_size", num_special + 256, ID_LIMIT)
        tokens = _read_tokens(content["vocab"], vocab_size - num_special)
        ids = np.arange(num_special, vocab_size, dtype=np.int32)
        special = _read_special_tokens(content.get("special_tokens"), config.get("version"), num_special)
        return TokenizerSpec((), _read_pattern(config.get("pattern"), as_before), RanksModel(tokens, ids), special)
    except FormatError as error:
        raise FormatError(f"{name}: {error}") from error


def _read_size(config: Mapping[str, Any], key: str, least: int, most: int) -> int:
    size = config.get(key)
    if type(size) is not int or not least <= size <= most:
        raise FormatError(f"config.{key} = {size!r:.80}: expected {least} to {most}")
    return size


def _read_tokens(vocab: Any, num: int) -> tuple[bytes, ...]:
    if not isinstance(vocab, list) or len(vocab) < num:
        found = len(vocab) if isinstance(vocab, list) else type(vocab).__name__
        raise FormatError(
            f"vocab: found {found}, and default_vocab_size - default_num_special_tokens asks for {num} tokens"
        )
    tokens: list[bytes] = []
    total = 0
    for rank, entry in enumerate(vocab[:num]):
        place = f"vocab[{rank}]"
        _check_rank(entry, rank, place)
        try:
            token = binascii.a2b_base64(entry.get("token_bytes", ""), strict_mode=True)
        except (TypeError, ValueError) as error:
            raise FormatError(f"{place}.token_bytes = {entry.get('token_bytes')!r:.80}: not base64") from error
        total += len(token)
        if total > MAX_VOCABULARY_BYTES:
            raise FormatError(f"{place}.token_bytes: the tokens have more than {MAX_VOCABULARY_BYTES} bytes")
        if rank < 256 and token != bytes([rank]):
            raise FormatError(f"{place}.token_bytes is {token!r:.80}: the first 256 tokens must be the bytes, in order")
        tokens.append(token)
    return tuple(tokens)


def _check_rank(entry: Any, rank: int, place: str) -> None:
    if not isinstance(entry, dict) or entry.get("rank") != rank or type(entry["rank"]) is not int:
        raise FormatError(f"{place}.rank: expected {rank}: a list is in the order of ranks, without gaps")


def _read_special_tokens(listed: Any, version: Any, num: int) -> tuple[SpecialToken, ...]:
    if listed is None:
        number = re.fullmatch(r"v(\d{1,4})", version) if isinstance(version, str) else None
        if number is None or int(number[1]) > _LAST_VERSION_WITHOUT_TOKENS:
            raise FormatError(
                f"special_tokens is missing: only files up to config.version v{_LAST_VERSION_WITHOUT_TOKENS} may leave "
                f"them out, and this one is of {version!r:.80}"
            )
        listed = [{"rank": rank, "token_str": text} for rank, text in enumerate(_FIRST_TOKENS)]
    if not isinstance(listed, list) or len(listed) > num:
        found = len(listed) if isinstance(listed, list) else type(listed).__name__
        raise FormatError(f"special_tokens: found {found}, and default_num_special_tokens is {num}")
    texts: list[str] = []
    for rank, entry in enumerate(listed):
        place = f"special_tokens[{rank}]"
        _check_rank(entry, rank, place)
        if type(entry.get("token_str")) is not str or not entry["token_str"]:
            raise FormatError(f"{place}.token_str = {entry.get('token_str')!r:.80}: expected a text")
        texts.append(entry["token_str"])
    texts += [f"<SPECIAL_{rank}>" for rank in range(len(texts), num)]
    rank_of: dict[str, int] = {}
    for rank, text in enumerate(texts):
        if rank_of.setdefault(text, rank) != rank:
            raise FormatError(f"special_tokens[{rank}].token_str is {text!r:.80}, as is that of {rank_of[text]}")
    return tuple(SpecialToken(text, rank, _ROLES.get(text, PLAIN)) for text, rank in rank_of.items())


def _read_pattern(text: Any, as_before: bool) -> dict[str, str]:
    if type(text) is not str:
        raise FormatError(f"config.pattern = {text!r:.80}: expected a regular expression")
    named = find_named_pattern(text)
    try:
        return {"name": named} if named else read_split_pattern(text, as_before=as_before).spec
    except ConfigError as error:
        raise FormatError(f"config.pattern: {error}") from error
