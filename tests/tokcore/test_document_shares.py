"""How many tokens of each language a mixture gets, and how often its documents come: exact, and as asked for."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore.errors import ConfigError
from tokcore.learn.language_weights import compute_unimax_targets
from tokcore.train.document_shares import MOST_COPIES, Copies, choose_copies, share_tokens

SIZES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 10**12), min_size=1)


@given(SIZES, st.integers(1, 10**14), st.decimals("0.5", "20", places=1))
def test_unimax_is_that_of_the_paper(sizes, tokens, max_epochs):
    """As for counts: the slow way is there."""
    if tokens > Fraction(max_epochs) * sum(sizes.values()):
        with pytest.raises(ConfigError, match=r"cannot be reached: with mixture.max_epochs there are"):
            share_tokens(sizes, "unimax", tokens=tokens, max_epochs=max_epochs)
        return
    expected = compute_unimax_targets(sizes, tokens, max_epochs)
    assert share_tokens(sizes, "unimax", tokens=tokens, max_epochs=max_epochs) == {
        name: int(share) for name, share in expected.items()
    }


@given(SIZES, st.sampled_from(["natural", "temperature", "weights"]), st.data())
def test_the_tokens_are_there_and_none_gets_more_than_its_epochs(sizes, strategy, data):
    """And those below their limit keep their proportions."""
    weights = {name: data.draw(st.decimals("0", "9", places=2)) for name in sizes}
    max_epochs = data.draw(st.decimals("0.1", "9", places=1))
    told = {"alpha": Decimal("0.5"), "weights": weights if strategy == "weights" else {}}
    wanted = {name for name in sizes if strategy != "weights" or weights[name]}
    reachable = int(Fraction(max_epochs) * sum(sizes[name] for name in wanted))
    if not wanted or not reachable:
        return
    tokens = data.draw(st.integers(1, reachable))
    free = share_tokens(sizes, strategy, tokens=tokens, **told)
    limited = share_tokens(sizes, strategy, tokens=tokens, max_epochs=max_epochs, **told)
    assert 0 <= tokens - sum(free.values()) <= len(sizes)
    assert 0 <= tokens - sum(limited.values()) <= len(sizes)
    assert all(limited[name] <= Fraction(max_epochs) * size for name, size in sizes.items())
    assert all(limited[name] >= free[name] or limited[name] + 1 > max_epochs * sizes[name] for name in sizes)


def test_weights_are_factors_on_tokens():
    weights = {"a": Decimal("0.25"), "b": Decimal(3), "c": Decimal(0)}
    told = {"a": 100, "b": 10, "c": 5, "d": 7, "e": 0}
    assert share_tokens(told, "weights", weights=weights) == {"a": 25, "b": 30, "c": 0, "d": 7, "e": 0}
    with pytest.raises(ConfigError, match=r"mixture.weights.x: no training document is of it, only of a, b"):
        share_tokens({"a": 1, "b": 1}, "weights", weights={"x": Decimal(2)})
    with pytest.raises(ConfigError, match="are all 0"):
        share_tokens({"c": 5}, "weights", weights={"c": Decimal(0)})
    with pytest.raises(ConfigError, match="no training documents to mix"):
        share_tokens({"c": 0}, "natural")


@given(st.lists(st.integers(0, 1000), min_size=4, max_size=4), st.integers(0, 10_000))
def test_copies_give_the_tokens_within_one_interval(cells, wanted):
    """Where documents are spread evenly within an interval."""
    size = sum(cells)
    if not size or wanted // size >= MOST_COPIES:
        return
    whole, cut = choose_copies("en", wanted, cells)
    assert 0 <= cut < 1 << 64
    width = 1 << 62
    more = sum(Fraction(tokens * min(max(cut - i * width, 0), width), width) for i, tokens in enumerate(cells))
    assert abs(whole * size + more - wanted) < Fraction(1, 1000)


def test_documents_that_would_come_too_often_are_named():
    assert choose_copies("en", 0, [0, 0]) == Copies(0, 0)
    assert choose_copies("en", 5, [5, 0]) == Copies(1, 0)
    with pytest.raises(ConfigError, match=r"documents of 'sw' would come 2000 times, expected at most"):
        choose_copies("sw", 2000, [1, 0])
