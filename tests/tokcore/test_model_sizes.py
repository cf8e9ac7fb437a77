"""Models of several sizes from the same rows: a shortened model is the one that is learned for its size."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tokcore.errors import LearnError
from tokcore.models import MODELS, LearnOptions
from tokcore.text.texts import make_texts_from_strings

WORDS = ["low", "lower", "newest", "widest", "the", "there", "a##b", "##", "#", "###", "ж", "жж", "的", "lowlow"]
ROWS = (make_texts_from_strings(WORDS), np.arange(3, 3 + len(WORDS), dtype=np.uint64))


@pytest.mark.parametrize(
    ("name", "special", "sizes"),
    [
        ("bpe", {}, (256, 257, 262, 270)),
        ("bpe", {"<x>": 300}, (257, 260, 268)),
        ("wordpiece", dict.fromkeys(MODELS["wordpiece"].own_special), (45, 50, 52, 60)),
        ("wordpiece", {**dict.fromkeys(MODELS["wordpiece"].own_special), "[UNK]": 30}, (45, 60)),
        ("wordpiece-pmi", dict.fromkeys(MODELS["wordpiece-pmi"].own_special), (45, 55, 60)),
    ],
)
def test_a_shortened_model_is_the_one_learned_for_its_size(name, special, sizes):
    pinned = {text: id for text, id in special.items() if id is not None}
    options = LearnOptions(vocab_size=max(sizes), num_special=len(special), min_count=1, pinned=pinned)
    model_type = MODELS[name]
    largest = model_type.learn(lambda: ROWS, options)
    for size in sizes:
        of_size = dataclasses.replace(options, vocab_size=size)
        short, learned = model_type.shorten(largest, of_size), model_type.learn(lambda: ROWS, of_size)
        assert short.functional() == learned.functional()
        assert short.informative() == learned.informative()
        assert len(short.tokens) == min(size - len(special), len(largest.tokens))


def test_a_size_without_room_for_the_characters_is_refused():
    model_type = MODELS["wordpiece"]
    options = LearnOptions(vocab_size=60, num_special=5, min_count=1)
    largest = model_type.learn(lambda: ROWS, options)
    small = dataclasses.replace(options, vocab_size=20)
    with pytest.raises(LearnError) as learned:
        model_type.learn(lambda: ROWS, small)
    with pytest.raises(LearnError) as shortened:
        model_type.shorten(largest, small)
    assert str(learned.value) == str(shortened.value)


@pytest.mark.parametrize("name", ["byte", "codepoint", "character", "word", "unigram", "sentencepiece-bpe"])
def test_others_are_learned_for_each_size(name):
    assert MODELS[name].shorten(None, LearnOptions(vocab_size=300)) is None
