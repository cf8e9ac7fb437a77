"""tiktoken's rank file: one line per token, `base64(bytes) SPACE rank LF`, in the order of ranks.

The split pattern and the special tokens live outside of the file. Of published files they are known, by the content.
"""

from __future__ import annotations

import binascii
import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from tokcore.errors import ConfigError, FormatError
from tokcore.files.canonical_json import hash_sha256
from tokcore.models import find_own_form
from tokcore.models.bpe import RanksModel
from tokcore.models.model import ID_LIMIT
from tokcore.text.patterns import find_named_pattern
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.regex_spelling import spell, translate
from tokcore.text.regex_tree import parse
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec, assign_ids

FILE_NAME = "tokenizer.tiktoken"  # in a folder


class Published(NamedTuple):
    """What tiktoken has beside a published rank file."""

    name: str  # of the encoding; of several with one file the plainest
    pattern: str  # its name
    special: Mapping[str, int]  # special token -> id; ids between them are no token's


_END, _PREFIX, _MIDDLE, _SUFFIX = "<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"
_PROMPT = "<|endofprompt|>"

# The sha256 of a rank file -> what belongs to it.
_PUBLISHED = {
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930": Published("r50k_base", "gpt2", {_END: 50256}),
    "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069": Published("p50k_base", "gpt2", {_END: 50256}),
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7": Published(
        "cl100k_base",
        "cl100k",
        {_END: 100257, _PREFIX: 100258, _MIDDLE: 100259, _SUFFIX: 100260, _PROMPT: 100276},
    ),
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d": Published(
        "o200k_base", "o200k", {_END: 199999, _PROMPT: 200018}
    ),
}


def find_published(data: bytes) -> Published | None:
    """What belongs to a published rank file, by its content; None of any other file."""
    return _PUBLISHED.get(hash_sha256(data))


def read_published(data: bytes, name: str) -> TokenizerSpec:
    """The tokenizer of a published rank file, <|endoftext|> of role document_end. name: the file's, for errors.

    Raises FormatError for any other file, as a rank file does not say how text is split.
    """
    published = find_published(data)
    if published is None:
        raise FormatError(
            f"{name}: is a rank file, which does not say how text is split, and none of those that are known "
            f"({', '.join(one.name for one in _PUBLISHED.values())}): its split pattern must be given, as in "
            f"Tokenizer.from_tiktoken(path, pattern='cl100k') or tokenizer.pattern of a build file"
        )
    spec = read_rank_file(data, name, {"name": published.pattern})
    return add_special(spec, published, [SpecialToken(_END, None, "document_end")])


def add_special(spec: TokenizerSpec, published: Published | None, declared: Iterable[SpecialToken]) -> TokenizerSpec:
    """The tokenizer of a rank file with its special tokens: the published ones at their ids, and declared ones.

    A declared token has the id that it declares, or is published with, or else the next one after all others. A
    published token whose id another one declares is left out. Raises ConfigError for ids that cannot be.
    """
    rest = {token.text: token for token in declared}
    pinned = {token.id for token in rest.values()}
    special = []
    for text, own_id in (published.special if published is not None else {}).items():
        if (own := rest.pop(text, None)) is not None:
            special.append(own if own.id is not None else dataclasses.replace(own, id=own_id))
        elif own_id not in pinned:
            special.append(SpecialToken(text, own_id))
    first = max([spec.vocab_size, *(id + 1 for token in special if (id := token.id) is not None)])
    gaps = frozenset(range(first)).difference(spec.model.ids.tolist()) if published is not None else frozenset()
    return dataclasses.replace(spec, special=tuple(assign_ids([*special, *rest.values()], first, gaps)))


def read_split_pattern(pattern: str, *, as_before: bool = False) -> Pretokenizer:
    r"""The pattern with that name, or with that text as tiktoken's engine reads it.

    as_before: a text is taken as it is, as by releases until 2026-11-27. Raises ConfigError as Pretokenizer.of does,
    and for a text that engines cannot all be told, naming the part.

    >>> read_split_pattern(r"\p{L}+$|\P{L}").spec
    {'regex': '\\p{L}+(?![\\s\\S])|\\P{L}'}
    """
    is_text = isinstance(pattern, str) and re.fullmatch(r"[\w-]*", pattern) is None
    if as_before or not is_text or find_named_pattern(pattern) is not None:
        return Pretokenizer.of(pattern)
    return Pretokenizer.regex(translate(pattern, "fancy", "regex"))


def is_rank_file(data: bytes) -> bool:
    """Whether a file begins as a rank file does."""
    token, _, rank = data[:256].partition(b"\n")[0].rstrip().partition(b" ")
    try:
        return bool(binascii.a2b_base64(token, strict_mode=True)) and rank.isdigit()
    except binascii.Error:
        return False


def read_rank_file(
    data: bytes, name: str, pattern: Mapping[str, str], special: Iterable[SpecialToken] = ()
) -> TokenizerSpec:
    """The tokenizer of a rank file's bytes. pattern: Pretokenizer.spec. Raises FormatError, naming name and line."""
    rank_of: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        if not line:
            continue
        parts = line.split(b" ")
        try:
            token, rank = binascii.a2b_base64(parts[0], strict_mode=True), int(parts[1])
        except (IndexError, ValueError, binascii.Error) as error:
            raise FormatError(f"{name}: line {number}: expected `base64 rank`, found {line[:80]!r}") from error
        if len(parts) != 2 or not 0 <= rank < ID_LIMIT or token in rank_of:
            raise FormatError(f"{name}: line {number}: a token given twice, or no rank below {ID_LIMIT}: {line[:80]!r}")
        rank_of[token] = rank
    tokens = sorted(rank_of, key=rank_of.__getitem__)
    ids = np.array([rank_of[token] for token in tokens], np.int32)
    try:
        return TokenizerSpec((), dict(pattern), find_own_form(RanksModel(tuple(tokens), ids)), tuple(special))
    except FormatError as error:
        raise FormatError(f"{name}: {error}") from error


def write_rank_file(spec: TokenizerSpec) -> bytes:
    """The rank file of the ordinary tokens: with it, tiktoken gives the same ids.

    Raises FormatError if it would not: a normalizer, an added token that is not special, or a token that its ranks
    alone do not lead to.
    """
    if spec.normalizer:
        raise FormatError(
            f"a rank file cannot hold the normalizer {', '.join(spec.normalizer)}: export to huggingface instead"
        )
    spec.require_all_special("a rank file")
    model = spec.model.as_bpe()
    model.check_ranks_suffice()
    ranked = zip(model.tokens, model.ids.tolist(), strict=True)
    return b"".join([binascii.b2a_base64(token, newline=False) + b" %d\n" % rank for token, rank in ranked])


def describe_left_out(spec: TokenizerSpec) -> str:
    """What the file does not hold and its reader must know."""
    special = ", ".join(f"{token.text!r} = {token.id}" for token in spec.special) or "none"
    pattern = spec.pattern_name
    if "regex" in spec.pattern:
        try:
            pattern = repr(spell(parse(spec.pattern["regex"], "regex")))
        except ConfigError as error:
            pattern = f"{pattern}, which tiktoken's engine cannot be told: {error}"
    return (
        f"a rank file holds no split pattern and no special tokens: "
        f"read it with the pattern {pattern} and the special tokens {special}."
    )
