"""Normalizers of tokenizer.json that have settings: equal to tokenizers, and refused by name."""

from __future__ import annotations

import functools
import json

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.sentencepiece_models import make_tokenizer_json, train

from tokcore.errors import ConfigError
from tokcore.formats.tokenizers.huggingface import read_tokenizer_json, write_tokenizer_json
from tokcore.text.normalize import Normalizer
from tokcore.text.normalizer_steps import STEPS, make_step, spell_step
from tokcore.tokenizer.tokenizer import Tokenizer

CHARACTERS = "ab \t\n\r\x00\x01\x0b\x1f\x7f\x85\x8f\x9f\u00a0\u1680\u2000\u200b\u200f\u2028\u2581\u3000\ufeff\ufffdéA"
CHARACTERS += "ﬁ①\u0301\u1cf2\u0897"
text_of = st.text(st.sampled_from(CHARACTERS), max_size=20)

NORMALIZERS = [
    {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
    {"type": "Replace", "pattern": {"Regex": r"[a ]{2,}|\p{Lu}"}, "content": r"\1é"},
    {"type": "Replace", "pattern": {"String": "ab"}, "content": "ba"},
    {"type": "Prepend", "prepend": "▁"},
    *[{"type": "Strip", "strip_left": left, "strip_right": right} for left in (True, False) for right in (True, False)],
    {"type": "Nmt"},
    {"type": "StripAccents"},
    make_tokenizer_json("unigram", train("unigram", "plain"), ["Precompiled"], None)["normalizer"]["normalizers"][0],
]


@functools.cache
def theirs_of(normalizer: str) -> tokenizers.Tokenizer:
    """Their tokenizer of bytes, with this normalizer."""
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=260, initial_alphabet=alphabet, show_progress=False)
    trained.train_from_iterator(["aab ba"] * 9, trainer)
    return tokenizers.Tokenizer.from_str(
        json.dumps(json.loads(trained.to_str()) | {"normalizer": json.loads(normalizer)})
    )


@pytest.mark.parametrize("normalizer", NORMALIZERS, ids=lambda one: json.dumps(one)[:80])
@given(text_of)
@examples(40)
def test_a_step_does_what_theirs_does(normalizer, text):
    theirs = theirs_of(json.dumps(normalizer)).normalizer.normalize_str(text)
    assert Normalizer([spell_step(normalizer)]).apply_str(text) == theirs


def test_sequences_are_read_and_written_back():
    """CLIP's normalizer, and all others one after the other."""
    clip = [{"type": "NFC"}, NORMALIZERS[0], {"type": "Lowercase"}]
    for listed in (clip, NORMALIZERS, NORMALIZERS[-1:]):
        theirs = theirs_of(json.dumps({"type": "Sequence", "normalizers": listed}))
        spec = read_tokenizer_json(theirs.to_str().encode(), "x")
        exported = write_tokenizer_json(spec)
        assert read_tokenizer_json(exported, "x") == spec
        for text in ("  A  b\u200bE\u0301ab\t", "", " ", "aab"):
            ids = theirs.encode(text).ids
            assert Tokenizer(spec).encode(text).tolist() == ids
            assert tokenizers.Tokenizer.from_str(exported.decode()).encode(text).ids == ids
            assert Tokenizer(spec).decode(ids) == Tokenizer(spec).normalized(text.encode())


def test_every_kind_is_tried():
    assert {one["type"] for one in NORMALIZERS} == set(STEPS)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("{", "is not JSON"),
        ('{"type":"Other"}', "normalizer 'Other' is not supported: only Replace, Prepend"),
        ('{"type": "Nmt"}', "canonical form"),
        ('{"content":"","pattern":{"Regex":"("},"type":"Replace"}', "is not closed"),
        ('{"content":5,"pattern":{"Regex":"a"},"type":"Replace"}', "content = 5: expected a str"),
        ('{"precompiled_charsmap":"?","type":"Precompiled"}', "precompiled_charsmap is not base64"),
        ('{"precompiled_charsmap":"AAAA","type":"Precompiled"}', "precompiled_charsmap is damaged"),
        ('{"strip_left":1,"strip_right":true,"type":"Strip"}', "strip_left = 1: expected a bool"),
    ],
)
def test_other_names_are_refused(name, message):
    with pytest.raises(ConfigError, match=message):
        make_step(name)
    with pytest.raises(ConfigError, match=message):
        Normalizer([name])
