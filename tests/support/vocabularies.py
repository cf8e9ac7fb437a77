"""Vocabularies for tests: published ones from tests/data/vocab, and random ones as hypothesis strategies."""

from __future__ import annotations

import base64
import functools
import hashlib
from pathlib import Path

import numpy as np
import tiktoken
import zstandard
from hypothesis import strategies as st

from tokcore import kernel
from tokcore.models.bpe import LearnedModel, MergesModel, RanksModel
from tokcore.text.byte_alphabet import BYTE_OF_ID
from tokcore.text.patterns import PATTERNS
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec, make_learned_spec

FOLDER = Path(__file__).parents[1] / "data" / "vocab"

# name -> (pattern, special tokens, sha256 of the rank file)
PUBLISHED = {
    "r50k": ("gpt2", {"<|endoftext|>": 50256}, "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"),
    "cl100k": (
        "cl100k",
        {"<|endoftext|>": 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|endofprompt|>": 100276},
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
    "o200k": (
        "o200k",
        {"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
}


@functools.cache
def rank_file_bytes(name: str) -> bytes:
    """The published rank file."""
    data = zstandard.ZstdDecompressor().decompress((FOLDER / f"{name}_base.tiktoken.zst").read_bytes(), 1 << 26)
    assert hashlib.sha256(data).hexdigest() == PUBLISHED[name][2]
    return data


@functools.cache
def ranks(name: str) -> dict[bytes, int]:
    """Token -> rank of a published vocabulary."""
    lines = (line.split() for line in rank_file_bytes(name).splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in lines}


@functools.cache
def published_tokenizer(name: str) -> Tokenizer:
    """Our tokenizer of a published vocabulary."""
    from tokcore.formats.tokenizers.tiktoken import read_rank_file
    from tokcore.tokenizer.tokenizer_spec import SpecialToken

    pattern, special, _ = PUBLISHED[name]
    tokens = [SpecialToken(text, id) for text, id in special.items()]
    return Tokenizer(read_rank_file(rank_file_bytes(name), name, {"name": pattern}, tokens))


@functools.cache
def published_encoding(name: str) -> tiktoken.Encoding:
    """tiktoken's tokenizer of a published vocabulary."""
    pattern, special, _ = PUBLISHED[name]
    return tiktoken.Encoding(name, pat_str=PATTERNS[pattern], mergeable_ranks=ranks(name), special_tokens=special)


def encoder_of(model, *, pattern=None, cache_bytes=1 << 20, whole=None) -> kernel.BpeEncoder:
    """The kernel's encoder of a model, in the implementation in use."""
    table = model.merge_table
    return kernel.BpeEncoder(
        pattern,
        make_texts_from_strings(model.tokens),
        model.ids,
        table.left,
        table.right,
        table.result,
        table.priority,
        model.whole if whole is None else whole,
        cache_bytes,
    )


def spec_of_merges(merges, pattern, normalizer, special) -> TokenizerSpec:
    """The spec that learning these merges would make: (left, right, count) as learn_bpe returns them."""
    model = LearnedModel.from_merges(merges)
    return make_learned_spec(model, pattern, normalizer, special)


ALPHABETS = (b"ab", b"abc ", bytes(range(97, 110)), "aé中 ".encode(), b"\x00\x80\xff")


def words(alphabet: bytes, max_size: int = 12):
    return st.lists(st.sampled_from(alphabet), max_size=max_size).map(bytes)


@st.composite
def learned_models(draw) -> LearnedModel:
    """Learned from a few random words: ties and runs everywhere."""
    alphabet = draw(st.sampled_from(ALPHABETS))
    rows = sorted(draw(st.sets(words(alphabet).filter(bool), min_size=1, max_size=12)))
    counts = np.array(draw(st.lists(st.integers(1, 5), min_size=len(rows), max_size=len(rows))), np.uint64)
    with kernel.force("reference"):
        left, right, _ = kernel.learn_merges(make_texts_from_strings(rows), counts, draw(st.integers(0, 40)), 1)
    return LearnedModel(np.stack([left, right], axis=1).reshape(-1, 2))


@st.composite
def merges_models(draw) -> MergesModel:
    """Merges of random pairs in random order: unreachable tokens, several merges to one token, ids in disorder."""
    alphabet = draw(st.sampled_from(ALPHABETS))
    tokens = [bytes([byte]) for byte in range(256)]
    symbols = sorted({bytes([byte]) for byte in alphabet})
    pairs = []
    for _ in range(draw(st.integers(0, 20))):
        left, right = draw(st.sampled_from(symbols)), draw(st.sampled_from(symbols))
        if (left, right) in pairs or len(left + right) > 30:
            continue
        pairs.append((left, right))
        if left + right not in tokens:
            tokens.append(left + right)
            symbols.append(left + right)
    ids = np.array(draw(st.permutations(range(len(tokens)))), np.int32) * draw(st.sampled_from([1, 7, 10**6]))
    id_of = dict(zip(tokens, ids.tolist(), strict=True))
    pairs = draw(st.permutations(pairs))
    order = np.argsort(ids)
    return MergesModel(
        tuple(tokens[i] for i in order),
        ids[order],
        np.array([(id_of[a], id_of[b]) for a, b in pairs], np.int32).reshape(-1, 2),
        draw(st.booleans()),
    )


@st.composite
def ranks_models(draw) -> RanksModel:
    """Any tokens at any rank, most of which no merge reaches."""
    alphabet = draw(st.sampled_from(ALPHABETS))
    longer = draw(st.lists(words(alphabet, 6).filter(lambda word: len(word) > 1), max_size=30, unique=True))
    tokens = (*(bytes([byte]) for byte in BYTE_OF_ID), *longer)
    return RanksModel(tokens, np.arange(len(tokens), dtype=np.int32))


def models():
    return st.one_of(learned_models(), merges_models(), ranks_models())


@st.composite
def pieces_for(draw, model, max_size: int = 30) -> list[bytes]:
    """Pre-tokens made of a model's own tokens and other bytes: they reach merges that text never does."""
    longer = model.tokens if len(model.tokens) == 256 else [token for token in model.tokens if len(token) > 1]
    part = st.one_of(
        st.sampled_from(longer),
        st.tuples(st.sampled_from(longer), st.integers(2, 30)).map(lambda pair: pair[0] * pair[1]),
        st.sampled_from(model.tokens),
        st.binary(min_size=1, max_size=4),
    )
    piece = st.lists(part, min_size=1, max_size=8).map(b"".join)
    return draw(st.lists(piece, max_size=max_size))
