"""Shares by level against a loop over plain fractions, and the properties that they have whatever the sizes are."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.examples import examples

from tokcore.errors import ConfigError
from tokcore.learn.language_groups import find_family, find_script, list_families, list_scripts
from tokcore.learn.level_shares import Level, add_up_paths, mix_by_levels, share_by_levels

ITEMS = ("a", "b", "c")
SIZES = st.dictionaries(st.tuples(*[st.sampled_from(ITEMS)] * 3), st.integers(1, 10**6), min_size=1)
NUMBERS = st.decimals("0.01", 9, places=2)


@st.composite
def draw_level(draw, name: str) -> Level:
    kind = draw(st.sampled_from(["sizes", "equal", "weights", "shares"]))
    if kind == "equal":
        return Level(name, alpha=Decimal(0))
    if kind == "weights":
        return Level(name, weights=draw(st.dictionaries(st.sampled_from(ITEMS), NUMBERS)))
    if kind == "shares":
        named = draw(st.lists(st.sampled_from(ITEMS), max_size=2, unique=True))
        return Level(name, shares={item: Decimal("0.3") + number for number, item in enumerate(named) if not number})
    return Level(name)


LEVELS = st.tuples(*(draw_level(f"mix.levels.{number}") for number in range(3)))


def share_by_hand(sizes: dict, levels: tuple, budget: Fraction, depth: int = 0) -> dict:
    """The oracle: the budget among items, then what each has among those below."""
    if depth == len(levels):
        return {(): budget}
    level, items = levels[depth], sorted({path[0] for path in sizes})
    below = {item: {path[1:]: size for path, size in sizes.items() if path[0] == item} for item in items}
    size = {item: sum(of.values()) for item, of in below.items()}
    if level.alpha is not None:
        part = dict.fromkeys(items, Fraction(1))
    elif level.shares:
        told = {item: Fraction(level.shares[item]) for item in items if item in level.shares}
        rest = [item for item in items if item not in told]
        left = 1 - sum(Fraction(one) for one in level.shares.values())
        part = {item: told[item] if item in told else left * size[item] / sum(map(size.get, rest)) for item in items}
    else:
        part = {item: Fraction((level.weights or {}).get(item, 1)) * size[item] for item in items}
    whole = sum(part.values())
    return {
        (item, *path): got
        for item in items
        for path, got in share_by_hand(below[item], levels, budget * part[item] / whole, depth + 1).items()
    }


@examples(200)
@given(SIZES, LEVELS, st.integers(1, 10**9))
def test_each_level_shares_what_the_one_above_has(sizes, levels, budget):
    got = share_by_levels(sizes, levels, Fraction(budget))
    assert got == share_by_hand(sizes, levels, Fraction(budget))
    assert sum(got.values()) == budget


@examples(200)
@given(SIZES, LEVELS, st.integers(0, 2), NUMBERS, NUMBERS)
def test_no_item_gets_more_than_its_cap_and_nothing_is_lost(sizes, levels, depth, epochs, other):
    caps = {depth: epochs, 2: other}
    levels = [level._replace(max_epochs=caps.get(number)) for number, level in enumerate(levels)]
    budget, sums = Fraction(sum(sizes.values())), add_up_paths(sizes)
    try:
        got = share_by_levels(sizes, levels, budget)
    except ConfigError:
        # Nothing else may be refused than what no dealing out can reach.
        most = {path: min(size * Fraction(caps[2]), size * Fraction(caps[depth])) for path, size in sums.items()}
        tightest = min(Fraction(one) for one in caps.values())
        assert tightest < 1
        assert sum(min(most[path], most[path[: depth + 1]]) for path in sizes) < budget
        return
    assert sum(got.values()) == budget
    for path, reached in add_up_paths(got).items():  # type: ignore[arg-type]
        limits = [one for number, one in caps.items() if len(path) == number + 1]
        assert all(reached <= Fraction(limit) * sums[path] for limit in limits)
    # What is not full at a level has the proportions that the level asks for, as without caps.
    free = share_by_hand(sizes, tuple(level._replace(max_epochs=None) for level in levels), budget)
    assume(all(got[path] < Fraction(caps[2]) * sizes[path] for path in sizes))
    for path in sizes:
        beside = [one for one in sizes if one[:-1] == path[:-1]]
        assert got[path] * sum(free[one] for one in beside) == free[path] * sum(got[one] for one in beside)


def test_shares_and_weights_that_cannot_be():
    sizes = {("a",): 1, ("b",): 2}
    with pytest.raises(ConfigError, match=r"mix\.levels\.x\.shares: add up to 1, and leave nothing for 'b': name it"):
        share_by_levels(sizes, [Level("mix.levels.x", shares={"a": Decimal(1)})], Fraction(3))
    with pytest.raises(ConfigError, match=r"all weights are 0"):
        share_by_levels(sizes, [Level("x", weights={"a": Decimal(0), "b": Decimal(0)})], Fraction(3))
    with pytest.raises(ConfigError, match=r"x\.max_epochs: all text with at most that many repetitions is 1, and 3"):
        share_by_levels(sizes, [Level("x", max_epochs=Decimal("0.5"))], Fraction(3))
    # Where nothing below an item gets any, the others get what it would have had.
    sizes = {("a", "x"): 1, ("b", "y"): 2}
    levels = [Level("first", alpha=Decimal(0)), Level("second", weights={"x": Decimal(0)})]
    assert share_by_levels(sizes, levels, Fraction(8)) == {("a", "x"): 0, ("b", "y"): 8}
    # Shares of what is there are scaled up.
    shares = Level("x", shares={"a": Decimal("0.2"), "b": Decimal("0.6"), "gone": Decimal("0.1")})
    assert share_by_levels({("a",): 7, ("b",): 1}, [shares], Fraction(4)) == {("a",): 1, ("b",): 3}


@examples(100)
@given(SIZES, LEVELS)
def test_weights_are_the_shares_over_the_sizes_to_the_last_bit(sizes, levels):
    paths = {"/".join(path): path for path in sizes}
    named = {"/".join(path): size for path, size in sizes.items()}
    mixed = mix_by_levels(paths, named, named, levels, {})
    got = share_by_hand(sizes, levels, Fraction(sum(sizes.values())))
    for name, path in paths.items():
        exact = got[path] / sizes[path] * 2**mixed.scale_bits / mixed.scale_divisor
        assert abs(mixed.weights[name] - exact) <= Fraction(1, 2) or mixed.weights[name] == 1


def test_groups_of_languages():
    for lang, family, script in (
        *(("en", "germanic", "Latn"), ("zh", "sinitic", "Hans"), ("zh-Hant-TW", "sinitic", "Hant")),
        *(("srp_Latn", "slavic", "Latn"), ("kaz", "turkic", "Cyrl"), ("hin_Deva", "indic", "Deva")),
        *(("code", "other", "other"), ("sw", "bantu", "Latn"), ("am", "semitic", "Ethi")),
    ):
        assert (find_family(lang), find_script(lang)) == (family, script), lang
    assert {"germanic", "turkic"} <= {*list_families()}
    assert {"Latn", "Cyrl"} <= {*list_scripts()}
