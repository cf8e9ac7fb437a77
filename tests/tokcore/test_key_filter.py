"""KeyFilter: what was added is found, and of the rest so many as it says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore.count.key_filter import KeyFilter
from tokcore.text.texts import make_texts_from_strings


@given(st.lists(st.binary(max_size=20)), st.integers(0, 100))
def test_what_was_added_is_found(strings, expected):
    seen = KeyFilter(expected, 1 << 16)
    seen.add(make_texts_from_strings(strings[::2]))
    seen.add(make_texts_from_strings(strings))
    assert seen.find(make_texts_from_strings(strings)).all()


@pytest.mark.parametrize(("most_bytes", "least", "most"), [(1 << 20, 0, 0.01), (1 << 13, 0.01, 0.5)])
def test_it_tells_how_often_it_is_wrong(most_bytes, least, most):
    seen = KeyFilter(20_000, most_bytes)
    seen.add(make_texts_from_strings([f"seen {i}" for i in range(20_000)]))
    assert seen.size_bytes <= most_bytes
    wrong = seen.find(make_texts_from_strings([f"other {i}" for i in range(20_000)])).mean()
    assert least <= seen.share_wrong <= most
    assert wrong == pytest.approx(seen.share_wrong, rel=0.2, abs=0.001)


def test_an_empty_filter_finds_nothing():
    seen = KeyFilter(0, 1 << 20)
    assert seen.share_wrong == 0
    assert not seen.find(make_texts_from_strings(["", "a"])).any()
