"""Runs of words that texts share with test items: those that a search for each run finds."""

from __future__ import annotations

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from tokcore.text.quality import overlap
from tokcore.text.quality.overlap import OverlapIndex, list_words

SPELLED = st.sampled_from(["a", "B", "b", "a1", "é", "e\u0301", "Ｆ", "f", "ß", "漢字", "_", "- ", "x\n"])
TEXTS = st.lists(SPELLED, max_size=12).map(lambda words: " ".join(words).encode())


def list_words_by_hand(text):
    normal = unicodedata.normalize("NFKC", text.decode()).lower()
    return [word.encode() for word in re.findall(r"[^\W_]+", normal)]


def find_by_hand(items, n, text):
    words = list_words_by_hand(text)
    runs = {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}
    found = []
    for number, item in enumerate(items):
        own = list_words_by_hand(item)
        if any(tuple(own[i : i + n]) in runs for i in range(len(own) - n + 1)):
            found.append(number)
    return tuple(found)


@given(TEXTS)
def test_words_are_runs_of_letters_and_digits(text):
    assert list_words(text) == list_words_by_hand(text)


@given(st.lists(TEXTS, max_size=6), st.integers(1, 4), st.lists(TEXTS, max_size=4))
def test_what_is_found_is_what_a_search_finds(items, n, texts):
    index = OverlapIndex(items, n)
    assert [index.find_items(text) for text in texts] == [find_by_hand(items, n, text) for text in texts]
    assert index.num_short == sum(len(list_words_by_hand(item)) < n for item in items)


@given(st.lists(TEXTS, max_size=6), st.integers(1, 3), TEXTS)
def test_runs_of_equal_hash_are_told_apart(items, n, text):
    was = overlap._FACTOR
    overlap._FACTOR = 0  # so that all runs have one hash
    try:
        assert OverlapIndex(items, n).find_items(text) == find_by_hand(items, n, text)
    finally:
        overlap._FACTOR = was


def test_invalid_utf8_separates_words():
    assert list_words(b"ab\xffcd \xe9") == [b"ab", b"cd"]
