"""Learning WordPiece: native == reference == Hugging Face's trainer where no tie decides; ids of special tokens."""

from __future__ import annotations

import functools
import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from support.examples import seeds

from tokcore import _native, kernel
from tokcore.count.counting import count_pretokens
from tokcore.errors import LearnError
from tokcore.models import MODELS, LearnOptions
from tokcore.models.wordpiece.longest_match import WordpieceModel
from tokcore.reference import reference
from tokcore.text.normalize import Normalizer
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, make_learned_spec

ALL = kernel.list_available()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

words = st.text(st.sampled_from("ab#é日 \n"), max_size=8).map(str.encode) | st.binary(max_size=4)
tables = st.dictionaries(words, st.integers(0, 6), max_size=14)


def table_of(counts: Mapping[bytes, int]):
    return make_texts_from_strings(list(counts)), np.array([*counts.values()], np.uint64)


def merged(name: str, counts: Mapping[bytes, int], num_tokens: int, **options):
    with kernel.force(name):
        found = kernel.learn_characters(*table_of(counts), num_tokens, **{"min_count": 1} | options)
    return [column.tolist() for column in found]


@given(tables, st.integers(0, 40), st.integers(0, 3), st.sampled_from([0, 0, 2, 4]), st.booleans())
def test_native_equals_reference(counts, num_tokens, least, longest, by_score):
    options = {"min_count": least, "max_token_bytes": longest, "by_score": by_score}
    assert merged(ALL[0], counts, num_tokens, **options) == merged("reference", counts, num_tokens, **options)


long_words = st.lists(st.sampled_from(["a", "b", "éé", "日aa", "c" * 60]), min_size=60, max_size=200).map("".join)


@given(
    st.lists(long_words | st.text("abc", max_size=6), max_size=4),
    st.integers(1, 3),
    st.sampled_from([1, 4, 12, 65536]),
    st.booleans(),
)
def test_threads_long_words_and_wide_symbols_change_nothing(parts, threads, narrow, by_score):
    batch = make_texts_from_strings([part.encode() for part in parts])
    counts = np.arange(1, len(parts) + 1, dtype=np.uint64)
    done = np.zeros(1, np.int64)
    expected = reference.learn_characters(*batch, counts, 30, 1, 0, 1, by_score, done.copy())
    settings = {"min_parallel_units": 0, "max_narrow_ids": narrow}
    found = _native.learn_characters(batch.data, batch.offsets, counts, 30, 1, 0, threads, by_score, done, **settings)
    assert [column.tolist() for column in found] == [column.tolist() for column in expected]
    assert done[0] == len(found[2])


def test_many_characters_are_counted_without_a_table_of_all_pairs():
    """40,000 characters, 80,000 symbols: a table of all their pairs would take a hundred gigabytes."""
    chance = random.Random(3)
    letters = [chr(0x4E00 + i) for i in range(20_000)] + [chr(0x20000 + i) for i in range(20_000)]
    counts = {"".join(chance.choices(letters, k=3)).encode(): chance.randint(1, 1000) for _ in range(40_000)}
    first, further, left, right, count = merged(ALL[0], counts, 90_000)
    assert len(first) + len(further) > 65_536
    assert len(left) == 90_000 - len(first) - len(further)
    assert count == sorted(count, reverse=True)
    assert min(right) >= len(first)
    assert merged(ALL[0], counts, 90_000, threads=2) == [first, further, left, right, count]


def test_counts_that_do_not_fit_are_refused():
    with pytest.raises(OverflowError):
        merged(ALL[0], {b"ab": 2**63}, 9)
    with pytest.raises(OverflowError):
        merged(ALL[0], {b"a": 2**63}, 9, by_score=True)
    with pytest.raises(LearnError, match="the counts of the table are too large"):
        MODELS["wordpiece"].learn(lambda: table_of({b"ab": 2**63}), LearnOptions(vocab_size=9))


# ----------------------------------------------------------------------------------------------- Hugging Face's trainer


