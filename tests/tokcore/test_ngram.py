"""Bits per byte of the n-gram model: as in plain Python, as probabilities must be, the same for any threads."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.sentencepiece_models import demo_texts

from tokcore import Tokenizer, kernel
from tokcore.evaluate.ngram import (
    CONTEXT_BYTES,
    ORDER,
    average,
    compare_predictability,
    cut_tokens,
    draw_texts,
    estimate_ratio,
    measure_tokens,
    predict,
)
from tokcore.reference.arrays import join_ids
from tokcore.tokenizer.encoded_batch import Encoded


class Case(NamedTuple):
    learned: list[list[int]]
    predicted: list[list[int]]
    lengths: list[int]
    order: int
    context_bytes: int

    def bits(self, implementation: str = "portable") -> tuple[np.ndarray, np.ndarray]:
        ids, offsets = join_ids([*self.learned, *self.predicted])
        lengths = np.array(self.lengths, np.int32)
        with kernel.force(implementation):
            return kernel.predict_by_ngrams(ids, offsets, len(self.learned), lengths, self.order, self.context_bytes)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    num_tokens = draw(st.integers(1, 6))
    documents = st.lists(st.lists(st.integers(0, num_tokens - 1), max_size=25), max_size=6)
    lengths = draw(st.lists(st.integers(0, 4), min_size=num_tokens, max_size=num_tokens))
    return Case(draw(documents), draw(documents), lengths, draw(st.integers(1, 6)), draw(st.integers(0, 9)))


@examples(300)
@given(cases())
def test_the_kernel_predicts_what_its_slow_twin_predicts(case):
    (bits, contexts), (slow_bits, slow_contexts) = case.bits(), case.bits("reference")
    assert np.allclose(bits, slow_bits, rtol=0, atol=1e-9)
    assert contexts.tolist() == slow_contexts.tolist()


def test_discounts_are_estimated_as_chen_and_goodman_do():
    """40, 20, 10 and 5 tokens with counts of 1 to 4: Y = 1/2, D = 1/2, 5/4, 2; 150 tokens and 20 * 4 in all."""
    counts = [1] * 40 + [2] * 20 + [3] * 10 + [4] * 5
    learned = [[token] * count for token, count in enumerate(counts)]
    total = sum(counts)
    rest = (40 * 0.5 + 20 * 1.25 + 15 * 2) / len(counts) / total
    for token, kept in ((0, 1 - 0.5), (40, 2 - 1.25), (60, 3 - 2), (70, 4 - 2)):
        (bits,), _ = Case(learned, [[token]], [1] * len(counts), 1, 0).bits()
        assert bits == pytest.approx(-math.log2(kept / total + rest), abs=1e-12)


@examples(100)
@given(cases(), st.data())
def test_probabilities_of_all_tokens_add_up_to_one(case, data):
    begin = data.draw(st.lists(st.integers(0, len(case.lengths) - 1), max_size=9))
    begun = [[*begin, token] for token in range(len(case.lengths))]
    bits, _ = case._replace(predicted=[begin, *begun]).bits()
    assert math.fsum(2 ** (bits[0] - bits[1:])) == pytest.approx(1, abs=1e-9)


def test_of_what_was_never_seen_each_token_is_as_likely():
    (bits,), _ = Case([], [[0, 1, 2, 3]], [1] * 8, 5, 99).bits()
    assert bits == pytest.approx(4 * 3, abs=1e-12)


@examples(50)
@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_what_was_learned_changes_no_bit(case, random):
    shuffled = case._replace(learned=random.sample(case.learned, len(case.learned)))
    assert [one.tolist() for one in shuffled.bits()] == [one.tolist() for one in case.bits()]


def test_tokens_before_the_last_bytes_change_nothing():
    learned = [[0, 1, 2, 3], [4, 1, 2, 5], [0, 1, 2, 3], [1, 2, 4]]
    for context_bytes, is_seen in ((5, False), (6, True)):
        case = Case(learned, [[0, 1, 2], [0, 1, 2, 3], [4, 1, 2], [4, 1, 2, 3]], [2] * 6, 6, context_bytes)
        bits, _ = case.bits()
        assert (bits[1] - bits[0] != pytest.approx(bits[3] - bits[2])) == is_seen


def test_a_document_begins_where_the_one_before_it_did_not_end():
    learned = [[0], [1], [0], [1], [0, 2], [0, 2]]
    case = Case(learned, [[0], [0, 1], [0, 2]], [1] * 3, 3, 9)
    bits, _ = case.bits()
    assert bits[2] - bits[0] < 1 < bits[1] - bits[0]  # 1 never comes after 0 in a document


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learned": [[3]]}, r"ids\[0\] = 3: expected 0 to 3, excluded"),
        ({"learned": [[-1]]}, r"ids\[0\] = -1"),
        ({"lengths": [1, -1, 1]}, r"lengths\[1\] is negative"),
        ({"order": 0}, "order = 0: expected 1 to 16"),
        ({"order": 17}, "order = 17: expected 1 to 16"),
    ],
)
def test_what_is_no_such_model_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Case([[0]], [[0]], [1, 1, 1], 2, 1)._replace(**changes).bits()


# ---------------------------------------------------------------------------------------------------------- tokenizers


@pytest.fixture(scope="module")
def texts() -> tuple[dict[str, list[bytes]], dict[str, list[bytes]]]:
    all_texts = [text.encode() for text in demo_texts()]
    return {"a": all_texts[0::4], "b": all_texts[1::4]}, {"a": all_texts[2:40:4], "b": all_texts[3:40:4]}


@pytest.fixture(scope="module")
def tokenizers(texts) -> dict[str, Tokenizer]:
    learned = [text.decode() for of in texts[0].values() for text in of]
    return {
        "bytes": Tokenizer.train(learned, vocab_size=257, allow_smaller=True),
        "words": Tokenizer.train(learned, vocab_size=2000, special=["<|end|>"]),
    }


def test_bits_per_byte_are_those_of_the_definition(texts, tokenizers):
    told = compare_predictability(tokenizers, *texts, threads=2)
    for name, tokenizer in tokenizers.items():
        for lang in "ab":
            learned, predicted = (sorted_by_hash(of[lang]) for of in texts)
            documents = [tokenizer.encode(text).tolist() for text in (*learned, *predicted)]
            one = told[name][lang].equal_data
            assert one.learned_tokens == sum(map(len, documents[: len(learned)]))
            assert one.num_tokens == sum(map(len, documents[len(learned) :]))
            assert one.sizes_bytes.tolist() == [*map(len, predicted)]
            lengths = [len(tokenizer.token_bytes(id)) for id in range(tokenizer.vocab_size)]
            case = Case(documents[: len(learned)], documents[len(learned) :], lengths, ORDER, CONTEXT_BYTES)
            bits, contexts = case.bits()
            assert one.bits.tolist() == bits.tolist()
            assert one.bits_per_byte.value == pytest.approx(sum(bits) / sum(map(len, predicted)))
            assert one.mean_context_bytes == pytest.approx(sum(contexts.tolist()) / one.num_tokens)
            assert one.mean_context_bytes < CONTEXT_BYTES


def sorted_by_hash(of: list[bytes]) -> list[bytes]:
    drawn = draw_texts(of, 10**9)
    assert sorted(drawn) == sorted(filter(None, of))
    return drawn


def test_equal_tokens_are_those_of_the_tokenizer_that_needs_the_fewest(texts, tokenizers):
    told = compare_predictability(tokenizers, *texts)
    for lang in "ab":
        by_words, by_bytes = told["words"][lang], told["bytes"][lang]
        assert by_bytes.equal_tokens.learned_tokens == by_words.equal_data.learned_tokens
        assert by_words.equal_tokens.bits.tolist() == by_words.equal_data.bits.tolist()
        assert by_bytes.equal_tokens.bits_per_byte.value > by_bytes.equal_data.bits_per_byte.value


def test_threads_and_the_order_of_texts_change_nothing(texts, tokenizers):
    told = compare_predictability(tokenizers, *texts)
    turned = [{lang: of[lang][::-1] for lang in "ba"} for of in texts]
    again = compare_predictability(tokenizers, *turned, threads=3)
    for name in tokenizers:
        for lang in "ab":
            for one, other in zip(told[name][lang], again[name][lang], strict=True):
                assert one.bits.tolist() == other.bits.tolist()


def test_languages_without_text_are_refused(tokenizers):
    with pytest.raises(ValueError, match=r"languages \['b'\]: expected text to learn from and to predict of each"):
        compare_predictability(tokenizers, {"a": [b"x"], "b": [b"x"]}, {"a": [b"y"]})
    with pytest.raises(ValueError, match="language 'a': no text to predict"):
        compare_predictability(tokenizers, {"a": [b"x"]}, {"a": [b""]})


def test_a_token_that_text_becomes_has_the_length_of_its_text(tokenizers):
    assert measure_tokens(tokenizers["words"])[tokenizers["words"].special_id("<|end|>")] == len("<|end|>")


def test_texts_are_drawn_until_they_are_enough():
    texts = [bytes([letter]) * 10 for letter in range(65, 90)]
    assert draw_texts(texts, 31) == draw_texts(texts[::-1], 10**6)[:4]


@pytest.mark.parametrize(("num", "lengths"), [(0, []), (1, [1]), (2, [2]), (3, [2, 0, 1]), (4, [2, 0, 2])])
def test_documents_are_cut_at_a_token(num, lengths):
    ids, offsets = join_ids([[1, 2], [], [3, 4]])
    cut = cut_tokens(Encoded(ids, offsets, np.zeros(3, np.int64)), num)
    assert np.diff(cut.offsets).tolist() == lengths
    assert cut.ids.tolist() == [1, 2, 3, 4][:num]


@examples(50)
@given(st.lists(st.tuples(st.floats(0, 1e3), st.integers(1, 1000)), min_size=2, max_size=20))
def test_margins_leave_out_one_document_after_the_other(documents):
    above, below = np.array([one[0] for one in documents]), np.array([one[1] for one in documents])
    ratio = estimate_ratio(above, below)
    num = len(documents)
    rest = [[*documents[:i], *documents[i + 1 :]] for i in range(num)]
    without = [sum(a for a, _ in one) / sum(b for _, b in one) for one in rest]
    error = sum((one - sum(without) / num) ** 2 for one in without) * (num - 1) / num
    assert ratio.value == pytest.approx(above.sum() / below.sum())
    assert ratio.margin == pytest.approx(1.96 * error**0.5, abs=1e-6)


def test_a_difference_is_known_better_than_what_it_is_of(texts, tokenizers):
    told = compare_predictability(tokenizers, *texts)
    one, other = (told[name]["a"].equal_data for name in ("words", "bytes"))
    difference = one.minus(other)
    assert difference.value == pytest.approx(one.bits_per_byte.value - other.bits_per_byte.value)
    assert difference.margin < one.bits_per_byte.margin + other.bits_per_byte.margin


def test_one_document_has_no_margin():
    one = estimate_ratio(np.array([3.0]), np.array([2]))
    assert one == (1.5, None)
    assert average([one, one]) == (1.5, None)


def test_any_texts_can_be_predicted(tokenizers):
    tokenizer = tokenizers["bytes"]
    learned, predicted = (tokenizer.encode_strings(of) for of in (["ab"] * 3, ["ab", "ba"]))
    seen, turned = predict(learned, predicted, np.array([2, 2]), measure_tokens(tokenizer)).bits.tolist()
    assert seen < turned
