"""The same ids as tiktoken, with published rank files and with exported ones."""

from __future__ import annotations

import base64
import random

import numpy as np
import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from pathological import LINEAR_TEXTS, TEXTS
from support.examples import examples
from support.vocabularies import (
    PUBLISHED,
    learned_models,
    published_encoding,
    published_tokenizer,
    rank_file_bytes,
    ranks,
)

from tokcore.formats.tokenizers.tiktoken import read_rank_file, write_rank_file
from tokcore.text.patterns import PATTERNS
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec

# Characters whose classes, folds or widths decide splits.
TRICKY = (
    "aZzéßſſK'sſStTdDvVeErR’ \t\r\n\u00a0\u0085\u2028\u3000/09٣½Ⅷ"
    "#.,-_中文日あアกखि\u0301\u0345\u200d\u200b👩‍👧🏽\x00\x1c\x7f\u07fd\U000e0001"
)


@st.composite
def texts(draw, name):
    """Text made of a vocabulary's tokens (those that are valid UTF-8), of tricky characters, and of any characters."""
    vocabulary = _strings(name)
    part = st.one_of(
        st.sampled_from(vocabulary),
        st.sampled_from(TRICKY),
        st.text(max_size=4),
        st.sampled_from(TRICKY).flatmap(lambda c: st.integers(2, 60).map(lambda n: c * n)),
    )
    return "".join(draw(st.lists(part, max_size=40)))


def _strings(name, cache={}):  # noqa: B006 - the cache
    if name not in cache:
        decoded = (token.decode("utf-8", "ignore") for token in ranks(name))
        cache[name] = [text for text in decoded if text]
    return cache[name]


@pytest.mark.parametrize("name", PUBLISHED)
@examples(100)
@given(data=st.data())
def test_same_ids(name, data):
    text = data.draw(texts(name))
    ids = published_tokenizer(name).encode(text)
    assert ids.tolist() == published_encoding(name).encode_ordinary(text)
    assert published_tokenizer(name).decode(ids) == text.encode()


@pytest.mark.parametrize("name", PUBLISHED)
def test_same_ids_with_special_tokens(name):
    tokenizer, encoding = published_tokenizer(name), published_encoding(name)
    generator = random.Random(4)
    parts = [*tokenizer.specials, "<|", "|>", "endoftext", " a", "\n\n", "é"]
    for _ in range(200):
        text = "".join(generator.choices(parts, k=8))
        assert tokenizer.encode(text, "all").tolist() == encoding.encode(text, allowed_special="all")
        allowed = set(generator.sample(sorted(tokenizer.specials), 1))
        expected = encoding.encode(text, allowed_special=allowed, disallowed_special=())
        assert tokenizer.encode(text, allowed).tolist() == expected


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_token_alone_and_in_pairs(name):
    """Every token that is text (50,000 of larger vocabularies), after a random other one, so that all merges occur."""
    strings = _strings(name)
    generator = random.Random(5)
    joined = [generator.choice(strings) + text for text in generator.sample(strings, min(50_000, len(strings)))]
    ours = published_tokenizer(name).encode_batch(joined)
    expected = np.concatenate(
        [np.array(ids, np.int32) for ids in published_encoding(name).encode_ordinary_batch(joined)]
    )
    np.testing.assert_array_equal(ours.flatten().to_numpy(), expected)


@pytest.mark.parametrize("case", TEXTS)
@pytest.mark.parametrize("name", ["r50k", "cl100k", "o200k"])
def test_pathological_text(name, case):
    text = TEXTS[case]()
    ids = published_tokenizer(name).encode(text)
    assert ids.tolist() == published_encoding(name).encode_ordinary(text)


@pytest.mark.parametrize("case", LINEAR_TEXTS)
def test_long_pathological_text(case):
    """Where tiktoken gives up or is slow: decoding gives the bytes back, and long runs encode like shorter ones."""
    text = LINEAR_TEXTS[case]()
    tokenizer = published_tokenizer("cl100k")
    assert tokenizer.decode(tokenizer.encode(text)) == text.encode()


def test_many_texts():
    """Tiny and empty texts, one after the other, encode as if each were alone."""
    generator = random.Random(6)
    strings = ["".join(generator.choices("abc é中\n'", k=generator.randint(0, 6))) for _ in range(20000)]
    ours = published_tokenizer("cl100k").encode_batch(strings, threads=2).to_pylist()
    assert ours == published_encoding("cl100k").encode_ordinary_batch(strings)


def test_first_part_of_a_vocabulary_is_a_vocabulary():
    for size in (256, 300, 1000, 20000):
        part = {token: rank for token, rank in ranks("cl100k").items() if rank < size}
        encoding = tiktoken.Encoding("part", pat_str=PATTERNS["cl100k"], mergeable_ranks=part, special_tokens={})
        lines = b"".join(rank_file_bytes("cl100k").splitlines(keepends=True)[:size])
        tokenizer = Tokenizer(read_rank_file(lines, "part", {"name": "cl100k"}))
        for text in ("The quick brown fox", "naïve façade 中文 ---====----", " " * 100, "a" * 500, "xyzzy" * 100):
            assert tokenizer.encode(text).tolist() == encoding.encode_ordinary(text)


@examples(100)
@given(
    model=learned_models(), parts=st.lists(st.sampled_from(["a", "b", "ab", "c", " ", "é", "中", "aaaa"]), max_size=60)
)
def test_exported_ranks_give_the_same_ids(model, parts):
    spec = TokenizerSpec((), {"name": "cl100k"}, model, (SpecialToken("<|end|>", 900),))
    lines = (line.split() for line in write_rank_file(spec).splitlines())
    encoding = tiktoken.Encoding(
        "exported",
        pat_str=PATTERNS["cl100k"],
        mergeable_ranks={base64.b64decode(token): int(rank) for token, rank in lines},
        special_tokens={"<|end|>": 900},
    )
    text = "".join(parts)
    assert Tokenizer(spec).encode(text).tolist() == encoding.encode_ordinary(text)