def trained_by_tokenizers(words: Iterable[str], vocab_size: int, least: int) -> dict[str, int]:
    """The vocabulary of their trainer from these words, each as often as it comes."""
    theirs = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.Split("\u2400", "removed")
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=vocab_size, min_frequency=least, special_tokens=SPECIAL, limit_alphabet=10**6, show_progress=False
    )
    theirs.train_from_iterator(["\u2400".join(words)], trainer)
    return theirs.get_vocab()


def learned(counts: Mapping[bytes, int], vocab_size: int, model: str = "wordpiece", least: int = 1) -> WordpieceModel:
    options = LearnOptions(vocab_size=vocab_size, num_special=5, min_count=least)
    found = MODELS[model].learn(lambda: table_of(counts), options)
    assert isinstance(found, WordpieceModel)
    return found


def find_first_tie(counts: Mapping[bytes, int], most: int) -> int:
    """The size of the vocabulary, without special tokens, before the first merge that a tie decides."""
    texts, of_texts = table_of(counts)
    rows = reference.list_character_words(*texts, of_texts)
    symbols = {symbol for word, _ in rows for symbol in word}
    size = len({character for _, character in symbols} | {symbol for symbol in symbols if symbol[0]})
    number = {symbol: i for i, symbol in enumerate(sorted(symbols))}
    words = [([number[symbol] for symbol in word], count) for word, count in rows]
    for merges in range(most):
        best = reference.count_pairs(words).most_common(2)
        if not best or (len(best) == 2 and best[0][1] == best[1][1]):
            return size + merges
        words = [(reference.merge(word, best[0][0], 1000 + merges), count) for word, count in words]
    return size + most


@pytest.mark.parametrize("seed", seeds())
def test_the_vocabulary_is_theirs_until_a_tie(seed):
    chance = random.Random(seed)
    letters = chance.choice(["ab", "abcdef", "aé日x", "etaoinshrdlu"])
    counts = {
        "".join(chance.choices(letters, k=chance.randint(1, 12))).encode(): chance.randint(1, 3000) for _ in range(12)
    }
    size = 5 + find_first_tie(counts, 40)
    theirs = trained_by_tokenizers([w.decode() for w, count in counts.items() for _ in range(count)], size, 0)
    assert {*learned(counts, size).names, *SPECIAL} == theirs.keys()
    assert len(theirs) == size


@functools.cache
def demo_counts() -> dict[bytes, int]:
    """The words of the demo, as BERT normalizes and splits them."""
    files = sorted((Path(__file__).parents[2] / "deploy" / "demo" / "data").glob("*/*.jsonl.zst"))
    data = b"\n".join(zstandard.ZstdDecompressor().stream_reader(file.read_bytes()).read() for file in files)
    texts = [json.loads(line)["text"] for line in data.split(b"\n") if line]
    table = count_pretokens([*map(Normalizer(["bert"]).apply_str, texts)], "bert")
    return dict(zip(table["pretoken"].to_pylist(), table["count"].to_pylist(), strict=True))


def learn_in_other_order(counts: Mapping[bytes, int], vocab_size: int, seed: int) -> set[str]:
    """The vocabulary with ties decided otherwise: characters change places, and back when it is learned."""
    letters = sorted({c for word in counts for c in word.decode() if not c.isspace() and c != "#"})
    mixed = random.Random(seed).sample(letters, len(letters))
    there, back = (
        str.maketrans(dict(zip(letters, mixed, strict=True))),
        str.maketrans(dict(zip(mixed, letters, strict=True))),
    )
    found = learned({word.decode().translate(there).encode(): count for word, count in counts.items()}, vocab_size)
    return {name.translate(back) for name in found.names}


