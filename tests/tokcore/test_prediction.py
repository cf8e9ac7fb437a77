"""Bits per byte of tokenizers beside each other: how texts are dealt, who stands beside whom, and the figures."""

from __future__ import annotations

import hashlib
import json
import math
import statistics

import numpy as np
import pytest
from support.builds import texts as draw_texts
from support.vocabularies import published_tokenizer

from tokcore import Tokenizer, kernel
from tokcore.evaluate.evaluation import evaluate
from tokcore.evaluate.prediction import deal_texts, group_sizes, measure_prediction
from tokcore.reference.reference_ngram import KneserNey

TEXTS = {lang: [text.encode() for text in draw_texts(lang, num)] for lang, num in (("en", 15), ("ru", 15), ("hi", 9))}
KINDS = ("equal_data", "equal_tokens")


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    learned = [text.decode() for of in TEXTS.values() for text in of]
    return {
        "larger": Tokenizer.train(learned, vocab_size=403),
        "r50k": published_tokenizer("r50k"),
        "fewest": Tokenizer.train(learned, vocab_size=400, model="pathpiece"),
    }


@pytest.fixture(scope="module")
def told(tokenizers):
    return measure_prediction(tokenizers, TEXTS)


def predict_in_plain_python(tokenizer: Tokenizer, learned: list[list[int]], text: bytes) -> tuple[float, int]:
    """(bits, bytes of the contexts) of a text: order 12, 48 bytes."""
    model = KneserNey(learned, 12, tokenizer.vocab_size)
    ids = tokenizer.encode(text).tolist()
    bits, seen = 0.0, 0
    for place, token in enumerate(ids):
        start, size = place, 0
        while start > 0 and place - start < 11 and size + len(tokenizer.token_bytes(ids[start - 1])) <= 48:
            start -= 1
            size += len(tokenizer.token_bytes(ids[start]))
        context = tuple(ids[start:place])
        if start == 0 and place < 11:
            context = (-1, *context)
        bits -= math.log2(model.find_probability(context, token))
        seen += size
    return bits, seen


def test_figures_are_those_of_plain_python(told, tokenizers):
    dealt = {lang: [[], []] for lang in ("en", "ru")}
    for lang, (learned, predicted) in dealt.items():
        for i, text in enumerate(sorted({*TEXTS[lang]}, key=lambda text: hashlib.sha256(text).digest()), 1):
            (learned if i % 5 else predicted).append(text)
    for name in ("larger", "fewest"):
        tokenizer = tokenizers[name]
        for kind in KINDS:
            for lang, (learned, predicted) in dealt.items():
                ids = [tokenizer.encode(text).tolist() for text in learned]
                if kind == "equal_tokens":
                    fewest = min(
                        sum(len(tokenizers[one].encode(text)) for text in learned) for one in ("larger", "fewest")
                    )
                    ends = np.cumsum([0, *map(len, ids)]).tolist()
                    ids = [of[: max(fewest - end, 0)] for of, end in zip(ids, ends, strict=False)]
                found = [predict_in_plain_python(tokenizer, ids, text) for text in predicted]
                one = told[name]["languages"][lang][kind]
                assert one["learned_tokens"] == sum(map(len, ids))
                value = sum(bits for bits, _ in found) / sum(map(len, predicted))
                assert one["value"] == pytest.approx(value, abs=2e-6)
                num_tokens = sum(len(tokenizer.encode(text)) for text in predicted)
                assert one["context_bytes"] == pytest.approx(sum(seen for _, seen in found) / num_tokens, abs=2e-6)
            by_lang = [of[kind]["value"] for of in told[name]["languages"].values()]
            assert told[name][kind]["value"] == pytest.approx(statistics.mean(by_lang), abs=2e-6)


def test_margins_of_languages_make_that_of_the_mean(told):
    margins = [of["equal_data"]["margin"] for of in told["larger"]["languages"].values()]
    assert min(margins) > 0
    expected = math.hypot(*margins) / len(margins)
    assert told["larger"]["equal_data"]["margin"] == pytest.approx(expected, abs=2e-6)


def test_only_those_of_the_same_size_stand_beside_each_other(told, tokenizers):
    assert {name: of["beside"] for name, of in told.items()} == {
        "larger": ["larger", "fewest"],
        "r50k": ["r50k"],
        "fewest": ["larger", "fewest"],
    }
    alone = measure_prediction({"r50k": tokenizers["r50k"]}, TEXTS)
    assert alone["r50k"] == told["r50k"], "those of other sizes change nothing"
    assert told["r50k"]["equal_data"] == told["r50k"]["equal_tokens"]
    assert group_sizes({"a": 1021, "b": 1000, "c": 1020, "d": 1042}) == [["b", "c"], ["a"], ["d"]]


def test_a_language_of_few_texts_has_no_figure(told, tokenizers):
    for of in told.values():
        assert of["languages"].keys() == {"en", "ru"}
    none = measure_prediction({"larger": tokenizers["larger"]}, {"hi": TEXTS["hi"]})["larger"]
    assert (none["equal_data"], none["equal_tokens"], none["languages"]) == (None, None, {})


def test_the_same_for_any_threads_order_of_texts_and_implementation(told, tokenizers):
    turned = {lang: TEXTS[lang][::-1] * 2 for lang in reversed(TEXTS)}
    with kernel.force("portable"):
        assert measure_prediction(tokenizers, turned, threads=3) == told


def test_they_are_part_of_an_evaluation(told, tokenizers):
    found = evaluate(tokenizers, TEXTS, threads=2)
    assert {name: of["prediction"] for name, of in found.items()} == told
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_every_fifth_text_is_predicted():
    dealt = deal_texts([b"%d" % i for i in range(23)] + [b"", b"7"])
    assert (len(dealt.learned), len(dealt.predicted)) == (19, 4)
    assert sorted([*dealt.learned, *dealt.predicted]) == sorted(b"%d" % i for i in range(23))
