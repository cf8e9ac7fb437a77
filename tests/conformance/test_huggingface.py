"""The same ids as Hugging Face's tokenizers, through the tokenizer.json that we write."""

from __future__ import annotations

import functools

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from pathological import TEXTS
from support.examples import examples
from support.vocabularies import PUBLISHED, learned_models, merges_models, published_tokenizer
from test_tiktoken import TRICKY, texts

from tokcore.formats.tokenizers.gpt2 import write_vocabulary_files
from tokcore.formats.tokenizers.huggingface import read_tokenizer_json, write_tokenizer_json
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec

# Hugging Face's engine needs minutes for these.
SLOW = {"spaces-50k", "spaces-50k-x", "newlines-50k", "white-space"}


def theirs_of(spec: TokenizerSpec) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_str(write_tokenizer_json(spec).decode())


@functools.cache
def published(name: str) -> tokenizers.Tokenizer:
    return theirs_of(published_tokenizer(name).spec)


def ordinary_ids(theirs: tokenizers.Tokenizer, text: str) -> list[int]:
    theirs.encode_special_tokens = True  # means: as ordinary text
    try:
        return theirs.encode(text, add_special_tokens=False).ids
    finally:
        theirs.encode_special_tokens = False


@pytest.mark.parametrize("name", PUBLISHED)
@examples(40)
@given(data=st.data())
def test_same_ids(name, data):
    text = data.draw(texts(name))
    assert published_tokenizer(name).encode(text).tolist() == ordinary_ids(published(name), text)


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("case", sorted(TEXTS.keys() - SLOW))
def test_pathological_text(name, case):
    text = TEXTS[case]()[:20_000]
    assert published_tokenizer(name).encode(text).tolist() == ordinary_ids(published(name), text)


@examples(40)
@given(
    model=st.one_of(learned_models(), merges_models()),
    pattern=st.sampled_from(["gpt2", "cl100k", "cl100k-2023", "o200k", "llama3", "qwen2", "nanochat", "tekken"]),
    text=st.lists(st.sampled_from([*TRICKY, "a", "b", "ab", "aaaa", " ab", "<|end|>", "<|é|>"]), max_size=60).map(
        "".join
    ),
)
def test_exported_tokenizers_give_the_same_ids(model, pattern, text):
    highest = int(model.ids.max())
    special = (SpecialToken("<|end|>", highest + 1), SpecialToken("<|é|>", highest + 50))
    spec = TokenizerSpec((), {"name": pattern}, model, special)
    ours, theirs = Tokenizer(spec), theirs_of(spec)
    assert ours.encode(text).tolist() == ordinary_ids(theirs, text)
    with_special = ours.encode(text, "all").tolist()
    assert with_special == theirs.encode(text).ids
    assert theirs.decode(ours.encode(text).tolist()) == text
    assert theirs.token_to_id("<|é|>") == highest + 50


@examples(40)
@given(
    model=learned_models(),
    steps=st.lists(st.sampled_from(["nfc", "nfd", "nfkc", "nfkd", "lowercase"]), min_size=1, max_size=2),
    text=st.text(max_size=30),
)
def test_normalizers(model, steps, text):
    spec = TokenizerSpec(tuple(steps), {"name": "gpt2"}, model)
    assert Tokenizer(spec).encode(text).tolist() == ordinary_ids(theirs_of(spec), text)


def test_a_trained_tokenizer_imports():
    """A tokenizer that their trainer made has the same ids after import, even where its ids are not in our order."""
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<|endoftext|>", "<|pad|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    corpus = [
        TEXTS["contractions"](),
        TEXTS["one-line-of-code"]()[:20_000],
        "hello world, hello words; don't 123 " * 50,
    ]
    theirs.train_from_iterator(corpus, trainer)
    ours = Tokenizer(read_tokenizer_json(theirs.to_str().encode(), "trained"))
    assert ours.specials == {"<|endoftext|>": 0, "<|pad|>": 1}
    for text in [*corpus, "hello hello<|pad|>hello'll <|endoftext|>", "ünïcödé 中文"]:
        assert ours.encode(text).tolist() == ordinary_ids(theirs, text)
        assert ours.encode(text, "all").tolist() == theirs.encode(text).ids


def test_vocabulary_and_merges_files(tmp_path):
    """vocab.json and merges.txt, read by their own reader."""
    spec = published_tokenizer("r50k").spec
    for name, content in write_vocabulary_files(spec):
        (tmp_path / name).write_bytes(content)
    model = tokenizers.models.BPE.from_file(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    theirs = tokenizers.Tokenizer(model)
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    for text in ("The quick brown fox", TEXTS["contractions"](), TEXTS["all-planes"]()[:5000]):
        assert theirs.encode(text).ids == published_tokenizer("r50k").encode(text).tolist()