def test_the_vocabulary_of_real_text_is_theirs_where_no_tie_decides():
    """Where a tie decides, other orders of ids give other vocabularies."""
    counts = demo_counts()
    words = Counter({word.decode(): count for word, count in counts.items() if not word.isspace()})
    first, further, _, _, found = merged(ALL[0], counts, 8_000)
    least = 5 + len(first) + len(further)
    # Sizes that part merges of equal count are decided by ties for sure.
    sizes = [least + i for i in range(100, len(found)) if found[i - 1] > found[i]]
    decided = []
    for size in sizes[:: len(sizes) // 10]:
        ours = {*learned(counts, size).names}
        if all(learn_in_other_order(counts, size, seed) == ours for seed in range(2)):
            decided.append((size, ours))
    assert len(decided) >= 3
    size, ours = decided[-1]
    assert {*trained_by_tokenizers(words.elements(), size, 0)} == ours | {*SPECIAL}
    theirs = {*trained_by_tokenizers(words.elements(), 5_219, 0)}
    assert len(theirs - {*learned(counts, 5_219).names, *SPECIAL}) < 50  # ties decide about 1 %


# ------------------------------------------------------------------------------------------------------------- examples


@pytest.mark.parametrize("name", ALL)
def test_low_lower_newest_widest(name):
    with kernel.force(name):
        model = learned({b"low": 5, b"lower": 2, b"newest": 6, b"widest": 3}, 5 + 10 + 8 + 8)
    assert model.names[:10] == tuple("deilnorstw")
    assert model.names[10:18] == ("##d", "##e", "##i", "##o", "##r", "##s", "##t", "##w")
    assert model.names[18:] == ("##es", "##est", "lo", "low", "ne", "##west", "newest", "wi")


def test_hug_pug_pun_bun():
    """The course's example. By score ##gs is first; then pu and hu are equal, and p is more frequent beside ##u."""
    counts = {b"hug": 10, b"pug": 5, b"pun": 12, b"bun": 4, b"hugs": 5}
    num_characters = 7 + 4
    by_count = learned(counts, 5 + num_characters + 3)
    by_score = learned(counts, 5 + num_characters + 3, "wordpiece-pmi")
    assert by_count.names[num_characters:] == ("##ug", "##un", "hug")
    assert by_score.names[num_characters:] == ("##gs", "pu", "hu")


def test_a_word_never_begins_like_a_token_that_goes_on():
    """##ab as a word, and ab going on with one, would be spelled alike."""
    model = learned({b"##ab": 9, b"xab": 9, b"##": 2}, 5 + 4 + 3 + 4)
    assert {"##", "##ab", "xab"} <= {*model.names}
    assert len({*model.names}) == len(model.names)
    first = {token for token in model.names if not token.startswith("##") or token == "##"}
    assert first == {"#", "a", "b", "x", "##", "xab"}


@given(st.dictionaries(st.text("abcd", min_size=1, max_size=4), st.integers(2**56 - 9, 2**56 + 9), max_size=8))
def test_scores_are_compared_exactly(counts):
    """Scores that are nearly equal, of counts whose products take more than 128 bits."""
    table = {word.encode(): count for word, count in counts.items()}
    assert merged(ALL[0], table, 20, by_score=True) == merged("reference", table, 20, by_score=True)


def test_ids_are_those_that_special_tokens_leave():
    options = LearnOptions(vocab_size=12, num_special=5, min_count=1, pinned={"[PAD]": 7, "[UNK]": 0})
    model = MODELS["wordpiece"].learn(lambda: table_of({b"abab": 3}), options)
    assert isinstance(model, WordpieceModel)
    assert model.names == ("a", "b", "##a", "##b", "ab", "##ab", "abab")
    assert (model.ids.tolist(), model.unknown) == ([4, 5, 6, 8, 9, 10, 11], 0)
    special = [SpecialToken("[PAD]", 7), SpecialToken("[UNK]", 0, "unknown"), SpecialToken("<x>", None)]
    spec = make_learned_spec(model, {"name": "bert"}, ("bert",), special)
    assert spec.vocab_size == 13
    tokenizer = Tokenizer(spec)
    assert tokenizer.encode("ABAB x").tolist() == [11, 0]
    assert tokenizer.specials == {"[UNK]": 0, "[PAD]": 7, "<x>": 12}


def test_a_vocabulary_smaller_than_its_characters_is_refused():
    with pytest.raises(LearnError, match=r"vocab_size = 8: .* 2 tokens where they begin a word and 2 where .* to 9 or"):
        learned({b"abab": 3}, 8)
    assert learned({b"abab": 3}, 9).names == ("a", "b", "##a", "##b")
    with pytest.raises(LearnError, match="nothing but white space"):
        learned({b" \n": 3}, 90)
