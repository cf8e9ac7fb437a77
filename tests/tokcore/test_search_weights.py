"""The search for weights: what it tries, where it stops, and that it finds what there is to find."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from tokcore.learn.mix_search import (
    Direction,
    Worth,
    find_exact_quantile,
    miss_at_least,
    miss_at_most,
    round_weight,
    search_weights,
)

ITEMS = ("a", "b", "c")
EACH = [Direction(item, (item,)) for item in ITEMS]
FACTORS = st.fractions("1/1000", 1000)


@examples(60)
@given(
    st.fixed_dictionaries(dict.fromkeys(ITEMS, FACTORS)),
    st.fixed_dictionaries({item: st.integers(1, 10**9) for item in ITEMS}),
    st.integers(-8, 8),
    st.integers(-8, 8),
    st.integers(1, 300),
)
def test_the_best_of_a_bowl_is_found_and_no_mix_is_tried_twice(start, sizes, first, second, most):
    """The goal is a mix on the lattice of the search, up to a common factor."""
    goal = {"a": first, "b": second, "c": 0}
    asked = []

    def measure(weights):
        asked.append(tuple(weights.items()))
        assert abs(sum(Fraction(weights[i]) * sizes[i] for i in ITEMS) / sum(sizes.values()) - 1) < Fraction(1, 1000)
        away = 0
        for item in ("a", "b"):
            ratio = float(Fraction(weights[item]) / Fraction(weights["c"]) * start["c"] / start[item])
            away += abs(round(4 * np.log2(ratio)) - goal[item])
        return Worth(Fraction(0), Fraction(away), 0)

    tries = search_weights(start, sizes, lambda _: EACH, measure, most)
    assert len(tries) == len(asked) <= most
    better = [one.worth for one in tries if one.is_better]
    assert better == sorted(set(better), reverse=True)
    assert min(one.worth for one in tries) == better[-1]
    if len(tries) < most:
        assert better[-1] == Worth(Fraction(0), Fraction(0), 0)
    repeated = search_weights(start, sizes, lambda _: EACH, measure, most)
    assert repeated == tries


def test_fewer_tokens_decide_between_mixes_that_miss_alike():
    tokens = iter((9, 8, 8, 7))
    measure = lambda _: Worth(Fraction(0), Fraction(1), next(tokens))  # noqa: E731
    tries = search_weights({"a": Fraction(1), "b": Fraction(1)}, {"a": 1, "b": 1}, lambda _: EACH[:1], measure, 4)
    assert [one.is_better for one in tries] == [True, True, False, True]


@examples(300)
@given(st.fractions("1/100000", 10**7))
def test_weights_have_four_digits_and_are_near(factor):
    weight = round_weight(factor)
    assert abs(Fraction(weight) / factor - 1) <= Fraction(1, 2000)
    assert len(str(weight).replace(".", "").strip("0")) <= 4
    assert "E" not in f"{weight:f}"


@examples(100)
@given(st.lists(st.fractions(0, 100), min_size=1, max_size=30), st.fractions(0, 1))
def test_quantiles_are_those_of_numpy(values, share):
    expected = np.quantile([float(one) for one in values], float(share))
    assert abs(float(find_exact_quantile(values, share)) - expected) < 1e-9


def test_a_floor_is_not_given_up_for_a_target():
    """More of a reaches the target and breaks the floor; the search stays below that."""
    broken_above = Fraction(5, 4)

    def measure(weights):
        a = Fraction(weights["a"])
        return Worth(max(Fraction(0), a - broken_above), abs(a - Fraction(3, 2)), 0)

    tries = search_weights({"a": Fraction(1), "b": Fraction(1)}, {"a": 1, "b": 1}, lambda _: EACH[:2], measure, 50)
    best = max((one for one in tries if one.is_better), key=tries.index)
    assert best.worth.broken == 0
    assert Fraction(1) < Fraction(best.weights["a"]) <= broken_above


def test_what_is_missed():
    assert miss_at_most(Fraction(3), Fraction(2)) == Fraction(1, 2)
    assert miss_at_most(Fraction(2), Fraction(2)) == miss_at_least(Fraction(2), Fraction(2)) == 0
    assert Decimal(str(float(miss_at_least(Fraction(1), Fraction(2))))) == Decimal("0.5")
