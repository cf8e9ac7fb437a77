"""Learning where words end: equal to ten obvious lines, to Hugging Face's trainer where no tie decides, and in use."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from support.examples import seeds
from support.published_shapes import PRE_TOKENIZERS

import tokcore
from tokcore.errors import ConfigError, LearnError
from tokcore.formats.tokenizers.huggingface import read_tokenizer_json, write_tokenizer_json
from tokcore.models import MODELS, LearnOptions
from tokcore.models.symbol_bpe import SymbolBpeModel
from tokcore.text.byte_alphabet import BYTE_OF_ID, to_printable
from tokcore.text.split_steps import StepList
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, make_learned_spec

END = "</w>"
CLIP = {"steps": StepList(PRE_TOKENIZERS["clip"]).text}

words = st.text(st.sampled_from("ab é日"), max_size=8).map(str.encode) | st.binary(max_size=4)
tables = st.dictionaries(words, st.integers(0, 6), max_size=14).filter(lambda table: any(table))


def learned(counts: Mapping[bytes, int], num_merges: int, **options: Any) -> SymbolBpeModel:
    rows = make_texts_from_strings(list(counts)), np.array([*counts.values()], np.uint64)
    settings = {"min_count": 1, "end_of_word": END} | options
    model = MODELS["bpe"].learn(lambda: rows, LearnOptions(vocab_size=512 + num_merges, **settings))
    assert isinstance(model, SymbolBpeModel)
    return model


def list_merges(model: SymbolBpeModel) -> list[tuple[str, str]]:
    return [(model.names[left], model.names[right]) for left, right in model.merges.tolist()]


def learned_slowly(counts: Mapping[bytes, int], num_merges: int) -> tuple[list[tuple[str, str]], int]:
    """(merges, as names; how many of them no tie decided before)."""
    names = [to_printable(BYTE_OF_ID[i : i + 1]) for i in range(256)]
    names += [name + END for name in names]
    number = {name: i for i, name in enumerate(names)}
    spelled = [([*to_printable(word)], count) for word, count in counts.items() if word]
    texts = [([*word[:-1], word[-1] + END], count) for word, count in spelled]
    merges: list[tuple[str, str]] = []
    before_tie = None
    while len(merges) < num_merges:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in texts:
            for pair in itertools.pairwise(word):
                pairs[pair] += count
        best = sorted(pairs.items(), key=lambda one: (-one[1], number[one[0][0]], number[one[0][1]]))[:2]
        if not best or best[0][1] == 0:
            break
        if before_tie is None and len(best) == 2 and best[0][1] == best[1][1]:
            before_tie = len(merges)
        merges.append(best[0][0])
        number["".join(best[0][0])] = len(number)
        texts = [(merged(word, best[0][0]), count) for word, count in texts]
    return merges, len(merges) if before_tie is None else before_tie


def merged(word: list[str], pair: tuple[str, str]) -> list[str]:
    out: list[str] = []
    for name in word:
        out.append(name)
        if tuple(out[-2:]) == pair and len(out) > 1:
            out[-2:] = ["".join(pair)]
            out.append("")  # what was merged is no left half
    return [name for name in out if name]


@given(tables, st.integers(0, 12))
def test_merges_are_those_of_the_definition(counts, num_merges):
    assert list_merges(learned(counts, num_merges)) == learned_slowly(counts, num_merges)[0]


@pytest.mark.parametrize("seed", seeds())
def test_merges_are_those_of_tokenizers_until_a_tie(seed):
    chance = random.Random(seed)
    letters = chance.choice(["ab", "abcdef", "aé日x", "etaoinshrdlu"])
    counts = {
        "".join(chance.choices(letters, k=chance.randint(1, 12))).encode(): chance.randint(1, 3000) for _ in range(12)
    }
    merges, num = learned_slowly(counts, 40)
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE(end_of_word_suffix=END))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Split("\u2400", "removed"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    ends = {word[-1:] for word in counts}
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=256 + len(ends) + num,
        end_of_word_suffix=END,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    text = "\u2400".join("\u2400".join([word.decode()] * count) for word, count in counts.items())
    theirs.train_from_iterator([text], trainer)
    found = [tuple(pair) for pair in json.loads(theirs.to_str())["model"]["merges"]]
    assert found == merges[:num] == list_merges(learned(counts, num))


@given(tables, st.integers(0, 12), st.integers(0, 12), st.sampled_from([0, 2, 3]))
def test_a_smaller_size_is_the_beginning(counts, small, more, longest):
    large = learned(counts, small + more, max_token_bytes=longest)
    options = LearnOptions(vocab_size=512 + small, min_count=1, max_token_bytes=longest, end_of_word=END)
    short = MODELS["bpe"].shorten(large, options)
    assert short is not None
    assert short.functional() == learned(counts, small, max_token_bytes=longest).functional()
    assert all(not longest or size <= longest for size in large.sizes.tolist())


TEXTS = ["low lower lowest, newest wider", "Der Weg, é日本 12", "don't </w> x</w>", ""]


@pytest.mark.parametrize("pattern", [{"name": "gpt2"}, {"name": "cl100k"}, {"regex": r"\S+|\s+"}, CLIP])
def test_exported_and_loaded_by_tokenizers(pattern, tmp_path):
    counts = {b"low": 9, b" low": 7, b" lower": 5, b"lowest": 4, b"newest": 6, "é日".encode(): 3}
    special = [SpecialToken("<|end|>", None, "document_end")]
    spec = make_learned_spec(learned(counts, 14), pattern, ("nfc",), special)
    ours = Tokenizer(spec)
    data = write_tokenizer_json(spec)
    theirs = tokenizers.Tokenizer.from_str(data.decode())
    chance = random.Random(4)
    texts = TEXTS + ["".join(chance.choices("low est\n\u00a0é日5'<", k=30)) for _ in range(200)]
    assert ours.encode_batch(texts).to_pylist() == [one.ids for one in theirs.encode_batch(texts)]
    assert theirs.token_to_id("<|end|>") == 526
    assert [theirs.decode(ids) for ids in ours.encode_batch(texts).to_pylist()] == ours.decode_batch(
        ours.encode_batch(texts), errors="replace"
    )
    assert Tokenizer(read_tokenizer_json(data, "x")) == ours
    ours.save(tmp_path / "tokcore.json")
    assert Tokenizer.load(tmp_path / "tokcore.json") == ours


def test_a_blank_follows_each_word_but_the_last():
    tokenizer = Tokenizer(make_learned_spec(learned({b"low": 9, b"lowest": 4}, 3), CLIP, (), []))
    assert not tokenizer.lossless
    assert tokenizer.decode(tokenizer.encode("  lower\n lowest.")) == b"lower lowest ."


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocab_size": 512}, r"vocab_size = 512: must be at least 513 \(512 for bytes, 1 for special"),
        ({"end_of_word": "_"}, "end_of_word = '_': is the name of a byte"),
        ({"end_of_word": "a b"}, "end_of_word = 'a b': has white space"),
        ({"model": "wordpiece"}, "end_of_word = '</w>': is for bpe, and model is wordpiece"),
    ],
)
def test_what_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        tokcore.Tokenizer.train(TEXTS, **({"vocab_size": 600, "end_of_word": END} | settings))


def test_text_that_spells_the_suffix_within_a_word():
    """Its token would be read as one that ends a word. A suffix of other characters than those of bytes never is."""
    counts = {b"</w>x": 5, b"</w>y": 7}
    with pytest.raises(LearnError, match=r"learn.end_of_word = '</w>': the text spells it, and '</w>' became a token"):
        learned(counts, 5)
    assert learned(counts, 5, end_of_word="⟨/w⟩").names[-3:] == ("</w>", "</w>y⟨/w⟩", "</w>x⟨/w⟩")


def test_counts_and_text_that_cannot_be_learned_from():
    with pytest.raises(LearnError, match="the counts of the table are too large"):
        learned({b"ab": 2**63}, 5)
    with pytest.raises(LearnError, match="there is nothing to learn from"):
        learned({b"": 3}, 5)
