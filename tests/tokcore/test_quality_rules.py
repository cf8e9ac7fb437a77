"""Ready rules: decisions of datatrove, recorded, and its definitions written out again over the same words."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.quality_texts import make_texts

from tokcore.text.quality.gopher import STOP_WORDS, GopherQuality, GopherRepetition
from tokcore.text.quality.label_script import LabelScript, find_script
from tokcore.text.quality.measures import Measure
from tokcore.text.quality.rules import RULES
from tokcore.text.quality.words import SIGNS, count_sentences, has_letter, split_words

DECISIONS = json.loads((Path(__file__).parents[1] / "data" / "datatrove_decisions.json").read_text())
# Reasons of datatrove -> ours.
REASONS = {
    "gopher_short_doc": "short_doc",
    "gopher_long_doc": "long_doc",
    "gopher_below_avg_threshold": "short_words",
    "gopher_above_avg_threshold": "long_words",
    "gopher_too_many_hashes": "hashes",
    "gopher_too_many_ellipsis": "ellipses",
    "gopher_too_many_bullets": "bullet_lines",
    "gopher_too_many_end_ellipsis": "ellipsis_lines",
    "gopher_below_alpha_threshold": "words_without_letters",
    "gopher_enough_stop_words": "stop_words",
    "too_few_sentences": "few_sentences",
    **{f"duplicated_{n}_n_grams": f"dup_{n}_gram" for n in range(5, 11)},
}


@pytest.fixture(scope="module")
def texts():
    made = make_texts(len(DECISIONS["words"]))
    assert hashlib.sha256("\0".join(made).encode()).hexdigest() == DECISIONS["texts"]
    return made


@pytest.mark.parametrize("name", ["gopher_quality", "gopher_repetition", "c4_quality"])
def test_decisions_are_those_of_datatrove(texts, name):
    rule = RULES[name]
    expected = [REASONS.get(reason, reason) for reason in DECISIONS[name]]
    assert len(set(expected)) > 3, "texts of several faults"
    assert [rule.find_reason(text, rule.parameters(), "en") for text in texts] == expected


def test_words_are_those_of_spacy(texts):
    assert [len(split_words(text)) for text in texts] == DECISIONS["words"]


def repeats_by_hand(words, n):
    """datatrove's find_all_duplicate, over tuples of words."""
    seen, characters, at = set(), 0, 0
    while at < len(words) - n + 1:
        gram = tuple(words[at : at + n])
        if gram in seen:
            characters += sum(map(len, gram))
            at += n
        else:
            seen.add(gram)
            at += 1
    return characters


WORD = st.sampled_from(["a", "bb", "the", "#", "...", "- x", "\n", "\n\n", "é", "42"])
WORDY = st.lists(WORD, max_size=60) | st.lists(WORD, min_size=2, max_size=9).map(lambda words: words * 5)


@given(WORDY.map(" ".join), st.sampled_from(["en", "de"]))
def test_measures_are_their_definitions(text, lang):
    words = split_words(text)
    told = {one.name: one.value for one in RULES["gopher_repetition"].measure(text, GopherRepetition(), lang)}
    for n in range(5, 11):
        assert told[f"dup_{n}_gram"] == repeats_by_hand(words, n) / max(1, len(text))
    for n in (2, 3, 4):
        grams = [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]
        if grams:
            (top, times) = max(Counter(grams).items(), key=lambda one: one[1])
            assert told[f"top_{n}_gram"] == len(top) * times / max(1, len(text))
    if "\n\n" not in text:
        lines = text.split("\n")
        repeated = [line for i, line in enumerate(lines) if line in lines[:i]]
        assert told["dup_line_frac"] == len(repeated) / len(lines)
        assert told["dup_line_char_frac"] == sum(map(len, repeated)) / max(1, len(text))
    quality = {one.name: one.value for one in RULES["gopher_quality"].measure(text, GopherQuality(), lang)}
    real = [word for word in words if any(character not in SIGNS for character in word)]
    assert quality["short_doc"] == len(real)
    assert quality["long_words"] == (sum(map(len, real)) / len(real) if real else 0)
    assert quality["words_without_letters"] == sum(map(has_letter, words)) / max(1, len(words))
    assert ("stop_words" in quality) == (lang == "en")


@given(st.text(max_size=300))
def test_no_text_breaks_a_rule(text):
    for rule in RULES.values():
        for measure in rule.measure(text, rule.parameters(), "en"):
            assert measure.is_kept == (measure.margin >= 0)
    # Words are the text, without its spaces.
    assert "".join(split_words(text)) == "".join(text.split())


@pytest.mark.parametrize(
    ("line", "num"),  # as datatrove 0.10.1 counts them, with spaCy's rules for English
    [
        ("Сокрытие немного улучшает защиту системы. Но бывают случаи.", 2),
        ("Η Αθήνα είναι πόλη. Είναι και πρωτεύουσα.", 2),
        ("서울은 수도이다. 부산은 항구이다.", 2),
        ("שלום לכולם. מה שלומכם.", 2),
        ("Он родился в США. Потом уехал.", 2),
        ("Это писал А. Блок о городе.", 1),
    ],
)
def test_a_full_stop_ends_sentences_in_other_alphabets(line, num):
    assert count_sentences(line) == num


@pytest.mark.parametrize(
    ("lang", "text", "is_kept"),
    [
        ("en", "plain English", True),
        ("en", "Это по-русски", False),
        ("ru", "Это по-русски", True),
        ("zh", "中文 text", False),
        ("zh-Hant", "中文中文中文", True),
        ("ja", "日本語とかな", True),
        ("eng_Latn", "plain", True),
        ("sr-Cyrl", "Ово је", True),
        ("sr-Cyrl", "Ovo je", False),
        ("xx", "anything", True),
        ("en", "12 34 !!", True),
        ("de", "", True),
    ],
)
def test_the_script_of_a_label(lang, text, is_kept):
    rule = RULES["label_script"]
    assert (rule.find_reason(text, LabelScript(), lang) == "") == is_kept


def test_limits_can_be_left_out():
    none = GopherQuality(0, 0, 0, 0, 0, 0, 0, 0, 0)
    assert [*RULES["gopher_quality"].measure("x", none, "en")] == []
    assert Measure("m", 2, least=1, most=2).is_kept
    assert not Measure("m", 3, most=2).is_kept
    assert find_script("zz") == ""
    assert [*RULES["gopher_quality"].measure("x", GopherQuality(stop_words=("le",)), "fr")][-1].name == "stop_words"
    assert GopherQuality().stop_words == STOP_WORDS
