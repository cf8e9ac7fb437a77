"""tiktoken's rank file: one line per token, `base64(bytes) SPACE rank LF`, in the order of ranks.

The split pattern and the special tokens live outside of the file.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Mapping

import numpy as np

from tokcore.canonical import hash_sha256
from tokcore.errors import FormatError
from tokcore.models import find_own_form
from tokcore.models.bpe import RanksModel
from tokcore.models.model import ID_LIMIT
from tokcore.tokenizer_spec import SpecialToken, TokenizerSpec

FILE_NAME = "tokenizer.tiktoken"  # in a folder

# The sha256 of rank files that are published without a pattern -> the name of the pattern that tiktoken uses with them.
_PUBLISHED = {
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930": "gpt2",  # r50k_base
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7": "cl100k",  # cl100k_base
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d": "o200k",  # o200k_base
}


def find_published_pattern(data: bytes) -> str | None:
    """The name of the pattern of a published rank file, by its content; None of any other file."""
    return _PUBLISHED.get(hash_sha256(data))


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
    return (
        f"a rank file holds no split pattern and no special tokens: "
        f"read it with the pattern {spec.pattern_name} and the special tokens {special}."
    )
